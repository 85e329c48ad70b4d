"""Tables of each score by corruption and model, shaded by distance from the best value."""

from collections.abc import Iterator

from markupsafe import Markup

from eyechart.reports.html.cells import (
    NOTHING,
    CellContent,
    Estimated,
    NumberCell,
    marked,
    numbers_of,
    space_caption,
    style_of,
)
from eyechart.reports.html.html_table import (
    MANY,
    Column,
    Shaded,
    Table,
    TableChoice,
    TableRow,
    text_columns,
)
from eyechart.reports.series.overall_scores import is_mean_marked, mark_note
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import corruption_title, space_title
from eyechart.scores.registry import BY_RELEVANCE, HUMANS, Score, find


def overviews(report: Report, part: Part, index: int) -> Iterator[TableChoice]:
    """Yield a table for each score and label space in which any corruption has this score."""
    for score in BY_RELEVANCE:
        for space in part.spaces:
            rows = tuple(_row(report, part, space, name, score) for name in part.corruptions)
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


def _row(report: Report, part: Part, space: str, corruption: str, score: Score) -> TableRow:
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
