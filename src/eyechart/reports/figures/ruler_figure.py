"""Figures of the study of rulers: human accuracy against each ruler, images at equal Δv."""

from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eyechart.reports.figures.paper_style import INK, MARKERS, PAGE, drawable, legend
from eyechart.reports.series.palette import COLORS
from eyechart.rulers.measure_conditions import SERIES, EqualImage
from eyechart.rulers.study_record import AgreementRecord, StudyRecord

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
