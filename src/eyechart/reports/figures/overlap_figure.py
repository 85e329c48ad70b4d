"""The overlap of every two corruptions as a heat map, the selected ones set off."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from eyechart.reports.figures.drawings import Drawing, Drawings
from eyechart.reports.figures.paper_style import (
    COLUMN,
    DENSE,
    GRID,
    INK,
    LETTER,
    PAGE,
    SMALL,
    drawable,
)
from eyechart.reports.number_text import MISSING
from eyechart.reports.series.overlap import OverlapPanel, overlap_titles

CELL = 0.17
"""The least side of a cell that holds a number, in inches."""

LEGIBLE = 0.1
"""The least side of a cell whose row has a name beside it, in inches."""

COLOURS = "Blues"

NAMES, BAR = 1.3, 0.5
"""Room for the names and for the scale, in inches."""

NOTHING = "#f2f2f2"
"""The colour of a cell without a score."""

DARK = 0.6
"""Scores from which on numbers are white."""


def plan_overlap(overlap: OverlapPanel | None) -> Drawings:
    """Return the heat map, if there are scores."""
    if overlap is None or not overlap.names:
        return Drawings()
    caption = f"Overlapping scores of {len(overlap.names)} corruptions, in hundredths."
    if overlap.selected:
        caption += " Set in bold: the corruptions that were selected."
    if overlap.has_undetermined:
        caption += " Hatched: undetermined, for training on a corruption gained too little."
    return Drawings(
        (Drawing(("overlap",), f"{caption} {overlap.note}".strip(), partial(draw, overlap)),)
    )


def draw(overlap: OverlapPanel) -> Figure:
    """Return the heat map; scores are hundredths where their cells are large enough for them."""
    count = len(overlap.names)
    wide = COLUMN if NAMES + CELL * count + BAR <= COLUMN else PAGE
    figure = Figure(figsize=(wide, wide - BAR))
    axes = figure.subplots()
    _heat_map(axes, overlap, (wide - NAMES - BAR) / count)
    _scale(figure, [axes])
    return figure


def draw_side_by_side(overlaps: Sequence[OverlapPanel], titles: Sequence[str]) -> Figure:
    """Return heat maps of the same corruptions in one row, each under its title.

    They share the names at the left and the scale; see `in_order` for the order.
    """
    count = len(overlaps[0].names)
    cell = min(CELL, (PAGE - NAMES - BAR) / (count * len(overlaps)))
    # wider than a page where names could not be read otherwise
    cell = max(cell, LEGIBLE)
    figure = Figure(figsize=(NAMES + BAR + cell * count * len(overlaps), NAMES + cell * count))
    row = figure.subplots(1, len(overlaps), squeeze=False)[0]
    for axes, overlap, title in zip(row, overlaps, titles, strict=True):
        _heat_map(axes, overlap, cell)
        axes.tick_params(labelleft=axes is row[0])
        axes.set_title(drawable(title, max(8, int(cell * count / LETTER))))
    _scale(figure, list(row))
    return figure


def _heat_map(axes: Axes, overlap: OverlapPanel, cell: float) -> None:
    """Draw the scores into axes, with numbers where cells (inches) are large enough."""
    scores = np.array(overlap.scores, dtype=np.float64)
    axes.imshow(scores, cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
    names = [drawable(title, 24) for title in overlap_titles(overlap.names)]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for (row, column), score in np.ndenumerate(scores):
        if np.isnan(score):
            _hatch(axes, row, column)
        if cell >= CELL:
            colour = "white" if score >= DARK else INK
            text = MISSING if np.isnan(score) else f"{100 * score:.0f}"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=SMALL)
    _set_off(axes.get_xticklabels(), overlap)
    _set_off(axes.get_yticklabels(), overlap)
    for index, name in enumerate(overlap.names):
        if name in overlap.selected:
            axes.add_patch(
                Rectangle((index - 0.5, index - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1)
            )


def _scale(figure: Figure, axes: list[Axes]) -> None:
    shades = ScalarMappable(Normalize(0, 1), COLOURS)
    bar = figure.colorbar(shades, ax=axes, shrink=0.5, label="overlapping score (hundredths)")
    bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
    bar.outline.set_visible(False)


def _hatch(axes: Axes, row: int, column: int) -> None:
    """Show a cell as undetermined, which is neither a low score nor a high one."""
    corner = (column - 0.5, row - 0.5)
    axes.add_patch(
        Rectangle(corner, 1, 1, facecolor=NOTHING, edgecolor=GRID, hatch="/" * DENSE, linewidth=0)
    )


def _set_off(labels: list[Text], overlap: OverlapPanel) -> None:
    for label, name in zip(labels, overlap.names, strict=True):
        if name in overlap.selected:
            label.set_fontweight("bold")
