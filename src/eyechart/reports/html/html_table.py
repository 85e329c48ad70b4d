"""Tables of the page: cells with rounded numbers, columns, rows, and cells shaded by value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.images.labels.spaces import ENTRY16
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.number_text import (
    UNDETERMINED,
    delta_v_text,
    known,
    p_value_text,
    percent_text,
)
from eyechart.reports.series.report import ModelEntry, Part, Report, pointer
from eyechart.reports.titles import space_title
from eyechart.results.schema import Results
from eyechart.scores.break_point import BreakPoint
from eyechart.scores.registry import Score

SPACE = "\u00a0"
"""Non-breaking space, so that a number stays on the same line as its unit."""

NOTHING = Markup('<span class="none">–</span>')


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


@dataclass(frozen=True)
class NumberCell:
    """A number on the page.

    `at` is its location in a run's results.json. For numbers that are not in any results.json,
    `origin` is how they were computed: a "comparison" of models, or a "count".
    """

    value: float | None
    text: str
    at: str = ""
    origin: str = ""

    def __html__(self) -> Markup:
        if self.value is None:
            return NOTHING
        where, name = ("data-at", self.at) if self.at else ("data-from", self.origin)
        # `repr` keeps all digits, so that a page can be checked against results.json.
        return Markup('<data value="{}" {}="{}">{}</data>').format(
            repr(self.value), Markup(where), name, self.text
        )


@dataclass(frozen=True)
class Estimated:
    """A score with the limits of its 95 % interval."""

    value: NumberCell
    low: NumberCell
    high: NumberCell

    def __html__(self) -> Markup:
        if self.value.value is None:
            return NOTHING
        return Markup('{} <span class="interval">{}</span>').format(self.value, self.interval)

    @property
    def interval(self) -> Markup:
        """Only the interval, in brackets."""
        if self.low.value is None or self.high.value is None:
            return Markup("[{}]").format(UNDETERMINED)
        return Markup("[{}, {}]").format(self.low, self.high)


@dataclass(frozen=True)
class Span:
    """Two numbers that bound a range."""

    low: NumberCell
    high: NumberCell

    def __html__(self) -> Markup:
        return Markup("{} to {}").format(self.low, self.high)


@dataclass(frozen=True)
class Numbers:
    """The numbers of one run by their location in its results.json; `run` is the run's index."""

    run: int
    results: Results

    def get(self, *path: str | int) -> Any:
        """Return the value at a location."""
        value: Any = self.results
        for key in path:
            value = _inside(value, key)
        return value

    def cell(self, style: Style, *path: str | int) -> NumberCell:
        """Return the number at a location, in a given format."""
        value = known(self.get(*path))
        text = "" if value is None else style(value)
        return NumberCell(value, text, pointer(self.run, *path))

    def estimate(self, style: Style, *path: str | int) -> Estimated:
        """Return the score at a location with its 95 % interval."""
        ends = [self.cell(style, *path, "interval95", end) for end in (0, 1)]
        return Estimated(self.cell(style, *path, "value"), *ends)

    def break_point(self, style: Style, *path: str | int) -> Estimated | Markup:
        """Return the break point at a location; "> 0.83" if it was not reached."""
        point: BreakPoint = self.get(*path)
        # A model that does not break within the observed range is known to reach its end.
        if not point.is_known:
            return Markup("&gt; {}").format(self.cell(style, *path, "limit"))
        if point.has_interval:
            return self.estimate(style, *path)
        # The upper limit is beyond the observed range.
        value, low = self.cell(style, *path, "value"), self.cell(style, *path, "interval95", 0)
        return Markup('{} <span class="interval">{}–</span>').format(value, low)

    def span(self, style: Style, *path: str | int) -> Span:
        """Return the two numbers at a location as a range."""
        return Span(*(self.cell(style, *path, end) for end in (0, 1)))


CellContent = str | NumberCell | Estimated | Span
"""Content of a table cell."""


def numbers_of(report: Report, model: ModelEntry) -> Numbers:
    """Return the numbers of the run that a model belongs to."""
    return Numbers(model.run, report.runs[model.run].results)


def images_behind(numbers: Numbers, model: ModelEntry, space: str) -> Markup:
    """Return how many images, in how many categories, a model's scores are computed from."""
    scores, path = model.results.spaces[space], model.path(space)
    text = Markup("{} {}").format(
        numbers.cell(count, *path, "n_images"), plural(scores.n_images, "image")
    )
    if scores.classes:
        noun = plural(scores.classes, "category" if space == ENTRY16 else "class")
        text += Markup(" in {} {}").format(numbers.cell(count, *path, "classes"), noun)
    return text


def space_caption(report: Report, part: Part, space: str) -> Markup:
    """Return the label space of a table in words, with the number of images behind its scores."""
    text = Markup("{}").format(space_title(space))
    models = [model for model in part.models if model.space(space) is not None]
    # Runs on different images have no common number.
    if len({model.results.spaces[space].n_images for model in models}) != 1:
        return text
    return text + Markup(", {}").format(
        images_behind(numbers_of(report, models[0]), models[0], space)
    )


def marked(cell: CellContent, is_marked: bool) -> CellContent:
    """Return the cell, with the mark "trained on" after the value if `is_marked`."""
    if not is_marked:
        return cell
    mark = Markup('<abbr class="trained" title="{}">{}</abbr>').format(MEANING, MARK)
    if not isinstance(cell, Estimated):
        return Markup("{}{}").format(cell, mark)
    text = Markup('{}{} <span class="interval">{}</span>')
    return text.format(cell.value, mark, cell.interval)


def compared(style: Style, value: float | None) -> NumberCell:
    """Return a cell with a number from a comparison of models that is not in any results.json."""
    number = known(None if value is None else float(value))
    return NumberCell(number, "" if number is None else style(number), origin="comparison")


def counted(number: int) -> NumberCell:
    """Return a cell that shows a count, such as a number of images."""
    return NumberCell(number, count(number), origin="count")


def _inside(value: Any, key: str | int) -> Any:
    # Mappings first: a model or a corruption may have the name of an attribute, such as "items".
    if isinstance(value, Mapping) or isinstance(key, int):
        return value[key]
    return getattr(value, key)


MANY = 6
"""Number of models above which tables omit details, so that the page stays small."""


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
class TableRow:
    """A row, whose first cell is its name. `model`: name of its model; "" for other rows."""

    cells: tuple["CellContent | Shaded", ...]
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
        collected: list[tuple[str, int]] = []
        for column in self.columns:
            if collected and collected[-1][0] == column.group:
                collected[-1] = (column.group, collected[-1][1] + 1)
            else:
                collected.append((column.group, 1))
        return collected if any(name for name, _ in collected) else []


@dataclass(frozen=True)
class Shaded:
    """A cell whose background gets darker as `share` increases from 0 to 1."""

    cell: CellContent
    share: float


@dataclass(frozen=True)
class TableChoice:
    """A table with the title by which readers select it among several tables."""

    title: str
    table: Table
