"""Figures that compare model ranks by fixed and by continuous severities, with three bar panels."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.drawings import Drawing, Planned, planned
from eyechart.reports.figures.panels import draw_bars, key, letters
from eyechart.reports.figures.paper_style import (
    INK,
    PAGE,
    Look,
    category_patches,
    legend,
    looks_of,
)
from eyechart.reports.series.palette import CHANGE
from eyechart.reports.series.ranks import RankPanel, rank_panels
from eyechart.reports.series.report import Report

ROW = 0.155
TITLES = {"R_a": r"$\hat{\mathcal{R}}_a$", "R_p": r"$\hat{\mathcal{R}}_p$"}
TRIANGLE: dict[str, Any] = {
    "marker": "^", "markersize": 5, "markeredgecolor": CHANGE, "markeredgewidth": 0.9,
    "linestyle": "",
}  # fmt: skip


@planned
def plan_ranks(report: Report) -> Planned:
    """Return a figure for each corruption that ImageNet-C and VCR share."""
    if report.discrete is None:
        usual = "No ranks: they need runs of imagenet-c and vcr with the same models."
        yield from report.notes or (usual,)
    elif not report.discrete.corruptions and report.discrete.note:
        yield report.discrete.note
    for panel in rank_panels(report):
        yield Drawing(
            ("ranks", panel.corruption),
            f"{panel.title}: ImageNet-C against VCR; numbers: ranks; triangles: models that"
            " change ranks, filled if significant; error bars: 95 %.",
            partial(draw_ranks, panel),
        )


def draw_ranks(panel: RankPanel) -> Figure:
    """Return a figure with three bar panels, one row per model, best by ImageNet-C at the top."""
    looks = looks_of(panel.models, by_category=True)
    figure = Figure(figsize=(PAGE, max(1.2, ROW * len(panel.models) + 0.6)))
    axes = figure.subplots(1, len(panel.ways), sharey=True, squeeze=False)[0]
    for panel_axes, letter, way in zip(axes, letters(), panel.ways, strict=False):
        panel_axes.set_title(f"{letter} {TITLES.get(way, way)}")
        _draw_way(panel_axes, panel, way, looks)
    triangles = _mark(axes[0], panel)
    interval = key("95 % interval", INK, linewidth=0.8)
    legend(figure, [*category_patches(panel.models), *triangles, interval])
    return figure


def _draw_way(axes: Axes, panel: RankPanel, way: str, looks: dict[str, Look]) -> None:
    scores = [panel.score(way, model) for model in panel.models]
    in_order = [looks[model.name] for model in panel.models]
    labels = [
        f"{panel.score_text(way, model)} ({panel.rank(way, model):g})" for model in panel.models
    ]
    low, high = np.transpose([score.interval95 for score in scores])
    draw_bars(axes, in_order, np.array([score.value for score in scores]), (low, high), labels)
    axes.set_xlim(0, 1)
    axes.tick_params(axis="y", pad=10)


def _mark(axes: Axes, panel: RankPanel) -> list[Line2D]:
    """Mark the models whose ranks change; return the legend entries."""
    kinds = (
        (panel.changed, CHANGE, "changes ranks significantly"),
        (panel.perhaps, "white", "changes ranks, not significantly"),
    )
    handles = []
    for names, face, label in kinds:
        look = TRIANGLE | {"markerfacecolor": face}
        places = [index for index, model in enumerate(panel.models) if model.name in names]
        if places:
            axes.plot(
                # x in axis fractions, y in data: left of the bars, regardless of their scale.
                [-0.045] * len(places), places, transform=axes.get_yaxis_transform(),
                clip_on=False, **look,
            )  # fmt: skip
            handles.append(key(label, **look))
    return handles
