"""`eyechart humans`: list, import, merge, measure and draw human references."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options, examples, folder_or_file
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import print_notes, print_table
from eyechart.cli.similar import similar
from eyechart.core.arguments import digits
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.humans.human_settings import ComparisonSettings, HumanSettings, ImportSettings
from eyechart.stats.curve_settings import CurveSettings

if TYPE_CHECKING:
    from eyechart.humans.human_responses import HumanResponses
    from eyechart.humans.reference import Reference
    from eyechart.scores.scoring import HumanArea


ParquetOut = Annotated[
    Path, typer.Option(metavar="FILE.parquet", parser=folder_or_file, help="File to write.")
]


@examples(
    "eyechart humans list",
    "eyechart humans list study.parquet",
)
def list_references(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]…", help="Imported files to list as well.")
    ] = None,
) -> None:
    """List human references with their experiments, participants, responses and range of Δv."""
    from eyechart.humans.reference import PACKAGED, find_reference

    # read all before printing any
    for reference in [find_reference(name) for name in (*PACKAGED, *(files or ()))]:
        print(f"{reference.name}: {_choices(reference)}")
        if reference.citation:
            license = reference.responses.license
            print(f"  {reference.citation}{f' {license}.' if license else ''}")
        _print_experiments(reference)


@examples(
    "eyechart humans import responses.csv --format trials --out study.parquet",
    "eyechart humans import a.csv --format trials --choices 16 --out study.parquet",
)
@derived_options
def import_files(settings: ImportSettings, out: ParquetOut) -> None:
    """Convert tables of human responses to a reference file that --humans accepts."""
    from eyechart.humans.importing import COUNTED_CHOICES, import_responses

    _check_parquet(out)
    _write(out, import_responses(**vars(settings)))
    if settings.form == "counts" and settings.choices is None:
        print(f"Assumed {COUNTED_CHOICES} choices, the default of this format; see --choices.")


@examples(
    "eyechart humans merge geirhos study.parquet --out both.parquet",
    "eyechart humans merge first.parquet second.parquet --out pooled.parquet",
)
def merge_references(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="REFERENCE…",
            help="Human references: geirhos, imported files, or study folders.",
        ),
    ],
    out: ParquetOut,
) -> None:
    """Merge human references into one file, pooling responses to the same corruption."""
    from eyechart.humans.combined import merge
    from eyechart.humans.reference import find_reference

    _check_parquet(out)
    if len(references) < 2:
        raise UsageError("Give at least two references to merge.")
    parts = [find_reference(name) for name in references]
    _write(out, merge(parts), f", from {', '.join(part.name for part in parts)}")


def _check_parquet(out: Path) -> None:
    check_file_to_write(out)
    if out.suffix != ".parquet":
        raise UsageError(f"--out must end in .parquet, got '{out.suffix}'.")


def _write(out: Path, responses: "HumanResponses", origin: str = "") -> None:
    """Write the responses as a reference, and print what it contains."""
    from eyechart.humans.human_responses import write_responses
    from eyechart.humans.reference import Reference

    write_responses(out, responses)
    reference = Reference(out.stem, responses)
    print(f"{out}: {_choices(reference)}{origin}")
    _print_experiments(reference)


def _choices(reference: "Reference") -> str:
    words = f"{reference.choices} choices"
    return words if reference.label_space == words else f"{words} ({reference.label_space})"


def _print_experiments(reference: "Reference") -> None:
    from eyechart.humans.reference_caveats import simulated_note

    print_notes([simulated_note(reference)])
    for experiment in reference.responses.experiments:
        print(f"  {_line(reference, experiment)}")


def _line(reference: "Reference", experiment: str) -> str:
    """Return a line with an experiment's size and the corruptions it is a reference for."""
    import numpy as np

    responses = reference.responses.only(reference.responses.corruption == experiment)
    seen = responses.delta_v[~np.isnan(responses.delta_v)]
    if not seen.size:
        return (
            f"{experiment}: {reference.size_in_words(experiment)}, no Δv, so there are no"
            " curves, only error consistency κ"
        )
    where = f"Δv {seen.min():.2f} to {seen.max():.2f}"
    known = [
        name
        for name, values in (("accuracy", responses.correct), ("consistency", responses.consistent))
        if not np.isnan(values).all()
    ]
    start = reference.left_end(experiment)
    clean = ""
    if start is not None:
        rate, is_own = start
        source = "" if is_own else " (from other participants)"
        clean = f", accuracy on clean images {rate:.3f}{source}"
    return (
        f"{experiment}: {reference.size_in_words(experiment)}, {where}, {' and '.join(known)}"
        f"{clean}; {_matched(reference, experiment)}"
    )


