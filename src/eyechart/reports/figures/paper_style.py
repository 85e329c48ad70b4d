"""Style and shared parts of figures for papers: widths, fonts, looks of models, panels, names.

Fonts bundled with matplotlib are used, so that a figure is the same on every machine.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from eyechart.core.arrays import FloatArray
from eyechart.reports.series.palette import CATEGORY_COLORS, CATEGORY_PATTERNS, COLORS, HUMAN_COLOR
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.titles import unique_names
from eyechart.results.curve_results import SampledCurve

COLUMN, PAGE = 3.3, 6.9
"""Widths of a column and of a page of a paper, in inches."""

FONT = "DejaVu Sans"
SIZE, SMALL = 7.0, 6.5
"""Regular and smallest text size, in points."""

INK, MUTED, GRID = "#222222", "#666666", "#d9d9d9"
LETTER = 0.056
"""Width of a character of the smallest text, in inches."""

ENTRY = 0.135
"""Height of a legend row, in inches."""

LONGEST = 26
"""Maximum number of characters of a name; the middle of a longer name is omitted."""

BOX = "\N{WHITE SQUARE}"
"""Replaces characters that the font lacks."""

Dash = str | tuple[int, tuple[float, ...]]
"""A matplotlib line style: a name, or an offset and the lengths of dashes."""

DASHES: tuple[Dash, ...] = (
    "-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)), (0, (8, 2, 2, 2)),
    (0, (3, 1, 1, 1, 1, 1)), (0, (2.5, 2.5)), (0, (9, 2)), (0, (1, 3)), (0, (6, 1, 3, 1)),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DENSE = 4
"""Number of repetitions of a hatch symbol; more repetitions make the hatch denser."""

SETTINGS: dict[Any, Any] = {
    "font.family": [FONT],
    "font.size": SIZE,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": SIZE,
    "axes.titlelocation": "left",
    "axes.titlepad": 3.0,
    "axes.labelsize": SIZE,
    "axes.labelpad": 2.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.4,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "image.composite_image": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    # Ids in an SVG are hashed with this salt; by default it is random, and no two files are equal.
    "svg.hashsalt": "eyechart",
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Apply the style of these figures temporarily, ignoring the user's matplotlibrc."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


@dataclass(frozen=True)
class ModelStyle:
    """How a model is drawn, recognizable even without color; `hatch` depends on its category."""

    name: str
    color: str
    dash: Dash
    marker: str
    hatch: str


def model_styles(
    models: tuple[ModelEntry, ...], by_category: bool = False
) -> dict[str, ModelStyle]:
    """Return the look of each model by name, in its individual color or the color of its category.

    If no model has a category, all keep their individual colors.
    """
    by_category = by_category and any(model.category for model in models)
    labels = unique_names(drawable(model.short) for model in models)
    collected: dict[str, ModelStyle] = {}
    for model, label in zip(models, labels, strict=True):
        before = models[: len(collected)]
        if by_category:
            index = sum(other.category == model.category for other in before)
            color = CATEGORY_COLORS.get(model.category, CATEGORY_COLORS[""])[1]
        else:
            # Indexed over the whole report, so that a model looks the same in every figure.
            color = model.color
            index = COLORS.index(color) if color in COLORS else 0
            # Colors repeat after ten models; those that share one still differ in dash and marker.
            index += sum(other.color == color for other in before)
        dash, marker = DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
        hatch = _hatch(model.category) if by_category else ""
        collected[model.name] = ModelStyle(label, color, dash, marker, hatch)
    return collected


def category_patches(models: tuple[ModelEntry, ...]) -> list[Patch]:
    """Return the legend entries of the models' categories; empty if there are none."""
    names = {model.category for model in models}
    if not any(names):
        return []
    return [
        Patch(facecolor=color, edgecolor="white", hatch=_hatch(name), linewidth=0, label=title)
        for name, (title, color) in CATEGORY_COLORS.items()
        if name in names
    ]


def _hatch(name: str) -> str:
    return CATEGORY_PATTERNS.get(name, "") * DENSE


def drawable(text: str, longest: int = LONGEST) -> str:
    """Return text that the font can draw, with "$" escaped so that it is not read as math.

    Characters that the font lacks become boxes; the middle of a long text is omitted.
    """
    known = _letters()
    plain = "".join(
        letter if ord(letter) in known and letter.isprintable() else BOX
        for letter in " ".join(text.split())
    )
    if len(plain) > longest:
        end = (longest - 1) // 2
        plain = f"{plain[: longest - 1 - end]}…{plain[len(plain) - end :]}"
    # Last, because shortening could cut between a backslash and its "$".
    return plain.replace("$", r"\$")


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Add a legend below a figure, in as many columns as fit, and make room for it."""
    if not handles:
        return
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(figure.get_figwidth() / (LETTER * longest + 0.5)))
    columns = min(columns, len(handles))
    figure.set_figheight(figure.get_figheight() + ENTRY * -(-len(handles) // columns))
    figure.legend(handles=list(handles), loc="outside lower left", ncols=columns, borderpad=0)


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FONT)).get_charmap())


VISUAL_CHANGE = r"visual change $\Delta_v$"
FEW = 3
"""Maximum number of models whose bands can be distinguished."""

EVERY, MARK = 24, 3.2
"""Number of curve points between two markers, and the size of a marker."""


def real(numbers: Sequence[float | None]) -> FloatArray:
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
    axes: Axes,
    looks: Sequence[ModelStyle],
    values: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    labels: Sequence[str],
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


LONGEST_FILE_NAME = 80
"""Maximum length of a file's name without its suffix."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """One figure or LaTeX table; its file name is `words` joined by hyphens."""

    words: tuple[str, ...]
    caption: str
    make: Callable[[], Figure | str]
    endings: tuple[str, ...] = (".svg", ".pdf")


Planned = Iterator[Drawing | str]
"""Drawings, and a sentence for each drawing that is not possible."""


def split_planned(planned: Iterable[Drawing | str]) -> tuple[list[Drawing], list[str]]:
    """Return the drawings, and the sentences on those that are not possible, without duplicates."""
    items = list(planned)
    notes = dict.fromkeys(item for item in items if isinstance(item, str))
    return [item for item in items if isinstance(item, Drawing)], list(notes)


def file_stems(drawings: Iterable[Drawing]) -> list[str]:
    """Return a unique, portable file name without suffix for each drawing.

    Names are unique even on case-insensitive file systems.
    """
    stems = (safe_name("-".join(drawing.words)) for drawing in drawings)
    # Compared in lower case, because macOS and Windows ignore case.
    return unique_names(stems, "{}-{}", str.lower)


def safe_name(text: str) -> str:
    """Return a text with only letters, digits, dots, hyphens and underscores.

    Example:
        >>> safe_name("curves of vcr/fog")
        'curves-of-vcr-fog'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    # Stripped after cutting, which may leave a separator at the end.
    return re.sub(r"-{2,}", "-", plain)[:LONGEST_FILE_NAME].strip("-.") or "figure"


def suite_words(report: Report, section: TestSection) -> tuple[str, ...]:
    """Return the words of a file name that name the suite; empty if a report has only one suite."""
    return (section.suite,) if len(report.sections) > 1 else ()
