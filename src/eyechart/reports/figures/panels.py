"""Shared parts of figures with curves over visual change: a curve, its band, its panel."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from eyechart.reports.figures.paper_style import COLUMN, INK, MUTED, PAGE, SMALL, Dash, Look
from eyechart.reports.series.palette import HUMAN_COLOR
from eyechart.results.curve_results import SampledCurve

VISUAL_CHANGE = r"visual change $\Delta_v$"
FEW = 3
"""Maximum number of models whose bands can be distinguished."""

EVERY, MARK = 24, 3.2
"""Number of curve points between two markers, and the size of a marker."""

Real = NDArray[np.float64]


def real(numbers: Sequence[float | None]) -> Real:
    """Return numbers as an array, with NaN for None."""
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def draw_line(
    axes: Axes,
    line: SampledCurve,
    *,
    color: str,
    dash: Dash = "-",
    observed: Sequence[tuple[float, float]] | None = None,
    band: float = 0.0,
    width: float = 1.2,
    marks: tuple[str, int] | None = None,
) -> None:
    """Draw a curve, pale where it was not observed.

    `band` is the opacity of the 83 % band. `marks` is a marker style and the index of the first
    point that gets a marker.
    """
    change, values = real(line.delta_v), real(line.values)
    if marks is not None:
        marker, first = marks
        axes.plot(
            change[first::EVERY], values[first::EVERY], marker, color=color,
            markersize=MARK, markeredgecolor="white", markeredgewidth=0.4,
        )  # fmt: skip
    if band:
        low, high = real(line.low83), real(line.high83)
        axes.fill_between(change, low, high, color=color, alpha=band, linewidth=0)
    if observed is not None:
        # The whole curve is drawn pale, then the observed ranges over it.
        axes.plot(change, values, color=color, linestyle=dash, linewidth=0.7 * width, alpha=0.4)
        seen = np.zeros(len(change), dtype=bool)
        for start, end in observed:
            seen |= (change >= start) & (change <= end)
        values = np.where(seen, values, np.nan)
    axes.plot(change, values, color=color, linestyle=dash, linewidth=width)


def draw_humans(axes: Axes, line: SampledCurve) -> None:
    """Draw the human curve with its 83 % band."""
    draw_line(axes, line, color=HUMAN_COLOR, band=0.2, width=1.8)


def draw_bars(
    axes: Axes, looks: Sequence[Look], values: Real, ends: tuple[Real, Real], labels: Sequence[str]
) -> None:
    """Draw a bar for each model, the first at the top, with its interval and a label after it."""
    count = len(looks)
    axes.barh(
        np.arange(count), values, color=[look.color for look in looks],
        # Few models get thinner bars, because their rows are higher.
        height=0.72 * min(1.0, (count + 2) / 8),
        hatch=[look.hatch for look in looks], edgecolor="white", linewidth=0,
    )  # fmt: skip
    axes.hlines(np.arange(count), *ends, color=INK, linewidth=0.8)
    # Inverted, so that the first model is at the top.
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_yticks(np.arange(count), [look.name for look in looks])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for index, label in enumerate(labels):
        axes.text(
            1.02, index, label, transform=axes.get_yaxis_transform(), fontsize=SMALL, va="center"
        )


def unit_square(axes: Axes) -> None:
    """Set the axes of a curve panel: visual change and a rate, both in [0, 1]."""
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])


def panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels of this height (in inches), with few empty cells."""
    columns = columns_for(count)
    rows = -(-count // columns)
    figure = Figure(figsize=(COLUMN if columns < 3 else PAGE, height * rows + 0.3))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def columns_for(count: int) -> int:
    """Return the number of columns that leaves the fewest empty cells; the largest if tied."""
    usual = (5, 4, 3) if count <= 12 else (5, 4)
    return count if count <= 5 else min(usual, key=lambda columns: -count % columns)


def label_outer(axes: Sequence[Axes], x: str, y: str, inner: bool = False) -> None:
    """Label the outer axes: the x axis of the bottom row, and the first y axis of each row.

    `inner` adds tick labels to every panel, for panels of different heights.
    """
    columns = columns_for(len(axes))
    for index, panel_axes in enumerate(axes):
        panel_axes.tick_params(labelleft=inner or index % columns == 0)
        lowest = index // columns == (len(axes) - 1) // columns
        panel_axes.tick_params(labelbottom=lowest)
        panel_axes.set_xlabel(x if lowest else "")
        panel_axes.set_ylabel("" if index % columns else y)


def letters() -> Iterator[str]:
    """Yield (a), (b), … for panels."""
    for number in range(26):
        yield f"({chr(ord('a') + number)})"


def say(axes: Axes, text: str) -> None:
    """Write into the middle of an empty panel why it is empty."""
    message = axes.text(
        0.5, 0.5, textwrap.fill(text, 24), transform=axes.transAxes, ha="center", va="center",
        color=MUTED, fontsize=SMALL,
    )  # fmt: skip
    # Constrained layout would shrink all panels to make room for a long note.
    message.set_in_layout(False)


def key(label: str, color: str = INK, **look: Any) -> Line2D:
    """Return the legend entry of a line."""
    return Line2D([], [], color=color, label=label, **look)
