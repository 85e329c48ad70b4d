"""Figures of studies: rulers against human accuracy, and subclasses seen and unseen in training."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.paper_style import (
    COLUMN,
    INK,
    MARKERS,
    PAGE,
    Drawing,
    Planned,
    drawable,
    key,
    legend,
)
from eyechart.reports.series.palette import COLORS
from eyechart.reports.series.superclass_scatter import X_TITLE, Y_TITLE, models_with_accuracy
from eyechart.rulers.measure_conditions import SERIES, EqualImage
from eyechart.rulers.study_record import AgreementRecord, StudyRecord
from eyechart.structure.study_results import SuperclassModelScore, SuperclassResults

COLUMNS = 3
PANEL = 2.0
"""Height of a panel, in inches."""


def scatter_caption(record: StudyRecord) -> str:
    """Return the caption of the scatter plots."""
    return (
        f"Human accuracy in {len(record.conditions)} conditions, rescaled to 0 (guessing) … 1"
        f" (clean), against the mean value of each ruler over {record.n_images} images, with the"
        " best monotone curve. Titles: explained variance leaving one condition out, error on a"
        " left-out experiment."
    )


def draw_scatter(record: StudyRecord) -> Figure:
    """Return one panel per ruler: human accuracy against the ruler, and the monotone curve."""
    n_rows = ceil(len(record.rulers) / COLUMNS)
    figure = Figure(figsize=(PAGE, PANEL * n_rows))
    grid = figure.subplots(n_rows, COLUMNS, squeeze=False, sharey=True)
    names = list(dict.fromkeys(condition.experiment for condition in record.conditions))
    looks = {
        name: (COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)])
        for place, name in enumerate(names)
    }
    for axes in grid.flat[len(record.rulers) :]:
        axes.set_axis_off()
    for axes, ruler in zip(grid.flat, record.rulers, strict=False):
        _scatter(axes, ruler, record, looks)
    for axes in grid[:, 0]:
        axes.set_ylabel("human accuracy, rescaled")
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="", markersize=4, label=name)
        for name, (color, marker) in looks.items()
    ]
    legend(figure, handles)
    return figure


def _scatter(
    axes: Axes,
    ruler: AgreementRecord,
    record: StudyRecord,
    looks: Mapping[str, tuple[str, str]],
) -> None:
    axes.plot(*zip(*ruler.curve, strict=True), color=INK, linewidth=0.9)
    for name, (color, marker) in looks.items():
        points = [
            (value, condition.rescaled)
            for value, condition in zip(ruler.values, record.conditions, strict=True)
            if condition.experiment == name
        ]
        axes.plot(
            *zip(*points, strict=True), marker, color=color, markersize=3.5,
            markeredgecolor="white", markeredgewidth=0.3,
        )  # fmt: skip
    explained, error = ruler.explained_left_out.estimate.value, ruler.error.estimate.value
    axes.set_title(f"{drawable(ruler.ruler)}: explains {explained:.2f}, error {error:.2f}")
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.08, 1.08)
    axes.set_xlabel("mean Δv of the condition")


def equal_caption(delta_v: float) -> str:
    """Return the caption of images at equal Δv."""
    return f"The same image at a visual change of {delta_v:g} by each ruler, in five corruptions."


def draw_equal(rows: Mapping[str, Sequence[EqualImage | None]], delta_v: float) -> Figure:
    """Return images in a grid: one row per ruler, one column per corruption, all at one Δv."""
    titles = [series.title for series in SERIES]
    side = PAGE / (len(titles) + 0.3)
    figure = Figure(figsize=(PAGE, (side + 0.16) * len(rows) + 0.3))
    grid = figure.subplots(len(rows), len(titles), squeeze=False)
    for line, (ruler, cells) in zip(grid, rows.items(), strict=True):
        for axes, cell in zip(line, cells, strict=True):
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
            axes.spines[:].set_visible(False)
            if cell is None:
                axes.set_facecolor("#f2f2f2")
                axes.set_aspect("equal")
                axes.text(0.5, 0.5, "no strength has\nthis Δv", ha="center", va="center")
            else:
                image, caption = cell
                axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=255)
                axes.set_xlabel(caption)
        line[0].set_ylabel(drawable(ruler))
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title)
    figure.suptitle(f"The same image at Δv = {delta_v:g} by each ruler", x=0.02, ha="left")
    return figure


HEIGHT = 2.6
"""Height without the legend, in inches."""

SIZE = 4
"""Size of a marker, in points."""

FILLED, OPEN = (COLORS[0], True), (COLORS[1], False)
"""Colors of seen and unseen subclasses, and whether their markers are filled."""


def plan_superclasses(results: Sequence[SuperclassResults]) -> Planned:
    """Return a figure for each study, and a note on models without a known ImageNet-1K accuracy."""
    for number, study in enumerate(results, start=1):
        missing = [model.name for model in study.models if model.imagenet_accuracy is None]
        if missing:
            yield (
                "Not in the figure, because their accuracy on ImageNet-1K is unknown:"
                f" {len(missing)} of {len(study.models)} models, such as {missing[0]}; use"
                " eyechart structure superclass with --imagenet-accuracy."
            )
        models = models_with_accuracy(study.models)
        if models:
            words = ("superclasses",) if len(results) == 1 else ("superclasses", str(number))
            caption = (
                "Superclass accuracy for subclasses in ImageNet-1K (seen) and outside it"
                " (unseen), plotted against accuracy on ImageNet-1K before tuning, for"
                f" {len(models)} models. 95 % intervals, from a bootstrap over synsets."
            )
            yield Drawing(words, caption, partial(draw_superclasses, models))


def draw_superclasses(models: Sequence[tuple[str, float, SuperclassModelScore]]) -> Figure:
    """Return the scatter plot in percent; each model has one marker, filled for seen subclasses.

    `models` are those of `models_with_accuracy`.
    """
    figure = Figure(figsize=(COLUMN, HEIGHT))
    axes = figure.subplots()
    handles = [
        _key(f"{kind} subclasses", "o", color, color if is_filled else "white")
        for kind, (color, is_filled) in (("seen", FILLED), ("unseen", OPEN))
    ]
    for index, (name, accuracy, model) in enumerate(models):
        marker = MARKERS[index % len(MARKERS)]
        for share, (color, is_filled) in ((model.seen, FILLED), (model.unseen, OPEN)):
            value = 100 * share.value
            axes.errorbar(
                [accuracy],
                [value],
                [[abs(100 * end - value)] for end in share.interval],
                fmt=marker, color=color, markersize=SIZE, elinewidth=0.8, capsize=1.5,
                markerfacecolor=color if is_filled else "white",
            )  # fmt: skip
        handles.append(_key(drawable(name), marker, INK, INK))
    axes.set(xlabel=X_TITLE, ylabel=Y_TITLE)
    legend(figure, handles)
    return figure


def _key(label: str, marker: str, color: str, face: str) -> Line2D:
    return key(label, color, marker=marker, linestyle="", markersize=SIZE, markerfacecolor=face)
