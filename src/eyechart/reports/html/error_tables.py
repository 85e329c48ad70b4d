"""Tables of CE and relative CE in percent, grouped as in papers, and of single conditions."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from eyechart.reports.html.cells import (
    NOTHING,
    CellContent,
    NumberCell,
    compared,
    hundredths,
    marked,
    numbers_of,
    style_of,
)
from eyechart.reports.html.html_table import Column, Table, TableRow, text_columns
from eyechart.reports.html.leaderboard_table import model_label
from eyechart.reports.number_text import UNDETERMINED
from eyechart.reports.series.model_errors import ErrorScores, error_columns, errors_in
from eyechart.reports.series.overall_scores import is_mean_marked, mark_note
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import corruption_title, listed, short_names, space_title
from eyechart.scores.registry import DECLARED, SCORES

TABLES = {score.name: SCORES[score.mean] for score in DECLARED if score.mean}
"""Scores relative to a baseline, each with the name of its mean over corruptions."""


def error_tables(report: Report, part: Part, index: int) -> Iterator[Table]:
    """Yield the tables of CE and of relative CE in each label space that has them."""
    for space in part.spaces:
        rows = errors_in(part, space)
        for name in TABLES:
            if any(row.by_corruption(name == "relative_ce") for row in rows):
                yield _table(report, part, rows, name, f"{name.replace('_', '-')}-{index}-{space}")


def _table(
    report: Report, part: Part, errors: Sequence[ErrorScores], name: str, identity: str
) -> Table:
    mean = TABLES[name]
    order = error_columns(part.suite, errors, name == "relative_ce")
    columns = (
        *text_columns("Model"),
        Column("Clean error"),
        Column(mean.short or mean.symbol),
        *(Column(column.title, group=column.group.capitalize()) for column in order),
    )
    names = [column.corruption for column in order]
    rows = tuple(_row(report, row, name, mean.name, names) for row in errors)
    first = errors[0].errors
    baseline = short_names([first.baseline])[0]
    caption = (
        f"{SCORES[name].symbol} as a percentage of the errors of {baseline}, and clean error in"
        f" percent ({space_title(errors[0].space)}); lower is better"
    )
    note = f"{first.note} {mark_note(model.results for model in part.models)}".strip()
    return Table(identity, caption, columns, rows, True, note, kind="dense stacked")


def _row(
    report: Report, row: ErrorScores, name: str, mean: str, corruptions: Sequence[str]
) -> TableRow:
    model, numbers = row.model, numbers_of(report, row.model)
    home = model.path(row.space, "corruption_error")
    table = row.by_corruption(name == "relative_ce")
    overall: CellContent = NOTHING
    if row.mean(name == "relative_ce") is not None:
        is_marked = is_mean_marked(report.runs[model.run], model.results, row.space, mean)
        overall = marked(numbers.estimate(style_of(SCORES[mean]), *home, mean), is_marked)
    cells = (
        marked(
            _queried(
                numbers.cell(style_of(SCORES[name]), *home, name, corruption, "value"),
                not table[corruption].has_interval,
            ),
            corruption in model.results.marked,
        )
        if corruption in table
        else NOTHING
        for corruption in corruptions
    )
    # 1 − clean accuracy, so that the page has a single clean error: the one inside relative CE
    # counts each image as often as it was sampled. It is formatted like the scores next to it.
    clean = compared(style_of(SCORES[mean]), row.clean_error)
    return TableRow((model_label(model), clean, overall, *cells), model.name)


def _queried(cell: NumberCell, is_undetermined: bool) -> CellContent:
    """Return a score, followed by a question mark if its interval is undetermined."""
    if not is_undetermined:
        return cell
    mark = Markup('<abbr class="unsure" title="95 % interval {}">?</abbr>')
    return Markup("{}{}").format(cell, mark.format(UNDETERMINED))


def condition_table(report: Report, part: Part, corruption: str, identity: str) -> Table | None:
    """Return accuracy at single conditions by model and label space; None if there are none."""
    names = dict.fromkeys(
        condition.condition
        for model in part.models
        for space in model.results.spaces.values()
        if corruption in space.corruptions
        for condition in space.corruptions[corruption].conditions
        if condition.accuracy is not None
    )
    rows: list[TableRow] = []
    humans: dict[str, TableRow] = {}
    for model in part.models:
        numbers = numbers_of(report, model)
        for space, scores in model.results.spaces.items():
            if corruption not in scores.corruptions or not names:
                continue
            conditions = scores.corruptions[corruption].conditions
            path = (*model.path(space), "corruptions", corruption, "conditions")
            places = {condition.condition: place for place, condition in enumerate(conditions)}
            cells = [
                numbers.estimate(hundredths, *path, places[name], "accuracy")
                if name in places
                else NOTHING
                for name in names
            ]
            label = model_label(model)
            rows.append(TableRow((label, space_title(space), *cells), model=model.name))
            sources = {one.human_source for one in conditions if one.human_source}
            if sources:
                known = [
                    numbers.cell(hundredths, *path, places[name], "human_accuracy")
                    for name in names
                ]
                title = f"Humans ({listed(sorted(sources))})"
                humans[space] = TableRow((title, space_title(space), *known))
    if not rows:
        return None
    columns = (*text_columns("", "Classes"), *(Column(name) for name in names))
    caption = f"Accuracy (%) at single conditions of {corruption_title(corruption)}"
    note = "Angles are clockwise." if any("°" in name for name in names) else ""
    return Table(identity, caption, columns, (*rows, *humans.values()), note=note)
