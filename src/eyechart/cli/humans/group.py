"""`eyechart humans`: people's answers to compare models with; list, import, plot, compare."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.humans.areas import areas
from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.core.errors import UsageError
from eyechart.curves.curve_settings import CurveSettings
from eyechart.pipeline.settings import HumanSettings

if TYPE_CHECKING:
    from eyechart.humans.reference import Reference

app = typer.Typer(help="People's answers to compare models with.", no_args_is_help=True)

app.command("areas")(areas)


@app.command("list")
def list_references(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]…", help="Imported files to list besides.")
    ] = None,
) -> None:
    """List references: experiments, people, answers, range of Δv, what they stand for."""
    from eyechart.humans.reference import PACKAGED, find_reference

    # all are read before anything is said of one
    for reference in [find_reference(name) for name in (*PACKAGED, *(files or ()))]:
        print(f"{reference.name}: {_choices(reference)}")
        if reference.citation:
            licence = reference.responses.licence
            print(f"  {reference.citation}{f' {licence}.' if licence else ''}")
        for experiment in reference.responses.experiments:
            print(f"  {_line(reference, experiment)}")


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", parser=folder_or_file, help="Tables: .csv or .csv.gz."),
    ],
    form: Annotated[
        str, typer.Option("--format", help="model-vs-human, vcr, counts or trials: see the docs.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.parquet", parser=folder_or_file, help="Where to write.")
    ],
    corruption: Annotated[
        str | None, typer.Option(help="What was done to the pictures, if the tables do not say.")
    ] = None,
    choices: Annotated[
        int | None, typer.Option(help="Between how many answers people chose.", min=2)
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            help="Whose conditions these are: noise, lowpass or contrast. Without it, and without"
            " a column delta_v, there are no curves, only error consistency κ."
        ),
    ] = None,
    judgements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="Same/different judgements to keep with the responses: columns a, b, shown_same,"
            " same, and subject if known.",
        ),
    ] = None,
    label_space: Annotated[
        str | None, typer.Option(help="What the labels are, if not the 16 categories.")
    ] = None,
    citation: Annotated[str, typer.Option(help="Whose data it is.")] = "",
    licence: Annotated[str, typer.Option(help="The data's licence.")] = "",
) -> None:
    """Turn tables of answers into one Parquet file that other commands take as a reference."""
    from eyechart.humans.human_responses import write_responses
    from eyechart.humans.importers import COUNTS_CHOICES, import_responses
    from eyechart.humans.reference import Reference

    _check_parquet(out)
    answers = import_responses(
        files,
        form,
        corruption=corruption,
        choices=choices,
        placement=placement,
        label_space=label_space,
        judgements=judgements,
        citation=citation,
        licence=licence,
    )
    write_responses(out, answers)
    reference = Reference(out.stem, answers)
    print(f"{out}: {_choices(reference)}")
    for experiment in answers.experiments:
        print(f"  {_line(reference, experiment)}")
    if form == "counts" and choices is None:
        print(f"Taken to be {COUNTS_CHOICES} choices, the usual of this format; see --choices.")


@app.command("plot")
@derived_options
def plot(
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", parser=folder_or_file, help="The figure: .svg, .pdf or .png."),
    ],
    reference: Annotated[
        str, typer.Argument(metavar="[REFERENCE]", help="geirhos, or an imported file.")
    ] = "geirhos",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="A panel per class of similar corruptions.")
    ] = False,
    level: Annotated[
        float | None,
        typer.Option(help="Of the bands, in percent; 95, or 83 with --by-class."),
    ] = None,
    consistency: Annotated[
        bool,
        typer.Option("--consistency", help="With --by-class: consistency instead of accuracy."),
    ] = False,
    *,
    humans: HumanSettings,
    curves: Annotated[CurveSettings, Only("bins", "least", "binning", "method", "right_anchor")],
) -> None:
    """Draw human curves with their bands, by experiment or by class of similar corruptions."""
    from eyechart.humans.reference import find_reference
    from eyechart.reports.figures.human_curve_figure import draw_by_class, draw_reference
    from eyechart.reports.figures.write import check_figure, write_figure
    from eyechart.scores.scoring import make_fit

    if consistency and not by_class:
        raise UsageError("--consistency is for --by-class: add it, or leave --consistency out.")
    percent = (83.0 if by_class else 95.0) if level is None else level
    if not 0 < percent < 100:
        raise UsageError(f"--level must be between 0 and 100, got {percent:g}.")
    check_file_to_write(out)
    check_figure(out)
    fit = make_fit(curves)
    found = find_reference(reference, humans.clean_responses)
    caption = f"Human curves of {found.name} over visual change; bands: {percent:g} %."
    which = "consistency" if consistency else "accuracy"
    drawn = found.experiments
    if by_class:
        drawn = tuple(name for name in drawn if found.source(name, which) is not None)
        make = partial(draw_by_class, found, which, percent / 100, fit)
    else:
        make = partial(draw_reference, found, percent / 100, fit)
    write_figure(make, out, caption)
    print(f"{out}: {', '.join(drawn)} of {found.name}.")


@app.command("place")
def place_conditions(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES…", parser=folder_or_file, help="Photographs or folders."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.csv", parser=folder_or_file, help="Where to write.")
    ],
) -> None:
    """Measure the visual change of the published conditions on photographs of your own."""
    from eyechart.humans.placement import LEVELS, measure_placements, write_placements

    check_file_to_write(out)
    placements, count = measure_placements(images)
    write_placements(out, placements, count)
    for name, placement in placements.items():
        middles = (f"{own[len(LEVELS) // 2]:.2f}" for own in placement.quantiles.values())
        print(f"{name}: median Δv {', '.join(middles)}")
    print(f"{out}: quantiles over {count} {'picture' if count == 1 else 'pictures'}.")


@app.command("similar")
@derived_options
def similar(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="geirhos, an imported file, or a same/different study."
        ),
    ],
    a: Annotated[
        str | None, typer.Argument(metavar="[A]", help="A corruption or experiment in it.")
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Another one.")] = None,
    *,
    humans: HumanSettings,
    all_pairs: Annotated[
        bool, typer.Option("--all", help="Compare all pairs, as without any names.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            parser=folder_or_file,
            help="Where to write the classes, for evaluate --similar.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            help="How classes of curves are found: simultaneous (test, the default) or published."
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="How far apart curves may be, as far as the data say, to be called similar; 0.2"
            " unless given.",
            min=0,
            max=1,
        ),
    ] = None,
) -> None:
    """Find which corruptions look alike: curves of every two, and same/different judgements.

    The published 83 % rule stands beside a simultaneous test with Holm's correction; classes are
    corruptions of which every two are similar.
    """
    from eyechart.cli.humans.similar import print_classes, similar_of_reference, similar_of_study
    from eyechart.humans.reference import find_reference, study_name
    from eyechart.humans.same_different import judgements_file
    from eyechart.humans.transfer import check_replaceable, write_classes

    if a is not None and a == b:
        raise UsageError(f"{a} is given twice: give two experiments.")
    if (a is None) != (b is None):
        raise UsageError(f"Two corruptions are compared, got {a} only: name another one.")
    if a is not None and (all_pairs or out is not None):
        raise UsageError("--all and --out are for all pairs: leave out the two names, or them.")
    if out is not None:
        check_file_to_write(out)
        check_replaceable(out)
    file = judgements_file(Path(reference))
    if file is not None:
        curves_only = {
            "--rule": rule,
            "--margin": margin,
            "--clean-responses": humans.clean_responses,
        }
        for option, given in curves_only.items():
            if given is not None:
                raise UsageError(
                    f"{option} is for curves, and {reference} holds same/different judgements:"
                    f" leave {option} out."
                )
        found = similar_of_study(file, study_name(Path(reference)), a, b)
    else:
        own = find_reference(reference, humans.clean_responses)
        found = similar_of_reference(own, a, b, rule, margin)
    if a is not None:
        return
    print_classes(found)
    if out is not None:
        write_classes(out, found)
        print(f"{out}: for eyechart evaluate --similar {out}")


@app.command("merge")
def merge_references(
    references: Annotated[
        list[str],
        typer.Argument(metavar="REFERENCE…", help="geirhos, imported files, or studies."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.parquet", parser=folder_or_file, help="Where to write.")
    ],
) -> None:
    """Merge human references into one file: responses to the same corruption are pooled."""
    from eyechart.humans.combined import merge
    from eyechart.humans.human_responses import write_responses
    from eyechart.humans.reference import Reference, find_reference

    _check_parquet(out)
    if len(references) < 2:
        raise UsageError("Give at least two references to merge.")
    parts = [find_reference(name) for name in references]
    answers = merge(parts)
    write_responses(out, answers)
    reference = Reference(out.stem, answers)
    print(f"{out}: {_choices(reference)}, of {', '.join(part.name for part in parts)}")
    for experiment in answers.experiments:
        print(f"  {_line(reference, experiment)}")


def _check_parquet(out: Path) -> None:
    check_file_to_write(out)
    if out.suffix != ".parquet":
        raise UsageError(f"--out writes Parquet: end its name in .parquet, not '{out.suffix}'.")


def _choices(reference: "Reference") -> str:
    words = f"{reference.choices} choices"
    return words if reference.label_space == words else f"{words} ({reference.label_space})"


def _line(reference: "Reference", experiment: str) -> str:
    """Return how much an experiment holds and what it speaks for."""
    import numpy as np

    own = reference.responses.only(reference.responses.corruption == experiment)
    seen = own.delta_v[~np.isnan(own.delta_v)]
    if not seen.size:
        return (
            f"{experiment}: {reference.size_in_words(experiment)}, no Δv: makes no curves, used for"
            " error consistency κ only"
        )
    where = f"Δv {seen.min():.2f} to {seen.max():.2f}"
    known = [
        name
        for name, values in (("accuracy", own.correct), ("consistency", own.consistent))
        if not np.isnan(values).all()
    ]
    start = reference.left_end(experiment)
    clean = ""
    if start is not None:
        clean = f", {start.rate:.3f} right of clean pictures"
        clean += "" if start.is_own else " (shown to others)"
    return (
        f"{experiment}: {reference.size_in_words(experiment)}, {where}, {' and '.join(known)}"
        f"{clean}; {_matched(reference, experiment)}"
    )


def _matched(reference: "Reference", experiment: str) -> str:
    """Return which corruptions of the suites an experiment stands for, and how."""
    from eyechart.humans.transfer import direct_names
    from eyechart.suites.suite import all_entries

    direct = direct_names(experiment)
    words = [f"direct for {', '.join(direct)}"] if direct else []
    alike = reference.similar.find(experiment)
    if alike is not None:
        others = [
            name
            for name in all_entries()
            if name not in direct and reference.similar.find(name) is alike
        ]
        words.append(f"transferred to {', '.join(others)} ({alike.name} class, {alike.evidence})")
    if not words:
        return f"matches no corruption of a suite, stands for a custom one called {experiment}"
    return "; ".join(words)
