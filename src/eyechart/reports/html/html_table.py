"""Tables of the page: cells with rounded numbers, columns, rows, and cells shaded by value."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.images.labels.spaces import ENTRY16
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.number_text import (
    UNDETERMINED,
    Interval,
    delta_v_text,
    known,
    p_value_text,
    percent_text,
)
from eyechart.reports.series.report import TestSection
from eyechart.reports.titles import space_title
from eyechart.results.model_results import SpaceResults
from eyechart.scores.break_point import BreakPoint
from eyechart.scores.registry import Score
from eyechart.stats.estimate import Estimate

SPACE = "\u00a0"
"""Non-breaking space, so that a number stays on the same line as its unit."""

NOTHING = Markup('<span class="none">–</span>')

TRAINED = Markup('<abbr class="trained" title="{}">{}</abbr>').format(MEANING, MARK)
"""Mark after a score under corruptions that the model was trained on."""

MANY = 6
"""Number of models above which tables omit details, so that the page stays small."""

Style = Callable[[float], str]


def style_of(score: Score, is_short: bool = False) -> Style:
    """Return the declared format of a score, with fewer decimals if `is_short` is set."""
    return lambda value: _typeset(score.text(value, is_short=is_short))


def delta(value: float) -> str:
    """Return a visual change, or another number with two decimals, as text."""
    return _typeset(delta_v_text(value))


def percent(value: float) -> str:
    """Return a fraction as text, in whole percent."""
    return _typeset(percent_text(value))


def hundredths(value: float) -> str:
    """Return a fraction in percent without the % sign, for table cells that are not scores."""
    return _typeset(f"{100 * value:z.1f}")


def count(value: float) -> str:
    """Return an integer with thousands separators, or any other number in its shortest form."""
    return _typeset(f"{value:z,.0f}" if float(value).is_integer() else f"{value:z,g}")


def chance(value: float) -> str:
    """Return a p-value as text."""
    return _typeset(p_value_text(value))


def _typeset(text: str) -> str:
    """Return a number typeset for the page: a true minus sign, and no break before its unit."""
    return text.replace("-", "−").replace(" ", SPACE)


def number(style: Style, value: float | None) -> Markup:
    """Return a number as shown on the page, with all its digits for sorting and for programs."""
    value = known(value)
    if value is None:
        return NOTHING
    digits = repr(value if isinstance(value, int) else float(value))
    return Markup('<data value="{}">{}</data>').format(digits, style(value))


def counted(amount: int) -> Markup:
    """Return a count, such as a number of images."""
    return number(count, amount)


def counted_of(amount: int, word: str) -> Markup:
    """Return a count with its noun."""
    return Markup("{} {}").format(counted(amount), plural(amount, word))


def with_interval(
    style: Style, value: float, interval: Interval, is_marked: bool = False
) -> Markup:
    """Return a number followed by its interval; `is_marked` adds the mark "trained on"."""
    if known(value) is None:
        return NOTHING
    cell = marked(number(style, value), is_marked)
    low, high = map(known, interval)
    ends = Markup(UNDETERMINED)
    if low is not None and high is not None:
        ends = Markup("{}, {}").format(number(style, low), number(style, high))
    return Markup('{} <span class="interval">[{}]</span>').format(cell, ends)


def estimated(style: Style, estimate: Estimate, is_marked: bool = False) -> Markup:
    """Return a score with its 95 % interval; `is_marked` adds the mark "trained on"."""
    return with_interval(style, estimate.value, estimate.interval95, is_marked)


def break_point_cell(style: Style, point: BreakPoint) -> Markup:
    """Return a break point with its interval; "> 0.83" if it was not reached."""
    # A model that does not break within the observed range is known to reach its end.
    if not point.is_known:
        return Markup("&gt; {}").format(number(style, point.limit))
    if point.has_interval:
        return estimated(style, point)
    # The upper limit is beyond the observed range.
    value, low = number(style, point.value), number(style, point.interval95[0])
    return Markup('{} <span class="interval">{}–</span>').format(value, low)


def span(style: Style, ends: tuple[float, float]) -> Markup:
    """Return two numbers as a range."""
    return Markup("{} to {}").format(*(number(style, end) for end in ends))


def marked(cell: Markup, is_marked: bool) -> Markup:
    """Return the cell, with the mark "trained on" if `is_marked`."""
    return cell + TRAINED if is_marked else cell


def images_behind(scores: SpaceResults, space: str) -> Markup:
    """Return how many images, in how many categories, a model's scores are computed from."""
    text = counted_of(scores.n_images, "image")
    if scores.classes:
        noun = "category" if space == ENTRY16 else "class"
        text += Markup(" in {}").format(counted_of(scores.classes, noun))
    return text


def space_caption(section: TestSection, space: str) -> Markup:
    """Return the label space of a table in words, with the number of images behind its scores."""
    text = Markup("{}").format(space_title(space))
    scores = [
        model.results.spaces[space] for model in section.models if space in model.results.spaces
    ]
    # Runs on different images have no common number.
    if len({one.n_images for one in scores}) != 1:
        return text
    return text + Markup(", {}").format(images_behind(scores[0], space))


@dataclass(frozen=True)
class Column:
    """A column. `group`: heading shared with adjacent columns. `hint`: explanation of the title."""

    title: str
    numeric: bool = True
    group: str = ""
    hint: str = ""


def text_columns(*titles: str) -> tuple[Column, ...]:
    """Return text columns with these titles."""
    return tuple(Column(title, numeric=False) for title in titles)


@dataclass(frozen=True)
class Shaded:
    """A cell whose background gets darker as `share` increases from 0 to 1."""

    cell: str
    share: float


CellContent = str | Shaded


@dataclass(frozen=True)
class TableRow:
    """A row, whose first cell is its name. `model`: name of its model; "" for other rows."""

    cells: tuple[CellContent, ...]
    model: str = ""
    is_total: bool = False


@dataclass(frozen=True)
class Table:
    """A table. `id`: unique in the page. `note`: text shown below the table.

    `kind`: "stacked" has intervals below values, "dense" also has small text, "by-model" has a
    column for each model.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    is_sortable: bool = False
    note: str | Markup = ""
    kind: str = ""

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The column groups with the number of columns that each spans; empty if there are none."""
        groups = groupby(self.columns, key=lambda column: column.group)
        spans = [(name, len(list(columns))) for name, columns in groups]
        return spans if any(name for name, _ in spans) else []


TableChoice = tuple[str, Table]
"""A table behind the title by which readers select it among several tables."""
