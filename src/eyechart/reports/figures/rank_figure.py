"""Models by fixed severities against continuous ones: three bars each, and who changes places."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.human_index_figure import thickness
from eyechart.reports.figures.panels import key, letters
from eyechart.reports.figures.plan import Plan, Plans
from eyechart.reports.figures.style import (
    INK,
    PAGE,
    SMALL,
    WRONG,
    Look,
    category_patches,
    legend,
    looks_of,
)
from eyechart.reports.series.report import Report
from eyechart.reports.words import corruption_title
from eyechart.results.rankings import Rankings

ROW = 0.155
TITLES = {"R_a": r"$\hat{\mathcal{R}}_a$", "R_p": r"$\hat{\mathcal{R}}_p$"}
TRIANGLE: dict[str, Any] = {
    "marker": "^", "markersize": 5, "markeredgecolor": WRONG, "markeredgewidth": 0.9,
    "linestyle": "",
}  # fmt: skip


def plan_ranks(report: Report) -> Plans:
    """Return a figure for each corruption that ImageNet-C and VCR both have."""
    if report.discrete is None:
        usual = "No ranks: they need runs of imagenet-c and of vcr with the same models."
        return Plans(notes=report.notes or (usual,))
    plans = [
        Plan(
            ("ranks", rankings.what),
            f"{corruption_title(rankings.what)}: ImageNet-C against VCR; numbers: ranks; triangles:"
            " models that change places, full ones by more than chance; error bars: 95 %.",
            partial(draw_ranks, report, rankings),
        )
        for rankings in report.discrete.corruptions
    ]
    return Plans(tuple(plans))


def draw_ranks(report: Report, rankings: Rankings) -> Figure:
    """Return three panels of bars, each model in one row, the best by ImageNet-C on top."""
    first = next(iter(rankings.ranks.values()))
    names = sorted(first.ranks, key=lambda name: first.ranks[name])
    models = tuple(own for own in report.models if own.name in names)
    looks = looks_of(models, by_category=True)
    figure = Figure(figsize=(PAGE, max(1.2, ROW * len(names) + 0.6)))
    axes = figure.subplots(1, len(rankings.scores), sharey=True, squeeze=False)[0]
    for own, letter, way in zip(axes, letters(), rankings.scores, strict=False):
        own.set_title(f"{letter} {TITLES.get(way, way)}")
        _draw_way(own, rankings, way, names, looks)
    changed = _mark(axes[0], rankings, names)
    legend(figure, [*category_patches(models), *changed, key("95 % interval", INK, linewidth=0.8)])
    return figure


def _draw_way(
    axes: Axes, rankings: Rankings, way: str, names: Sequence[str], looks: dict[str, Look]
) -> None:
    scores, ranks = rankings.scores[way], rankings.ranks[way].ranks
    places = np.arange(len(names))
    axes.barh(
        places,
        [scores[name].value for name in names],
        height=thickness(len(names)),
        color=[looks[name].colour for name in names],
        hatch=[looks[name].hatch for name in names],
        edgecolor="white",
        linewidth=0,
    )
    low, high = np.transpose([scores[name].interval for name in names])
    axes.hlines(places, low, high, color=INK, linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(places, [looks[name].name for name in names])
    axes.tick_params(axis="y", length=0, pad=10)
    axes.grid(axis="y", visible=False)
    for place, name in enumerate(names):
        axes.text(
            1.02, place, f"{scores[name].value:.3f} ({ranks[name]:g})",
            transform=axes.get_yaxis_transform(), fontsize=SMALL, va="center",
        )  # fmt: skip


def _mark(axes: Axes, rankings: Rankings, names: Sequence[str]) -> list[Line2D]:
    """Mark the models that change places; return the legend's entries."""
    pairs = [(rankings.is_sure(swap), {swap.first, swap.second}) for *_, swap in rankings.swaps]
    sure = {name for is_sure, pair in pairs if is_sure for name in pair}
    moved = {name for _, pair in pairs for name in pair}
    kinds = (
        (sure, WRONG, "changes places"),
        (moved - sure, "white", "changes places, perhaps by chance"),
    )
    handles = []
    for which, face, label in kinds:
        look = TRIANGLE | {"markerfacecolor": face}
        places = [place for place, name in enumerate(names) if name in which]
        if places:
            axes.plot(
                [-0.045] * len(places), places, transform=axes.get_yaxis_transform(),
                clip_on=False, **look,
            )  # fmt: skip
            handles.append(key(label, **look))
    return handles
