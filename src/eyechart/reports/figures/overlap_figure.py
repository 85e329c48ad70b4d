"""Figures of overlap between corruptions: heat maps, benchmark size by threshold, balance.

They are used in reports and by `eyechart overlap`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from eyechart.overlap.accuracy_table import STANDARD
from eyechart.overlap.benchmarks import Balance
from eyechart.overlap.selection import ThresholdRange
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DENSE,
    GRID,
    INK,
    LETTER,
    MUTED,
    PAGE,
    SMALL,
    Drawing,
    Planned,
    drawable,
)
from eyechart.reports.number_text import MISSING
from eyechart.reports.series.overlap import OverlapPanel, overlap_titles
from eyechart.reports.series.palette import BLUE, RED

CELL = 0.17
"""Minimum cell size at which a number is printed, in inches."""

LEGIBLE = 0.1
"""Minimum cell size at which rows are labeled, in inches."""

COLORMAP = "Blues"

NAMES, SCALE = 1.3, 0.5
"""Space for the labels and for the color scale, in inches."""

NOTHING = "#f2f2f2"
"""Color of a cell without a score."""

DARK = 0.6
"""Score at and above which numbers are white."""

BARS, LINE = BLUE, RED
ROW = 0.17
"""Height of a labeled row, in inches."""


def plan_overlap(overlap: OverlapPanel | None) -> Planned:
    """Return the heat map, or nothing if there are no scores."""
    if overlap is None or not overlap.names:
        return
    yield Drawing(("overlap",), heat_map_caption(overlap), partial(draw_heat_map, overlap))


def heat_map_caption(overlap: OverlapPanel) -> str:
    """Return the caption of a heat map, with the meaning of bold names and hatched cells."""
    caption = f"Overlap scores of {len(overlap.names)} corruptions, multiplied by 100."
    if overlap.selected:
        caption += " Bold: selected corruptions."
    if overlap.has_undetermined:
        caption += " Hatched: undetermined, because training on a corruption gained too little."
    return caption


def draw_heat_map(overlap: OverlapPanel) -> Figure:
    """Return the heat map; scores times 100 are printed if the cells are large enough."""
    count = len(overlap.names)
    # One column if the numbers still fit into its cells.
    wide = COLUMN if NAMES + CELL * count + SCALE <= COLUMN else PAGE
    figure = Figure(figsize=(wide, wide - SCALE))
    axes = figure.subplots()
    _heat_map(axes, overlap, (wide - NAMES - SCALE) / count)
    _scale(figure, [axes])
    return figure


def draw_side_by_side(overlaps: Sequence[OverlapPanel], titles: Sequence[str]) -> Figure:
    """Return a figure with heat maps of the same corruptions in one row, each under its title.

    The heat maps share the labels on the left and the color scale; see `in_order` for the order.
    """
    count = len(overlaps[0].names)
    cell = min(CELL, (PAGE - NAMES - SCALE) / (count * len(overlaps)))
    # Wider than a page where the labels would otherwise be illegible.
    cell = max(cell, LEGIBLE)
    figure = Figure(figsize=(NAMES + SCALE + cell * count * len(overlaps), NAMES + cell * count))
    row = figure.subplots(1, len(overlaps), squeeze=False)[0]
    for axes, overlap, title in zip(row, overlaps, titles, strict=True):
        _heat_map(axes, overlap, cell)
        axes.tick_params(labelleft=axes is row[0])
        axes.set_title(drawable(title, max(8, int(cell * count / LETTER))))
    _scale(figure, list(row))
    return figure


def _heat_map(axes: Axes, overlap: OverlapPanel, cell: float) -> None:
    """Draw the scores into axes, with numbers if the cell size (in inches) is large enough."""
    scores = np.array(overlap.scores, dtype=np.float64)
    axes.imshow(scores, cmap=COLORMAP, vmin=0, vmax=1, interpolation="nearest")
    names = [drawable(title, 24) for title in overlap_titles(overlap.names)]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for (row, column), score in np.ndenumerate(scores):
        if np.isnan(score):
            # Hatched as undetermined, so that the cell looks neither low nor high.
            look: dict[str, Any] = {
                "facecolor": NOTHING,
                "edgecolor": GRID,
                "hatch": "/" * DENSE,
                "linewidth": 0,
            }
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
        if cell >= CELL:
            color = "white" if score >= DARK else INK
            text = MISSING if np.isnan(score) else f"{100 * score:.0f}"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize=SMALL)
    labels = zip(axes.get_xticklabels(), axes.get_yticklabels(), strict=True)
    for index, (name, both) in enumerate(zip(overlap.names, labels, strict=True)):
        if name in overlap.selected:
            for label in both:
                label.set_fontweight("bold")
            axes.add_patch(
                Rectangle((index - 0.5, index - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1)
            )


def _scale(figure: Figure, axes: list[Axes]) -> None:
    shades = ScalarMappable(Normalize(0, 1), COLORMAP)
    bar = figure.colorbar(shades, ax=axes, shrink=0.5, label="overlapping score × 100")
    bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
    bar.outline.set_visible(False)


def draw_sizes(steps: Sequence[ThresholdRange], threshold: float | None = None) -> Figure:
    """Return a figure of the benchmark's size and overlap at every threshold."""
    figure = Figure(figsize=(COLUMN, 3.4))
    sizes, means = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    # Scores, and therefore thresholds, can exceed 1.
    end = max(1.0, steps[-1].low * 1.02)
    edges = [*(step.low for step in steps), end]
    for axes, values in (
        (sizes, [len(step.selection) for step in steps]),
        (means, [step.selection.mean_overlap for step in steps]),
    ):
        axes.stairs(values, edges, color=BARS, linewidth=1.4, baseline=None)
        if threshold is not None:
            axes.axvline(threshold, color=LINE, linewidth=0.9, linestyle="--")
    sizes.set_ylabel("corruptions")
    sizes.set_ylim(0, 1.05 * len(steps[-1].selection))
    sizes.yaxis.set_major_locator(MaxNLocator(integer=True))
    means.set_ylabel("mean overlap")
    means.set_ylim(bottom=0)
    means.set_xlim(0, end)
    means.set_xlabel("threshold: maximum overlap")
    sizes.set_title("Largest benchmark for every threshold")
    if threshold is not None:
        size = next((len(s.selection) for s in steps if s.low <= threshold < s.high), 1)
        text = f"{threshold:g}: {size} corruptions"
        left = threshold < end / 2
        sizes.annotate(
            text, (threshold, 0.04), xycoords=("data", "axes fraction"), color=LINE,
            xytext=(3 if left else -3, 0), textcoords="offset points",
            ha="left" if left else "right",
        )  # fmt: skip
    return figure


