"""How well each model does on each class of pictures, the hardest first."""

from markupsafe import Markup

from eyechart.reports.html.cells import NOTHING, Numbers, count, hundredths, percent
from eyechart.reports.html.html_table import MANY, Column, Shaded, Table, TableChoice, TableRow
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import corruption_title, space_title
from eyechart.results.model_results import ClassResults

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


def breakdowns(report: Report, part: Part, index: int) -> list[TableChoice]:
    """Return a table of classes for each model and label space that has any."""
    collected = []
    for space in reversed(part.spaces):
        for model in part.models:
            scores = model.space(space)
            if scores is not None and any(row.pictures >= ENOUGH for row in scores.by_class):
                title = f"{model.short}, {space_title(space)}"
                most = MOST if len(part.models) <= MANY else FEWER
                collected.append(TableChoice(title, _table(report, model, index, space, most)))
    return collected


def _table(report: Report, model: ModelEntry, index: int, space: str, most: int) -> Table:
    scores = model.space(space)
    assert scores is not None
    numbers = Numbers(model.run, report.runs[model.run].results)
    present = [number for number, row in enumerate(scores.by_class) if row.pictures >= ENOUGH]
    order = sorted(present, key=lambda number: _right(scores.by_class[number]))
    rows = tuple(
        _row(
            numbers,
            scores.by_class[number],
            ("models", model.index, "spaces", space, "by_class", number),
        )
        for number in order[:most]
    )
    total, fewer = len(present), len(scores.by_class) - len(present)
    selection = f"the {most} hardest of {total} classes" if total > most else "hardest class first"
    caption = f"{model.short} by class in {space_title(space)}: {selection}"
    note = f"{fewer:,} more have fewer than {ENOUGH} pictures." if fewer else ""
    name = f"classes-{index}-{space}-{model.run}-{model.index}"
    return Table(name, caption, COLUMNS, rows, True, note)


def _right(row: ClassResults) -> float:
    return row.corrupted.value if row.corrupted.is_known else 2.0


def _row(numbers: Numbers, row: ClassResults, path: tuple[str | int, ...]) -> TableRow:
    right = numbers.estimate(hundredths, *path, "corrupted")
    return TableRow(
        (
            row.name or row.label,
            numbers.cell(count, *path, "pictures"),
            numbers.cell(hundredths, *path, "clean"),
            Shaded(right, 1 - _right(row)) if row.corrupted.is_known else NOTHING,
            _with(numbers, corruption_title(row.worst) if row.worst else "", *path, "worst_rate"),
            _with(numbers, row.instead, *path, "instead_share"),
        )
    )


def _with(numbers: Numbers, word: str, *path: str | int) -> Markup:
    """Return a word with the share that belongs to it."""
    if not word or numbers.get(*path) is None:
        return NOTHING if not word else Markup("{}").format(word)
    return Markup('{} <span class="interval">{}</span>').format(word, numbers.cell(percent, *path))
