"""Tables of scores: by corruption and model, by class, relative to a baseline, and by condition."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from eyechart.core.phrases import listed, plural, verb
from eyechart.reports.html.html_table import (
    MANY,
    NOTHING,
    CellContent,
    Column,
    Shaded,
    Table,
    TableChoice,
    TableRow,
    break_point_cell,
    counted,
    estimated,
    hundredths,
    marked,
    number,
    percent,
    space_caption,
    span,
    style_of,
    text_columns,
)
from eyechart.reports.html.leaderboard_tables import model_label
from eyechart.reports.number_text import UNDETERMINED
from eyechart.reports.series.model_errors import ErrorScores, error_columns, errors_in
from eyechart.reports.series.model_scores import is_mean_marked, mark_note
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, short_names, space_title
from eyechart.results.model_results import ClassResults, SpaceResults
from eyechart.scores.break_point import BreakPoint
from eyechart.scores.registry import BY_RELEVANCE, DECLARED, HUMANS, SCORES, Score, find
from eyechart.stats.estimate import Estimate


def overviews(report: Report, section: TestSection, index: int) -> Iterator[TableChoice]:
    """Yield a table for each score and label space in which any corruption has this score."""
    for score in BY_RELEVANCE:
        for space in section.spaces:
            rows = tuple(
                _corruption_row(section, space, name, score) for name in section.corruptions
            )
            if not _is_empty(rows):
                title = f"{score.symbol}, {space_title(space)}"
                table = Table(
                    f"overview-{index}-{score.name}-{space}",
                    Markup("{} by corruption: {} ({})").format(
                        score.symbol, score.meaning, space_caption(section, space)
                    ),
                    _columns(section),
                    (*rows, _mean_row(report, section, space, score)) if score.has_mean else rows,
                    True,
                    mark_note(model.results for model in section.models),
                    kind="stacked by-model",
                )
                yield title, table


def bounds(section: TestSection, index: int) -> Iterator[TableChoice]:
    """Yield tables of the lowest and highest scores that the observed ranges allow for."""
    bounded = [score for score in BY_RELEVANCE if score.bounds]
    for score in sorted(bounded, key=lambda score: HUMANS not in score.needs):
        # With many models the page keeps the bounds of accuracy only, to stay small.
        if len(section.models) > MANY and score.letter != "a":
            continue
        for space in section.spaces:
            rows = tuple(
                TableRow((corruption_title(name), *_spans(section, space, name, score)))
                for name in section.corruptions
            )
            if not _is_empty(rows):
                title = f"{score.symbol}, {space_title(space)}"
                caption = f"Bounds of {title}, over all curves that fit the observed range"
                identity = f"bounds-{index}-{score.column}-{score.letter}-{space}"
                table = Table(identity, caption, _columns(section), rows, kind="by-model")
                yield title, table


def _is_empty(rows: tuple[TableRow, ...]) -> bool:
    return all(cell is NOTHING for row in rows for cell in row.cells[1:])


def _columns(section: TestSection) -> tuple[Column, ...]:
    return (*text_columns("Corruption"), *(Column(model.short) for model in section.models))


def _corruption_row(section: TestSection, space: str, corruption: str, score: Score) -> TableRow:
    cells: list[CellContent] = []
    for model in section.models:
        estimate = find(model.space(space), score.path(corruption))
        cell = _cell(section, estimate, score, corruption in model.results.marked)
        # A break point that may be beyond the observed range is not shaded.
        is_open = score.group == "break" and estimate is not None and not estimate.has_interval
        if estimate is not None and estimate.is_known and not is_open:
            share = estimate.value if score.is_dark_when_high else 1 - estimate.value
            cells.append(Shaded(cell, min(1.0, max(0.0, share))))
        else:
            cells.append(cell)
    return TableRow((corruption_title(corruption), *cells))


def _cell(section: TestSection, estimate: Estimate | None, score: Score, is_marked: bool) -> Markup:
    """Return a score, with its interval unless there are many models."""
    if estimate is None:
        return NOTHING
    if isinstance(estimate, BreakPoint):
        return marked(break_point_cell(style_of(score), estimate), is_marked)
    if len(section.models) > MANY:
        return marked(number(style_of(score), estimate.value), is_marked and estimate.is_known)
    return estimated(style_of(score), estimate, is_marked)


def _mean_row(report: Report, section: TestSection, space: str, score: Score) -> TableRow:
    cells = []
    for model in section.models:
        is_marked = is_mean_marked(report.runs[model.run], model.results, space, score.name)
        estimate = find(model.space(space), score.overall_path)
        cells.append(_cell(section, estimate, score, is_marked))
    has_all = all(
        find(model.space(space), score.path(corruption)) is not None
        for model in section.models
        for corruption in section.corruptions
    )
    return TableRow(("Mean" if has_all else "Mean of available values", *cells), is_total=True)


def _spans(section: TestSection, space: str, corruption: str, score: Score) -> Iterator[Markup]:
    for model in section.models:
        scores, path = model.space(space), ("corruptions", corruption, *score.bounds)
        ends = None if find(scores, score.path(corruption)) is None else find(scores, path)
        yield NOTHING if ends is None or None in ends else span(style_of(score), ends)


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


def breakdowns(section: TestSection, index: int) -> Iterator[TableChoice]:
    """Yield a table of classes for each model and label space with results by class.

    Insufficient data do not show which classes are the hardest.
    """
    most = MOST if len(section.models) <= MANY else FEWER
    for space in reversed(section.spaces):
        for model in section.models:
            scores = model.space(space)
            if scores is None or scores.verdict:
                continue
            if any(row.n_images >= ENOUGH for row in scores.by_class):
                identity = f"classes-{index}-{space}-{model.run}-{model.index}"
                title = space_title(space)
                table = _class_table(identity, f"{model.short} by class in {title}", scores, most)
                yield f"{model.short}, {title}", table


def _class_table(identity: str, caption: str, scores: SpaceResults, most: int) -> Table:
    present = [row for row in scores.by_class if row.n_images >= ENOUGH]
    rows = tuple(map(_class_row, sorted(present, key=_right)[:most]))
    total, fewer = len(present), len(scores.by_class) - len(present)
    selection = f"the {most} hardest of {total} classes" if total > most else "hardest class first"
    more = f"{fewer:,} more {plural(fewer, 'class')} {verb(fewer, 'has')}"
    note = f"{more} fewer than {ENOUGH} images." if fewer else ""
    return Table(identity, f"{caption}: {selection}", COLUMNS, rows, True, note)


def _right(row: ClassResults) -> float:
    # 2 is above every accuracy: unknown classes come last.
    return row.corrupted.value if row.corrupted.is_known else 2.0


def _class_row(row: ClassResults) -> TableRow:
    right = estimated(hundredths, row.corrupted)
    return TableRow(
        (
            row.name or str(row.label),
            counted(row.n_images),
            number(hundredths, row.clean),
            Shaded(right, 1 - _right(row)) if row.corrupted.is_known else NOTHING,
            _with_share(corruption_title(row.worst) if row.worst else "", row.worst_rate),
            _with_share(row.instead, row.instead_share),
        )
    )


def _with_share(word: str, share: float | None) -> Markup:
    """Return a word followed by a percentage, if there is one."""
    if not word or share is None:
        return NOTHING if not word else Markup("{}").format(word)
    return Markup('{} <span class="interval">{}</span>').format(word, number(percent, share))


MEANS_OF = {score.name: SCORES[score.mean] for score in DECLARED if score.mean}
"""Scores relative to a baseline, each with the name of its mean over corruptions."""

UNSURE = Markup('<abbr class="unsure" title="95 % interval {}">?</abbr>').format(UNDETERMINED)
"""Mark after a score whose interval is undetermined."""


def error_tables(report: Report, section: TestSection, index: int) -> Iterator[Table]:
    """Yield the tables of CE and of relative CE in each label space that has them."""
    for space in section.spaces:
        rows = errors_in(section, space)
        for name in MEANS_OF:
            if any(row.by_corruption(name == "relative_ce") for row in rows):
                yield _error_table(
                    report, section, rows, name, f"{name.replace('_', '-')}-{index}-{space}"
                )


def _error_table(
    report: Report, section: TestSection, errors: Sequence[ErrorScores], name: str, identity: str
) -> Table:
    mean = MEANS_OF[name]
    order = error_columns(section.suite, errors, name == "relative_ce")
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
    note = f"{first.note} {mark_note(model.results for model in section.models)}".strip()
    return Table(identity, caption, columns, rows, True, note, kind="dense stacked")


def _error_row(
    report: Report, row: ErrorScores, name: str, mean: str, corruptions: Sequence[str]
) -> TableRow:
    model, is_relative = row.model, name == "relative_ce"
    overall = NOTHING
    if (estimate := row.mean(is_relative)) is not None:
        is_marked = is_mean_marked(report.runs[model.run], model.results, row.space, mean)
        overall = estimated(style_of(SCORES[mean]), estimate, is_marked)
    cells = [NOTHING] * len(corruptions)
    for place, corruption in enumerate(corruptions):
        if (score := row.by_corruption(is_relative).get(corruption)) is not None:
            cell = number(style_of(SCORES[name]), score.value)
            cell += Markup("") if score.has_interval else UNSURE
            cells[place] = marked(cell, corruption in model.results.marked)
    # 1 − clean accuracy, so that the page has a single clean error: the one inside relative CE
    # counts each image as often as it was sampled. It is formatted like the scores next to it.
    clean = number(style_of(SCORES[mean]), row.clean_error)
    return TableRow((model_label(model), clean, overall, *cells), model.name)


def condition_table(section: TestSection, corruption: str, identity: str) -> Table | None:
    """Return accuracy at single conditions by model and label space; None if there are none."""
    names = dict.fromkeys(
        condition.condition
        for model in section.models
        for space in model.results.spaces.values()
        if corruption in space.corruptions
        for condition in space.corruptions[corruption].conditions
        if condition.accuracy is not None
    )
    rows: list[TableRow] = []
    humans: dict[str, TableRow] = {}
    for model in section.models:
        for space, scores in model.results.spaces.items():
            if corruption not in scores.corruptions or not names:
                continue
            conditions = {one.condition: one for one in scores.corruptions[corruption].conditions}
            shown = [conditions.get(name) for name in names]
            cells = [
                NOTHING
                if condition is None or condition.accuracy is None
                else estimated(hundredths, condition.accuracy)
                for condition in shown
            ]
            label = model_label(model)
            rows.append(TableRow((label, space_title(space), *cells), model=model.name))
            sources = {one.human_source for one in conditions.values() if one.human_source}
            if sources:
                title = f"Humans ({listed(sorted(sources))})"
                known = (
                    number(hundredths, None if condition is None else condition.human_accuracy)
                    for condition in shown
                )
                humans[space] = TableRow((title, space_title(space), *known))
    if not rows:
        return None
    columns = (*text_columns("", "Classes"), *(Column(name) for name in names))
    caption = f"Accuracy (%) at single conditions of {corruption_title(corruption)}"
    note = "Angles are clockwise." if any("°" in name for name in names) else ""
    return Table(identity, caption, columns, (*rows, *humans.values()), note=note)
