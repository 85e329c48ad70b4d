"""`eyechart humans plot`: draw human curves with their confidence bands."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.core.arguments import digits
from eyechart.core.errors import UsageError
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.stats.curve_settings import CurveSettings


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
    from eyechart.humans.dropped_trials import simulated_note
    from eyechart.humans.reference import find_reference
    from eyechart.humans.transfer import PUBLISHED, find_classes
    from eyechart.reports.figures.figure_files import check_figure, write_figure
    from eyechart.reports.figures.human_curve_figure import draw_by_class, draw_reference
    from eyechart.scores.scoring import human_areas, make_fit
    from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

    if consistency and not by_class:
        raise UsageError("--consistency needs --by-class: add it, or omit --consistency.")
    if humans.similar_names != (PUBLISHED,) and not by_class:
        raise UsageError("--similar needs --by-class: add it, or omit --similar.")
    percent = 100 * (PUBLISHED_LEVEL if by_class else CONFIDENCE) if level is None else level
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
