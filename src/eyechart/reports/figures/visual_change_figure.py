"""Figures of how test sets are distributed over visual change: histograms and covered bins."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eyechart.reports.figures.drawings import Drawing, Planned, planned, suite_words
from eyechart.reports.figures.panels import VISUAL_CHANGE, label_outer, panels
from eyechart.reports.figures.paper_style import COLUMN, INK, SMALL, drawable, legend
from eyechart.reports.latex.tex_tables import lines_of_table, table_line, tex
from eyechart.reports.series.palette import BLUE, VERMILION
from eyechart.reports.series.report import Report
from eyechart.reports.series.visual_change import Spread, SpreadGrid, spread_grids
from eyechart.reports.words import corruption_title
from eyechart.testsets.coverage import PAPER_BINS, TEXT_BINS

HEIGHT = 1.25
ROW = 0.16
LOOKS = ((VERMILION, "/////", 0.0), (BLUE, "", 0.45))
"""Color, hatch and opacity for fixed and for continuous severities."""


@planned
def plan_visual_change(report: Report) -> Planned:
    """Return figures of histograms and coverage, with ImageNet-C next to VCR if both exist."""
    for grid in spread_grids(report):
        names = " and ".join(grid.suites)
        alone = len(grid.parts) == 1
        if not grid.corruptions:
            why = "it was not measured" if alone else "they have no corruption in common"
            yield f"No distribution of Δv for {names}: {why}."
            continue
        words = suite_words(report, grid.parts[0]) if alone else ()
        shares = f"Fraction of images of {names} in each of 39 bins of visual change."
        yield Drawing(("delta_v", *words), shares, partial(draw_histograms, grid))
        bars = f"Fraction of 39 bins of visual change that are covered. {grid.test_sets}"
        yield Drawing(("coverage", *words), bars, partial(draw_coverage, grid))
        caption = (
            f"Fraction of bins of visual change that are covered, of {PAPER_BINS} bins as in the"
            f" published tables and of {TEXT_BINS} as in the text of the paper. {grid.test_sets}"
        )
        make = partial(coverage_table, grid, caption)
        yield Drawing(("coverage-table", *words), caption, make, (".tex",))


def draw_histograms(grid: SpreadGrid) -> Figure:
    """Return a figure with a panel per corruption: percentage of images in each bin."""
    figure, axes = panels(len(grid.corruptions), HEIGHT)
    for panel_axes, (name, sets) in zip(axes, grid.corruptions.items(), strict=True):
        panel_axes.set_title(drawable(corruption_title(name)))
        panel_axes.set_xlim(0, 1)
        panel_axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        panel_axes.locator_params(axis="y", nbins=3, integer=True)
        for title, spread in sets.items():
            _draw_histogram(panel_axes, spread, _look(grid, title))
        panel_axes.set_ylim(bottom=0)
    label_outer(axes, VISUAL_CHANGE, "images (%)", inner=True)
    _legend(figure, grid)
    return figure


def _look(grid: SpreadGrid, title: str) -> tuple[str, str, float]:
    return LOOKS[1] if len(grid.suites) == 1 else LOOKS[grid.suites.index(title)]


def _draw_histogram(axes: Axes, spread: Spread, look: tuple[str, str, float]) -> None:
    color, hatch, dark = look
    shares = spread.percentages
    edges = np.linspace(0, 1, len(shares) + 1)
    if dark:
        axes.stairs(shares, edges, fill=True, color=color, alpha=dark, linewidth=0)
    else:
        axes.stairs(shares, edges, fill=True, facecolor="none", edgecolor=color, hatch=hatch,
                    linewidth=0)  # fmt: skip
    axes.stairs(shares, edges, color=color, linewidth=0.9)


def _legend(figure: Figure, grid: SpreadGrid) -> None:
    if len(grid.suites) > 1:
        legend(figure, [_patch(grid, title) for title in grid.suites])


def _patch(grid: SpreadGrid, title: str) -> Patch:
    color, hatch, dark = _look(grid, title)
    face = (*to_rgb(color), dark) if dark else "none"
    return Patch(facecolor=face, edgecolor=color, hatch=hatch, linewidth=0.8, label=title)


def draw_coverage(grid: SpreadGrid) -> Figure:
    """Return a bar chart: the percentage of 39 bins that each test set covers."""
    count, sets = len(grid.corruptions), len(grid.suites)
    figure = Figure(figsize=(COLUMN, ROW * count * (0.7 + 0.3 * sets) + 0.5))
    axes = figure.subplots()
    thick = 0.8 / sets
    for row, score in enumerate(grid.corruptions.values()):
        for index, title in enumerate(grid.suites):
            if title not in score:
                continue
            color, hatch, dark = _look(grid, title)
            middle = row + (index - (sets - 1) / 2) * thick
            share = 100 * score[title].coverage.paper
            axes.barh(
                middle, share, height=0.9 * thick, facecolor=(*to_rgb(color), dark), hatch=hatch,
                edgecolor=color, linewidth=0.6,
            )  # fmt: skip
            axes.text(102, middle, f"{share:.1f}", fontsize=SMALL, va="center", color=INK)
    names = [drawable(corruption_title(name)) for name in grid.corruptions]
    axes.set_yticks(range(count), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set(xlim=(0, 100), ylim=(count - 0.4, -0.6), xlabel=r"covered bins of $\Delta_v$ (%)")
    _legend(figure, grid)
    return figure


def coverage_table(grid: SpreadGrid, caption: str) -> str:
    """Return a LaTeX table: the fraction of 39 and 40 bins covered, by corruption and test set."""
    rows = []
    for name, by_suite in grid.corruptions.items():
        coverages = [by_suite[title].coverage for title in grid.suites]
        shares = [share for coverage in coverages for share in (coverage.paper, coverage.equal)]
        rows.append([tex(corruption_title(name)), *(f"{share:.3f}" for share in shares)])
    count = len(grid.suites)
    heads = [
        table_line(["", *(rf"\multicolumn{{2}}{{c}}{{{tex(title)}}}" for title in grid.suites)]),
        "".join(rf"\cmidrule(lr){{{first}-{first + 1}}}" for first in range(2, 2 * count + 2, 2)),
        table_line(["", *[f"{PAPER_BINS} bins", f"{TEXT_BINS} bins"] * count]),
    ]
    return lines_of_table(caption, "l" + "rr" * count, heads, rows)
