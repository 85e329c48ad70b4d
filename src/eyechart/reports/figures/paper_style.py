"""Style of figures for papers: widths, fonts, and the look of categories, models and properties.

Fonts bundled with matplotlib are used, so that a figure is the same on every machine.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import Patch

from eyechart.reports.series.palette import CATEGORY_COLORS, CATEGORY_PATTERNS, COLORS
from eyechart.reports.series.report import ModelEntry

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
class Look:
    """How a model is drawn, recognizable even without color; `hatch` depends on its category."""

    name: str
    color: str
    dash: Dash
    marker: str
    hatch: str


def looks_of(models: tuple[ModelEntry, ...], by_category: bool = False) -> dict[str, Look]:
    """Return the look of each model by name, in its individual color or the color of its category.

    If no model has a category, all keep their individual colors.
    """
    by_category = by_category and any(model.category for model in models)
    collected: dict[str, Look] = {}
    for model in models:
        before = models[: len(collected)]
        if by_category:
            index = sum(other.category == model.category for other in before)
            color = _category(model.category)[1]
        else:
            # Indexed over the whole report, so that a model looks the same in every figure.
            color = model.color
            index = COLORS.index(color) if color in COLORS else 0
            # Colors repeat after ten models; those that share one still differ in dash and marker.
            index += sum(other.color == color for other in before)
        dash, marker = DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
        hatch = _hatch(model.category) if by_category else ""
        label, number = drawable(model.short), 1
        while any(label == look.name for look in collected.values()):
            number += 1
            label = f"{drawable(model.short)} ({number})"
        collected[model.name] = Look(label, color, dash, marker, hatch)
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


def _category(name: str) -> tuple[str, str]:
    return CATEGORY_COLORS.get(name, CATEGORY_COLORS[""])


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
