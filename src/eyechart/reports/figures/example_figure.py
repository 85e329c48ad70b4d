"""Example images by visual change with predictions; each model's first failure is framed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from eyechart.humans.transfer import bare_name
from eyechart.images.image_files import UNREADABLE
from eyechart.reports.figures.drawings import Drawing, Planned, planned, suite_words
from eyechart.reports.figures.paper_style import INK, MUTED, PAGE, SMALL, drawable
from eyechart.reports.number_text import delta_v_text
from eyechart.reports.series.image_strips import (
    ImageStrip,
    StripImage,
    StripPrediction,
    image_strip,
)
from eyechart.reports.series.palette import CORRECT, INCORRECT
from eyechart.reports.series.report import ModelEntry, Report
from eyechart.reports.words import corruption_title, suite_title

MOST = 7
"""Maximum number of images in a strip."""

NAMES, GAP, LINE = 1.12, 0.05, 0.125
"""Width of the column of model names, gap between images, and line height, in inches."""

SIDE = (PAGE - NAMES) / MOST - GAP
FITS = 13
"""Maximum number of characters of the predicted label shown below each image."""


LEGEND = (
    "images with Δv above and true class below, then the models' predictions and confidences;"
    " framed: the first incorrect prediction."
)


@planned
def plan_examples(report: Report) -> Planned:
    """Return a strip for each corruption whose example images were stored."""
    for part in report.parts:
        suite = suite_title(part.suite)
        for corruption in part.corruptions:
            strip = image_strip(report, part, corruption).spread_over(MOST)
            if not strip.images:
                yield f"No example images for {corruption} ({suite}): none were stored."
                continue
            caption = f"{corruption_title(corruption)}: {LEGEND}"
            words = ("examples", *suite_words(report, part), bare_name(corruption))
            yield Drawing(words, caption, partial(draw_examples, part.models, strip))


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
                _frame(axes, x, y)
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


def _draw_prediction(axes: Axes, prediction: StripPrediction | None, x: float, y: float) -> None:
    middle = x + SIDE / 2
    if prediction is None:
        _text(axes, middle, y + 0.5 * LINE, "–", ha="center", color=MUTED)
        return
    failed = prediction.has_failed
    color = INCORRECT if failed else CORRECT
    text = drawable(prediction.prediction.prediction, FITS)
    _text(axes, middle, y, text, ha="center", color=color)
    confidence = prediction.prediction.confidence
    mark = "✗" if failed else "✓"
    sure = "" if confidence is None else f" {100 * confidence:.0f} %"
    _text(axes, middle, y + LINE, f"{mark}{sure}", ha="center", color=color)


def _frame(axes: Axes, x: float, y: float) -> None:
    corner, wide, high = (x - 0.01, y - 0.65 * LINE), SIDE + 0.02, 2.3 * LINE
    axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor=INCORRECT, linewidth=1))


def _text(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    axes.text(x, y, text, fontsize=SMALL, va="center", **look)
