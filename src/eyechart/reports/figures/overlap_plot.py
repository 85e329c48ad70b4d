"""Overlaps as pictures for the command: heat map, size over threshold, balance; PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eyechart.core.files import atomic_file
from eyechart.images.image_files import UNREADABLE
from eyechart.overlap.accuracy_table import STANDARD
from eyechart.overlap.balance import Balance
from eyechart.overlap.selection import ThresholdRange
from eyechart.reports.figures.overlap_figure import draw
from eyechart.reports.figures.paper_style import COLUMN, INK, MUTED, PAGE, drawable, paper_style
from eyechart.reports.series.overlap import OverlapPanel, clustered, overlap_titles

DOTS = 220
"""Per inch."""

SOFTWARE = "eyechart overlap"
"""Written into the file, so that a picture of somebody else is never taken for ours."""

BARS, LINE = "#0072B2", "#C1272D"
ROW = 0.17
"""Height of a line with its name, in inches."""


def draw_overlap(overlap: OverlapPanel, path: Path) -> None:
    """Write the heat map, corruptions that overlap beside each other, the selected ones set off."""
    with paper_style():
        _save(draw(clustered(overlap)), path)


def draw_sizes(
    steps: Sequence[ThresholdRange[str]], path: Path, threshold: float | None = None
) -> None:
    """Write how many corruptions a benchmark has for every threshold, and how they overlap."""
    with paper_style():
        figure = Figure(figsize=(COLUMN, 3.4))
        sizes, means = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
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
        means.set_xlabel("threshold: overlap allowed")
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
        _save(figure, path)


def draw_balance(balances: Mapping[str, Balance], path: Path) -> None:
    """Write the mean error of every single-corruption model, a panel per benchmark, as dots."""
    with paper_style():
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
            middle, side = 100 * balance.spread.mean, 100 * balance.spread.deviation
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
            axes.set_title(
                f"{drawable(name)}: deviation {side:.1f}, range {100 * balance.spread.range:.0f}"
            )
        figure.legend(
            *grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2,
            frameon=False,
        )  # fmt: skip
        first = next(iter(balances.values()))
        grid[-1, 0].set_xlabel(f"{first.title} of the model trained on it, %")
        _save(figure, path)


def is_drawn(path: Path) -> bool:
    """Whether a file is a picture that this module wrote."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.info.get("Software") == SOFTWARE
    except UNREADABLE:
        return False


def _save(figure: Figure, path: Path) -> None:
    with atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=DOTS, format="png", metadata={"Software": SOFTWARE})
