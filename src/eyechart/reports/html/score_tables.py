"""Tables of scores: by corruption and model, by class, relative to a baseline, and by condition."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from eyechart.core.phrases import plural, verb
from eyechart.reports.html.html_table import (
    MANY,
    NOTHING,
    CellContent,
    Column,
    Estimated,
    NumberCell,
    Numbers,
    Shaded,
    Table,
    TableChoice,
    TableRow,
    compared,
    count,
    hundredths,
    marked,
    numbers_of,
    percent,
    space_caption,
    style_of,
    text_columns,
)
from eyechart.reports.html.leaderboard_tables import model_label
from eyechart.reports.number_text import UNDETERMINED
from eyechart.reports.series.model_errors import ErrorScores, error_columns, errors_in
from eyechart.reports.series.model_scores import is_mean_marked, mark_note
from eyechart.reports.series.report import ModelEntry, Part, Report, Steps
from eyechart.reports.titles import corruption_title, listed, short_names, space_title
from eyechart.results.model_results import ClassResults
from eyechart.scores.registry import BY_RELEVANCE, DECLARED, HUMANS, SCORES, Score, find


def overviews(report: Report, part: Part, index: int) -> Iterator[TableChoice]:
    """Yield a table for each score and label space in which any corruption has this score."""
    for score in BY_RELEVANCE:
        for space in part.spaces:
            rows = tuple(
                _corruption_row(report, part, space, name, score) for name in part.corruptions
            )
            if not _is_empty(rows):
                title = f"{score.symbol}, {space_title(space)}"
                table = Table(
                    f"overview-{index}-{score.name}-{space}",
                    Markup("{} by corruption: {} ({})").format(
                        score.symbol, score.meaning, space_caption(report, part, space)
                    ),
                    _columns(part),
                    (*rows, _mean_row(report, part, space, score)) if score.has_mean else rows,
                    True,
                    mark_note(model.results for model in part.models),
                    kind="stacked by-model",
                )
                yield TableChoice(title, table)


def bounds(report: Report, part: Part, index: int) -> Iterator[TableChoice]:
    """Yield tables of the lowest and highest scores that the observed ranges allow for."""
    bounded = [score for score in BY_RELEVANCE if score.bounds]
    for score in sorted(bounded, key=lambda score: HUMANS not in score.needs):
        # With many models the page keeps the bounds of accuracy only, to stay small.
        if len(part.models) > MANY and score.letter != "a":
            continue
        for space in part.spaces:
            rows = tuple(
                TableRow((corruption_title(name), *_spans(report, part, space, name, score)))
                for name in part.corruptions
            )
            if not _is_empty(rows):
                title = f"{score.symbol}, {space_title(space)}"
                caption = f"Bounds of {title}, over all curves that fit the observed range"
                identity = f"bounds-{index}-{score.column}-{score.letter}-{space}"
                table = Table(identity, caption, _columns(part), rows, kind="by-model")
                yield TableChoice(title, table)


def _is_empty(rows: tuple[TableRow, ...]) -> bool:
    return all(cell is NOTHING for row in rows for cell in row.cells[1:])


def _columns(part: Part) -> tuple[Column, ...]:
    return (*text_columns("Corruption"), *(Column(model.short) for model in part.models))


def _corruption_row(
    report: Report, part: Part, space: str, corruption: str, score: Score
) -> TableRow:
    path = score.path(corruption)
    shaded = (
        _shaded(
            _cell(report, part, model, space, score, path),
            score,
            corruption in model.results.marked,
        )
        for model in part.models
    )
    return TableRow((corruption_title(corruption), *shaded))


def _cell(
    report: Report, part: Part, model: ModelEntry, space: str, score: Score, path: tuple[str, ...]
) -> Estimated | NumberCell | Markup | None:
    """Return a score at a path within a label space; None if it is missing."""
    estimate = find(model.space(space), path)
    if estimate is None:
        return None
    numbers, at = numbers_of(report, model), model.path(space, *path)
    if score.group == "break":
        return numbers.break_point(style_of(score), *at)
    if len(part.models) > MANY:
        return numbers.cell(style_of(score), *at, "value")
    return numbers.estimate(style_of(score), *at)


def _shaded(
    cell: Estimated | NumberCell | Markup | None, score: Score, is_marked: bool
) -> CellContent | Shaded:
    if isinstance(cell, Markup):
        return marked(cell, is_marked)
    number = cell.value if isinstance(cell, Estimated) else cell
    if cell is None or number is None or number.value is None:
        return NOTHING
    share = number.value if score.is_dark_when_high else 1 - number.value
    return Shaded(marked(cell, is_marked), min(1.0, max(0.0, share)))


def _mean_row(report: Report, part: Part, space: str, score: Score) -> TableRow:
    cells: list[CellContent] = []
    for model in part.models:
        is_marked = is_mean_marked(report.runs[model.run], model.results, space, score.name)
        cell = _cell(report, part, model, space, score, score.overall_path)
        cells.append(NOTHING if cell is None else marked(cell, is_marked))
    has_all = all(
        find(model.space(space), score.path(corruption)) is not None
        for model in part.models
        for corruption in part.corruptions
    )
    return TableRow(("Mean" if has_all else "Mean of available values", *cells), is_total=True)


def _spans(
    report: Report, part: Part, space: str, corruption: str, score: Score
) -> Iterator[CellContent]:
    for model in part.models:
        scores, path = model.space(space), ("corruptions", corruption, *score.bounds)
        ends = None if find(scores, score.path(corruption)) is None else find(scores, path)
        if ends is None or None in ends:
            yield NOTHING
        else:
            yield numbers_of(report, model).span(style_of(score), *model.path(space, *path))


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
                table = _class_table(numbers_of(report, model), model, space, scores.by_class, most)
                name = f"classes-{index}-{space}-{model.run}-{model.index}"
                yield TableChoice(title, replace(table, id=name))


def _class_table(
    numbers: Numbers, model: ModelEntry, space: str, classes: Sequence[ClassResults], most: int
) -> Table:
    # Positions among all classes, because these are what a path in results.json counts.
    present = [number for number, row in enumerate(classes) if row.n_images >= ENOUGH]
    order = sorted(present, key=lambda number: _right(classes[number]))
    rows = tuple(
        _class_row(numbers, classes[number], model.path(space, "by_class", number))
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


def _class_row(numbers: Numbers, row: ClassResults, path: Steps) -> TableRow:
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


MEANS_OF = {score.name: SCORES[score.mean] for score in DECLARED if score.mean}
"""Scores relative to a baseline, each with the name of its mean over corruptions."""


def error_tables(report: Report, part: Part, index: int) -> Iterator[Table]:
    """Yield the tables of CE and of relative CE in each label space that has them."""
    for space in part.spaces:
        rows = errors_in(part, space)
        for name in MEANS_OF:
            if any(row.by_corruption(name == "relative_ce") for row in rows):
                yield _error_table(
                    report, part, rows, name, f"{name.replace('_', '-')}-{index}-{space}"
                )


def _error_table(
    report: Report, part: Part, errors: Sequence[ErrorScores], name: str, identity: str
) -> Table:
    mean = MEANS_OF[name]
    order = error_columns(part.suite, errors, name == "relative_ce")
    columns = (
        *text_columns("Model"),
        Column("Clean error"),
        Column(mean.short or mean.symbol),
        *(Column(column.title, group=column.group.capitalize()) for column in order),
    )
    names = [column.corruption for column in order]
    rows = tuple(_error_row(report, row, name, mean.name, names) for row in errors)
    first = errors[0].errors
    baseline = short_names([first.baseline])[0]
    caption = (
        f"{SCORES[name].symbol} as a percentage of the errors of {baseline}, and clean error in"
        f" percent ({space_title(errors[0].space)}); lower is better"
    )
    note = f"{first.note} {mark_note(model.results for model in part.models)}".strip()
    return Table(identity, caption, columns, rows, True, note, kind="dense stacked")


def _error_row(
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
