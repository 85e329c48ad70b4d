"""`eyechart humans areas`: the robustness of humans, as areas under their curves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.core.phrases import count_of
from eyechart.humans.human_settings import HumanSettings
from eyechart.stats.curve_settings import CurveSettings

if TYPE_CHECKING:
    from eyechart.humans.reference import Reference
    from eyechart.scores.scoring import Fit, HumanArea

SCORES = {"accuracy": "R_a", "consistency": "R_p"}
HEAD = (
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
    from eyechart.cli.shared.console import wide_console
    from eyechart.humans.reference import find_reference
    from eyechart.reports.terminal.columns import stacked
    from eyechart.scores.scoring import human_areas, make_fit

    fit = make_fit(curves)
    console = wide_console()
    # read all before printing any
    chosen = [find_reference(name, humans.clean_responses) for name in references or ("geirhos",)]
    for reference in chosen:
        reference.check_curves()
    for reference in chosen:
        measured = list(human_areas(reference, fit))
        print(f"{reference.name}: {reference.choices} choices")
        rows = [_row(reference, area) for area in measured]
        for table in stacked(HEAD, rows, width=console.width):
            console.print(table)
        for area in measured:
            if area.curve is None:
                print(f"Note: {area.experiment}, {area.metric}: {area.why.rstrip('.')}.")
        _print_notes(reference, fit, measured)
    print(
        f"area: area under the curve for Δv from 0 to 1, density {curves.density}. 95 %, 83 %:"
        " bootstrap confidence intervals over images or participants. bounds: smallest and largest"
        " possible area, given that the curve is unknown where there are no responses."
    )


def _print_notes(reference: "Reference", fit: "Fit", measured: Sequence["HumanArea"]) -> None:
    """Print what limits the areas: robots, dropped trials, and unequal numbers of each category."""
    from eyechart.humans.category_mix import mix_note
    from eyechart.humans.dropped_trials import dropped_bounds, simulated_note
    from eyechart.humans.human_fit import category_mix

    if note := simulated_note(reference):
        print(f"Note: {note}")
    for experiment in reference.experiments if reference.responses.dropped else ():
        bounds = dropped_bounds(reference, experiment, **fit.human_options())
        if bounds is not None:
            print(
                f"Note: {experiment}: participants dropped {count_of(bounds.n_dropped, 'trial')};"
                f" the area of accuracy would be {bounds.incorrect.area:.4f} if all of these were"
                f" incorrect, and {bounds.correct.area:.4f} if all were correct."
            )
    for experiment in reference.experiments:
        known = [
            area.metric
            for area in measured
            if area.experiment == experiment and area.curve is not None
        ]
        names = category_mix(reference.responses.label)
        equal = {name: 1 / len(names) for name in names}
        if note := mix_note(
            reference,
            experiment,
            known,
            equal,
            "a test with equal numbers of each",
            **fit.human_options(),
        ):
            print(f"Note: {note}")


def _row(reference: "Reference", area: "HumanArea") -> list[str]:
    from rich.markup import escape

    from eyechart.stats.estimate import LEVELS

    start = [escape(area.experiment), SCORES[area.metric]]
    # what counts for this curve: consistency needs clean responses too, which some images lack
    n_humans = reference.n_participants(area.experiment, area.metric)
    n_responses = reference.count(area.experiment, area.metric)
    end = [f"{n_humans:,}" if n_humans else "–", f"{n_responses:,}"]
    if area.curve is None:
        return [*start, *["–"] * (len(HEAD) - len(start) - len(end)), *end]
    curve = area.curve
    pairs = (*map(curve.interval, LEVELS), curve.bounds)
    clean = "–" if curve.left is None else f"{curve.left:.3f}"
    spans = [f"{low:.3f}–{high:.3f}" for low, high in pairs]
    return [*start, f"{curve.area:.3f}", *spans, clean, f"{len(curve.bins.counts)}", *end]