def _matched(reference: "Reference", experiment: str) -> str:
    """Return text that names the corruptions for which an experiment is a reference."""
    from eyechart.corruptions.suites.suite import all_entries
    from eyechart.humans.transfer import direct_names

    direct = direct_names(experiment)
    words = [f"direct for {', '.join(direct)}"] if direct else []
    alike = reference.similar.find(experiment)
    if alike is not None:
        transferred = [
            name
            for name in all_entries()
            if name not in direct and reference.similar.find(name) is alike
        ]
        words.append(
            f"transferred to {', '.join(transferred)} ({alike.name} class, {alike.evidence})"
        )
    if not words:
        return f"matches no corruption in a suite; used for a custom corruption named {experiment}"
    return "; ".join(words)


SCORES = {"accuracy": "R_a", "consistency": "R_p"}
AREA_HEAD = (
    "experiment", "score", "area", "95 %", "83 %", "bounds", "at Δv 0", "bins", "humans",
    "responses",
)  # fmt: skip


@examples(
    "eyechart humans areas",
    "eyechart humans areas study.parquet --n-bootstrap 2000",
)
@derived_options
def areas(
    references: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REFERENCE]…",
            help="Human references: geirhos (default), imported files, or study folders.",
        ),
    ] = None,
    *,
    humans: HumanSettings,
    curves: CurveSettings,
) -> None:
    """Print R_a and R_p of humans, with confidence intervals."""
    from eyechart.humans.human_fit import category_mix
    from eyechart.humans.reference import find_reference
    from eyechart.humans.reference_caveats import dropped_bounds, mix_note, simulated_note
    from eyechart.scores.scoring import human_areas, make_fit

    fit = make_fit(curves)
    # read all before printing any
    chosen = [find_reference(name, humans.clean_responses) for name in references or ("geirhos",)]
    for reference in chosen:
        reference.check_curves()
    for reference in chosen:
        measured = list(human_areas(reference, fit))
        print(f"{reference.name}: {reference.choices} choices")
        rows = [_area_row(reference, area) for area in measured]
        print_table((AREA_HEAD, rows))
        for area in measured:
            if area.curve is None:
                print(f"Note: {area.experiment}, {area.metric}: {area.why.rstrip('.')}.")
        # what limits the areas: robots, dropped trials, and unequal numbers of each category
        print_notes([simulated_note(reference)])
        for experiment in reference.experiments if reference.responses.dropped else ():
            bounds = dropped_bounds(reference, experiment, **fit.human_options())
            if bounds is not None:
                dropped = count_of(bounds.n_dropped, "trial")
                print(
                    f"Note: {experiment}: participants dropped {dropped}; the area of accuracy"
                    f" would be {bounds.incorrect.area:.4f} if all of these were incorrect, and"
                    f" {bounds.correct.area:.4f} if all were correct."
                )
        for experiment in reference.experiments:
            known = [
                area.metric
                for area in measured
                if area.experiment == experiment and area.curve is not None
            ]
            names = category_mix(reference.responses.label)
            equal = {name: 1 / len(names) for name in names}
            note = mix_note(
                reference,
                experiment,
                known,
                equal,
                "a test with equal numbers of each",
                **fit.human_options(),
            )
            print_notes([note])
    print(
        f"area: area under the curve for Δv from 0 to 1, density {curves.density}. 95 %, 83 %:"
        " bootstrap confidence intervals over images or participants. bounds: smallest and largest"
        " possible area, given that the curve is unknown where there are no responses."
    )


def _area_row(reference: "Reference", area: "HumanArea") -> list[str]:
    from eyechart.stats.estimate import LEVELS

    start = [area.experiment, SCORES[area.metric]]
    # what counts for this curve: consistency needs clean responses too, which some images lack
    n_humans = reference.n_participants(area.experiment, area.metric)
    n_responses = reference.count(area.experiment, area.metric)
    end = [f"{n_humans:,}" if n_humans else "–", f"{n_responses:,}"]
    if area.curve is None:
        return [*start, *["–"] * (len(AREA_HEAD) - len(start) - len(end)), *end]
    curve = area.curve
    pairs = (*map(curve.interval, LEVELS), curve.bounds)
    clean = "–" if curve.left is None else f"{curve.left:.3f}"
    spans = [f"{low:.3f}–{high:.3f}" for low, high in pairs]
    return [*start, f"{curve.area:.3f}", *spans, clean, f"{len(curve.bins.counts)}", *end]


