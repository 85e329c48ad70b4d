"""Every corruption by every model, one table per score, shaded by how far it is from the best."""

from collections.abc import Iterator
from typing import Any

from eyechart.reports.html.cells import NOTHING, Estimated, NumberCell, Numbers, marked
from eyechart.reports.html.cells import score as score_style
from eyechart.reports.html.html_table import MANY, Column, Shaded, Table, TableChoice, TableRow
from eyechart.reports.series.overall_scores import is_mean_marked, mark_note
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import corruption_title, space_title
from eyechart.scores.registry import BY_RELEVANCE, HUMANS, SCORES, Score, find

Path = tuple[str | int, ...]


def overviews(report: Report, part: Part, index: int) -> list[TableChoice]:
    """Return a table of each score that any corruption has, in each label space."""
    collected = []
    for score in BY_RELEVANCE:
        name = score.name
        for space in part.spaces:
            rows = tuple(
                _row(report, part, space, corruption, name) for corruption in part.corruptions
            )
            if any(cell is not NOTHING for row in rows for cell in row.cells[1:]):
                title = f"{score.symbol}, {space_title(space)}"
                table = Table(
                    f"overview-{index}-{name}-{space}",
                    f"{score.symbol} by corruption: {score.meaning} ({space_title(space)})",
                    _columns(part),
                    (*rows, _mean_row(report, part, space, name)),
                    True,
                    mark_note(model.results for model in part.models),
                    kind="stacked by-model",
                )
                collected.append(TableChoice(title, table))
    return collected


def bounds(report: Report, part: Part, index: int) -> list[TableChoice]:
    """Return tables of what scores may be whatever happens where nothing was observed."""
    collected = []
    bounded = [score for score in BY_RELEVANCE if score.bounds]
    for score in sorted(bounded, key=lambda score: HUMANS not in score.needs):
        if len(part.models) > MANY and score.letter != "a":
            continue
        for space in part.spaces:
            rows = tuple(
                TableRow((corruption_title(name), *_spans(report, part, space, name, score)))
                for name in part.corruptions
            )
            if any(cell is not NOTHING for row in rows for cell in row.cells[1:]):
                title = f"{score.symbol}, {space_title(space)}"
                caption = f"Between what {title}, lies whatever happens where nothing was observed"
                identity = f"bounds-{index}-{score.column}-{score.letter}-{space}"
                columns = _columns(part)
                collected.append(
                    TableChoice(title, Table(identity, caption, columns, rows, kind="by-model"))
                )
    return collected


def path_of(model: ModelEntry, space: str, corruption: str, name: str) -> Path:
    """Return where a model's score under a corruption stands in its results, () if nowhere."""
    scores = model.space(space)
    path = SCORES[name].path(corruption)
    return ("models", model.index, "spaces", space, *path) if find(scores, path) is not None else ()


def _columns(part: Part) -> tuple[Column, ...]:
    return (Column("Corruption", numeric=False), *(Column(model.short) for model in part.models))


def _row(report: Report, part: Part, space: str, corruption: str, name: str) -> TableRow:
    cells = [
        _cell(report, part, model, path_of(model, space, corruption, name)) for model in part.models
    ]
    shaded = (
        _shaded(cell, name, corruption in model.results.marked)
        for cell, model in zip(cells, part.models, strict=True)
    )
    return TableRow((corruption_title(corruption), *shaded))


def _cell(
    report: Report, part: Part, model: ModelEntry, path: Path
) -> Estimated | NumberCell | None:
    if not path:
        return None
    numbers = Numbers(model.run, report.runs[model.run].results)
    if len(part.models) > MANY:
        return numbers.cell(score_style, *path, "value")
    return numbers.estimate(score_style, *path)


def _shaded(cell: Estimated | NumberCell | None, name: str, is_marked: bool) -> Any:
    number = cell.value if isinstance(cell, Estimated) else cell
    if number is None or number.value is None:
        return NOTHING
    share = number.value if SCORES[name].is_dark_when_high else 1 - number.value
    return Shaded(marked(cell, is_marked), min(1.0, max(0.0, share)))


def _mean_row(report: Report, part: Part, space: str, name: str) -> TableRow:
    cells = []
    for model in part.models:
        scores = model.space(space)
        has = scores is not None and name in scores.means
        path = ("models", model.index, "spaces", space, "means", name) if has else ()
        is_marked = is_mean_marked(report.runs[model.run], model.results, space, name)
        cell = _cell(report, part, model, path)
        cells.append(NOTHING if cell is None else marked(cell, is_marked))
    has_all = all(
        path_of(model, space, corruption, name)
        for model in part.models
        for corruption in part.corruptions
    )
    return TableRow(("Mean" if has_all else "Mean of those known", *cells), is_total=True)


def _spans(report: Report, part: Part, space: str, corruption: str, score: Score) -> Iterator[Any]:
    for model in part.models:
        numbers = Numbers(model.run, report.runs[model.run].results)
        if not path_of(model, space, corruption, score.name):
            yield NOTHING
            continue
        home = ("models", model.index, "spaces", space, "corruptions", corruption)
        ends = numbers.get(*home, *score.bounds)
        known = ends is not None and None not in ends
        yield numbers.span(score_style, *home, *score.bounds) if known else NOTHING
