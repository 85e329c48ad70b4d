"""Figures of test sets: how they are distributed over visual change, and example images."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from PIL import Image

from eyechart.humans.transfer import bare_name
from eyechart.images.image_files import UNREADABLE
from eyechart.reports.figures.paper_style import (
    COLUMN,
    INK,
    MUTED,
    PAGE,
    SMALL,
    VISUAL_CHANGE,
    Drawing,
    Planned,
    drawable,
    label_outer,
    legend,
    panels,
    suite_words,
)
from eyechart.reports.latex import table_file, table_line, tex
from eyechart.reports.number_text import delta_v_text
from eyechart.reports.series.image_strips import (
    ImageStrip,
    StripImage,
    has_failed,
    image_strip,
)
from eyechart.reports.series.palette import BLUE, CORRECT, INCORRECT, VERMILION
from eyechart.reports.series.report import ModelEntry, Report
from eyechart.reports.series.visual_change import Spread, SpreadGrid, spread_grids
from eyechart.reports.titles import corruption_title, suite_title
from eyechart.results.schema import ExamplePrediction
from eyechart.testsets.coverage import PAPER_BINS, TEXT_BINS

HEIGHT = 1.25
ROW = 0.16
LOOKS = ((VERMILION, "/////", 0.0), (BLUE, "", 0.45))
"""Color, hatch and opacity for fixed and for continuous severities."""


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
    return table_file(caption, heads, rows)


MOST = 7
"""Maximum number of images in a strip."""

NAMES, GAP, LINE = 1.12, 0.05, 0.125
"""Width of the column of model names, gap between images, and line height, in inches."""

SIDE = (PAGE - NAMES) / MOST - GAP
FITS = 13
"""Maximum number of characters of the predicted label shown below each image."""


EXAMPLES_CAPTION = (
    "images with Δv above and true class below, then the models' predictions and confidences;"
    " framed: the first incorrect prediction."
)


def plan_examples(report: Report) -> Planned:
    """Return a strip for each corruption whose example images were stored."""
    for section in report.sections:
        suite = suite_title(section.suite)
        for corruption in section.corruptions:
            strip = image_strip(report, section, corruption).spread_over(MOST)
            if not strip.images:
                yield f"No example images for {corruption} ({suite}): none were stored."
                continue
            caption = f"{corruption_title(corruption)}: {EXAMPLES_CAPTION}"
            words = ("examples", *suite_words(report, section), bare_name(corruption))
            yield Drawing(words, caption, partial(draw_examples, section.models, strip))


def in_two_lines(name: str) -> str:
    """Return a long name in two lines, split after a separator if there is one."""
    if len(name) <= FITS + 5:
        return name
    signs = [index + 1 for index in range(4, FITS + 3) if not name[index].isalnum()]
    index = max(signs, default=FITS + 3)
    return f"{name[:index]}\n{name[index:]}"


def draw_examples(models: Sequence[ModelEntry], strip: ImageStrip) -> Figure:
    """Return the strip: a row of images, and below it a row of predictions for each model."""
    top = 2 * LINE
    rows = [top + SIDE + (2.1 + 2.5 * index) * LINE for index in range(len(models))]
    height = rows[-1] + 1.9 * LINE
    figure = Figure(figsize=(PAGE, height))
    # The style's constrained layout would move what is placed by absolute positions.
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    # One unit is an inch on both axes, and y grows downward.
    axes.set(xlim=(0, PAGE), ylim=(height, 0))
    _text(axes, 0.02, LINE, r"visual change $\Delta_v$", color=INK)
    _text(axes, 0.02, top + SIDE + 0.75 * LINE, "shown", color=MUTED, style="italic")
    for model, y in zip(models, rows, strict=True):
        _text(axes, 0.02, y + 0.5 * LINE, in_two_lines(drawable(model.short, 2 * FITS)), color=INK)
    for index, image in enumerate(strip.images):
        _draw_image(axes, image, NAMES + index * (SIDE + GAP), top)
    for model, y in zip(models, rows, strict=True):
        first = strip.first_failure(model)
        for index, image in enumerate(strip.images):
            x = NAMES + index * (SIDE + GAP)
            _draw_prediction(axes, image.predictions.get(model.name), x, y)
            if index == first:
                corner = (x - 0.01, y - 0.65 * LINE)
                axes.add_patch(
                    Rectangle(
                        corner, SIDE + 0.02, 2.3 * LINE, fill=False, edgecolor=INCORRECT,
                        linewidth=1,
                    )
                )  # fmt: skip
    return figure


def _draw_image(axes: Axes, image: StripImage, x: float, top: float) -> None:
    _text(axes, x + SIDE / 2, LINE, delta_v_text(image.example.delta_v), ha="center", color=INK)
    try:
        with Image.open(image.path) as file:
            levels = np.asarray(file.convert("RGB"))
    except UNREADABLE:
        _text(axes, x + SIDE / 2, top + SIDE / 2, "unreadable", ha="center", color=MUTED)
    else:
        high, wide = levels.shape[:2]
        across, down = SIDE * wide / max(high, wide), SIDE * high / max(high, wide)
        left, upper = x + (SIDE - across) / 2, top + (SIDE - down) / 2
        axes.imshow(
            levels, extent=(left, left + across, upper + down, upper), aspect="auto",
            interpolation="none",
        )  # fmt: skip
        # `imshow` sets the limits to the extent of the image.
        axes.set(xlim=(0, PAGE), ylim=(axes.get_ylim()[0], 0))
    truth = drawable(image.example.truth or "–", FITS + 1)
    middle = x + SIDE / 2
    _text(axes, middle, top + SIDE + 0.75 * LINE, truth, ha="center", color=MUTED, style="italic")


def _draw_prediction(axes: Axes, prediction: ExamplePrediction | None, x: float, y: float) -> None:
    middle = x + SIDE / 2
    if prediction is None:
        _text(axes, middle, y + 0.5 * LINE, "–", ha="center", color=MUTED)
        return
    failed = has_failed(prediction)
    color = INCORRECT if failed else CORRECT
    text = drawable(prediction.prediction, FITS)
    _text(axes, middle, y, text, ha="center", color=color)
    confidence = prediction.confidence
    mark = "✗" if failed else "✓"
    sure = "" if confidence is None else f" {100 * confidence:.0f} %"
    _text(axes, middle, y + LINE, f"{mark}{sure}", ha="center", color=color)


def _text(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    axes.text(x, y, text, fontsize=SMALL, va="center", **look)