@examples(
    "eyechart humans plot --out humans.svg",
    "eyechart humans plot study.parquet --by-class --similar own.yaml --out a.pdf",
)
@derived_options
def plot(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", parser=folder_or_file, help="Figure to write: .svg, .pdf or .png."
        ),
    ],
    reference: Annotated[
        str,
        typer.Argument(metavar="[REFERENCE]", help="Human reference: geirhos or an imported file."),
    ] = "geirhos",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Draw one panel per class of similar corruptions.")
    ] = False,
    level: Annotated[
        float | None,
        typer.Option(
            help="Confidence level of the bands in percent; default: 95, or 83 with --by-class."
        ),
    ] = None,
    consistency: Annotated[
        bool,
        typer.Option(
            "--consistency", help="With --by-class: draw consistency instead of accuracy."
        ),
    ] = False,
    *,
    humans: Annotated[ComparisonSettings, Only("clean_responses", "similar")],
    curves: Annotated[
        CurveSettings, Only("bins", "min_per_bin", "binning", "estimator", "right_anchor")
    ],
) -> None:
    """Draw human curves with their confidence bands."""
    from eyechart.humans.reference import find_reference
    from eyechart.humans.reference_caveats import simulated_note
    from eyechart.humans.transfer import PUBLISHED, find_classes
    from eyechart.reports.figures.curve_figures import draw_by_class, draw_reference
    from eyechart.reports.figures.figure_files import check_figure, write_figure
    from eyechart.scores.scoring import human_areas, make_fit
    from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

    percent = 100 * (PUBLISHED_LEVEL if by_class else CONFIDENCE) if level is None else level
    if consistency and not by_class:
        raise UsageError("--consistency needs --by-class: add it, or omit --consistency.")
    if humans.similar_names != (PUBLISHED,) and not by_class:
        raise UsageError("--similar needs --by-class: add it, or omit --similar.")
    if not 0 < percent < 100:
        raise UsageError(f"--level must be between 0 and 100, got {digits(percent)}.")
    check_file_to_write(out)
    check_figure(out)
    fit = make_fit(curves)
    similar = find_classes(humans.similar_names)
    chosen = replace(find_reference(reference, humans.clean_responses), similar=similar)
    caption = (
        f"Human curves of {chosen.name} against visual change, with {percent:g} % confidence bands."
        f" {simulated_note(chosen)}"
    ).strip()
    metric = "consistency" if consistency else "accuracy"
    drawn = chosen.experiments
    if by_class:
        drawn = tuple(name for name in drawn if chosen.source(name, metric) is not None)
        make = partial(draw_by_class, chosen, metric, percent / 100, fit)
    else:
        make = partial(draw_reference, chosen, percent / 100, fit)
    write_figure(make, out, caption)
    for area in human_areas(chosen, fit):
        if area.curve is None:
            print(f"Note: {area.experiment}, {area.metric}: {area.why}.")
    print(
        f"{out}: curves of {', '.join(drawn)} from {chosen.name}. {simulated_note(chosen)}".strip()
    )


@examples(
    "eyechart humans place photos --out placement.csv",
    "eyechart humans place photos/cat photos/dog --out placement.csv",
)
def place_conditions(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES…", parser=folder_or_file, help="Image files or folders."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.csv", parser=folder_or_file, help="File to write.")
    ],
) -> None:
    """Measure the visual change of published experimental conditions on your images."""
    from eyechart.humans.placement import LEVELS, measure_placements, write_placements

    check_file_to_write(out)
    placements, count = measure_placements(images)
    write_placements(out, placements, count)
    for name, placement in placements.items():
        middles = (f"{changes[len(LEVELS) // 2]:.2f}" for changes in placement.quantiles.values())
        print(f"{name}: median Δv {', '.join(middles)}")
    print(f"{out}: quantiles of Δv over {count_of(count, 'image')}.")


app = CommandLine(
    help="Import, list, compare and draw human references.",
    commands={
        "areas": areas,
        "list": list_references,
        "import": import_files,
        "plot": plot,
        "place": place_conditions,
        "similar": similar,
        "merge": merge_references,
    },
)
