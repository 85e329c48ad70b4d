"""How well each model does on each class of pictures, the hardest first."""

from markupsafe import Markup

from eyechart.reports.html.cells import NOTHING, Numbers, count, hundredths, percent
from eyechart.reports.html.html_table import MANY, Choice, Column, Row, Shaded, Table
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, space_title
from eyechart.results.schema import ClassResults

MOST, FEWER = 20, 10
"""Classes that are shown of each model, and of each of many."""

ENOUGH = 3
"""Pictures that a class needs to be shown; of fewer nothing can be said."""

COLUMNS = (
    Column("Class", numeric=False),
    Column("Pictures"),
    Column("Clean right (%)"),
    Column("Corrupted right (%)"),
    Column("Worst under", numeric=False, hint="the corruption, and how often it is right there"),
    Column("Says instead", numeric=False, hint="the answer, and its share of all wrong ones"),
)


def breakdowns(report: Report, part: Part, place: int) -> list[Choice]:
    """Return a table of classes for each model and label space that has any."""
    found = []
    for space in reversed(part.spaces):
        for shown in part.models:
            own = shown.space(space)
            if own is not None and any(each.pictures >= ENOUGH for each in own.by_class):
                title = f"{shown.short}, {space_title(space)}"
                most = MOST if len(part.models) <= MANY else FEWER
                found.append(Choice(title, _table(report, shown, place, space, most)))
    return found


def _table(report: Report, shown: Shown, place: int, space: str, most: int) -> Table:
    own = shown.space(space)
    assert own is not None
    numbers = Numbers(shown.run, report.runs[shown.run].results)
    there = [place for place, each in enumerate(own.by_class) if each.pictures >= ENOUGH]
    order = sorted(there, key=lambda each: _right(own.by_class[each]))
    rows = tuple(
        _row(
            numbers, own.by_class[each], ("models", shown.place, "spaces", space, "by_class", each)
        )
        for each in order[:most]
    )
    total, fewer = len(there), len(own.by_class) - len(there)
    which = f"the {most} hardest of {total} classes" if total > most else "hardest class first"
    caption = f"{shown.short} by class in {space_title(space)}: {which}"
    note = f"{fewer:,} more have fewer than {ENOUGH} pictures." if fewer else ""
    name = f"classes-{place}-{space}-{shown.run}-{shown.place}"
    return Table(name, caption, COLUMNS, rows, True, note)


def _right(own: ClassResults) -> float:
    return own.corrupted.value if own.corrupted.is_known else 2.0


def _row(numbers: Numbers, own: ClassResults, path: tuple[str | int, ...]) -> Row:
    right = numbers.estimate(hundredths, *path, "corrupted")
    return Row(
        (
            own.name or own.label,
            numbers.cell(count, *path, "pictures"),
            numbers.cell(hundredths, *path, "clean"),
            Shaded(right, 1 - _right(own)) if own.corrupted.is_known else NOTHING,
            _with(numbers, corruption_title(own.worst) if own.worst else "", *path, "worst_rate"),
            _with(numbers, own.instead, *path, "instead_share"),
        )
    )


def _with(numbers: Numbers, word: str, *path: str | int) -> Markup:
    """Return a word with the share that belongs to it."""
    if not word or numbers.get(*path) is None:
        return NOTHING if not word else Markup("{}").format(word)
    return Markup('{} <span class="interval">{}</span>').format(word, numbers.cell(percent, *path))