def draw_balance(balances: Mapping[str, Balance]) -> Figure:
    """Return a dot plot of each single-corruption model's mean error, one panel per benchmark."""
    counts = [len(balance.benchmark) for balance in balances.values()]
    height = sum(ROW * count + 0.65 for count in counts) + 0.2
    figure = Figure(figsize=(PAGE if max(counts) > 30 else COLUMN * 1.35, height))
    grid = figure.subplots(len(balances), 1, squeeze=False, sharex=True, height_ratios=counts)
    for axes, (name, balance) in zip(grid[:, 0], balances.items(), strict=True):
        means = [100 * balance.means[item] for item in balance.benchmark]
        order = np.argsort(means, kind="stable")
        titles = overlap_titles(balance.benchmark)
        names = [drawable(titles[index]) for index in order]
        values = [means[index] for index in order]
        places = np.arange(len(values))
        middle, side = 100 * balance.mean, 100 * balance.deviation
        axes.axvspan(
            middle - side, middle + side, color=MUTED, alpha=0.18, linewidth=0,
            label="mean ± standard deviation",
        )  # fmt: skip
        axes.axvline(middle, color=INK, linewidth=0.8)
        axes.axvline(100 * balance.means[STANDARD], color=LINE, linewidth=0.8, linestyle="--",
                     label="standard model")  # fmt: skip
        axes.plot(values, places, "o", color=BARS, markersize=4)
        axes.set_yticks(places, names)
        axes.set_ylim(len(values) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{drawable(name)}: deviation {side:.1f}, range {100 * balance.range:.0f}")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2,
        frameon=False,
    )  # fmt: skip
    first = next(iter(balances.values()))
    grid[-1, 0].set_xlabel(f"{first.title} of the model trained on it, %")
    return figure
