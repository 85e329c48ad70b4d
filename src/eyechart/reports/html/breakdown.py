"""Accuracy of each model by class, the hardest classes first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from eyechart.core.phrases import plural, verb
from eyechart.reports.html.cells import NOTHING, Numbers, count, hundredths, numbers_of, percent
from eyechart.reports.html.html_table import MANY, Column, Shaded, Table, TableChoice, TableRow
from eyechart.reports.series.report import ModelEntry, Part, Report, Steps
from eyechart.reports.words import corruption_title, space_title
from eyechart.results.model_results import ClassResults

MOST, FEWER = 20, 10
"""Maximum number of classes shown per model: for few models, and for many models."""

ENOUGH = 3
"""Minimum number of images of a class for its accuracy to be shown."""

COLUMNS = (
    Column("Class", numeric=False),
    Column("Images"),
    Column("Clean accuracy (%)"),
    Column("Corrupted accuracy (%)"),
    Column("Worst under", numeric=False, hint="the corruption, and the accuracy under it"),
    Column(
        "Predicts instead",
        numeric=False,
        hint="the prediction, and its percentage of all incorrect predictions",
    ),
)


def breakdowns(report: Report, part: Part, index: int) -> Iterator[TableChoice]:
    """Yield a table of classes for each model and label space with results by class.

    Insufficient data do not show which classes are the hardest.
    """
    most = MOST if len(part.models) <= MANY else FEWER
    for space in reversed(part.spaces):
        for model in part.models:
            scores = model.space(space)
            if scores is None or scores.verdict:
                continue
            if any(row.n_images >= ENOUGH for row in scores.by_class):
                title = f"{model.short}, {space_title(space)}"
                table = _table(numbers_of(report, model), model, space, scores.by_class, most)
                name = f"classes-{index}-{space}-{model.run}-{model.index}"
                yield TableChoice(title, replace(table, id=name))


def _table(
    numbers: Numbers, model: ModelEntry, space: str, classes: Sequence[ClassResults], most: int
) -> Table:
    # Positions among all classes, because these are what a path in results.json counts.
    present = [number for number, row in enumerate(classes) if row.n_images >= ENOUGH]
    order = sorted(present, key=lambda number: _right(classes[number]))
    rows = tuple(
        _row(numbers, classes[number], model.path(space, "by_class", number))
        for number in order[:most]
    )
    total, fewer = len(present), len(classes) - len(present)
    selection = f"the {most} hardest of {total} classes" if total > most else "hardest class first"
    caption = f"{model.short} by class in {space_title(space)}: {selection}"
    more = f"{fewer:,} more {plural(fewer, 'class')} {verb(fewer, 'has')}"
    note = f"{more} fewer than {ENOUGH} images." if fewer else ""
    return Table("", caption, COLUMNS, rows, True, note)


def _right(row: ClassResults) -> float:
    # 2 is above every accuracy: unknown classes come last.
    return row.corrupted.value if row.corrupted.is_known else 2.0


def _row(numbers: Numbers, row: ClassResults, path: Steps) -> TableRow:
    right = numbers.estimate(hundredths, *path, "corrupted")
    return TableRow(
        (
            row.name or str(row.label),
            numbers.cell(count, *path, "n_images"),
            numbers.cell(hundredths, *path, "clean"),
            Shaded(right, 1 - _right(row)) if row.corrupted.is_known else NOTHING,
            _with(numbers, corruption_title(row.worst) if row.worst else "", *path, "worst_rate"),
            _with(numbers, row.instead, *path, "instead_share"),
        )
    )


def _with(numbers: Numbers, word: str, *path: str | int) -> Markup:
    """Return a word followed by the percentage at `path`, if there is one."""
    if not word or numbers.get(*path) is None:
        return NOTHING if not word else Markup("{}").format(word)
    return Markup('{} <span class="interval">{}</span>').format(word, numbers.cell(percent, *path))
