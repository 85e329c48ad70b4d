"""The tables of a model card: models side by side, and each under every corruption."""

from collections.abc import Iterator, Sequence

from eyechart.pipeline.caveats import MARK
from eyechart.reports.interval_text import interval_text
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.terminal.markdown import escape, table
from eyechart.reports.terminal.model_index import averaged, overall
from eyechart.reports.trained_on import is_mean_marked, note_on
from eyechart.reports.words import corruption_title, space_title, suite_title
from eyechart.results.schema import SpaceResults
from eyechart.scores.registry import DECLARED, LEADERBOARD, SCORES, Score, find
from eyechart.stats.estimate import Estimate

Scored = tuple[ModelEntry, SpaceResults]


def leaderboards(report: Report, part: Part) -> Iterator[str]:
    """Yield a heading, what it is ordered by and a table for each label space of a test."""
    standings = part.standings
    where = space_title(standings.space)
    order = f"In the order of {escape(SCORES[standings.by].title)} in {where}."
    if standings.board.baseline:
        order += f" Errors are divided by those of {escape(standings.board.baseline)}."
    for space in part.spaces:
        models = _scored(part, space)
        columns = dict(_columns(report, models))
        # a rank belongs to the space it was found in
        ranked = space == standings.space
        rows = [
            [
                str(index),
                escape(model.short),
                *([_span(standings.ranks.intervals[model.name])] if ranked else []),
                *(
                    in_words(overall(scores)[name], SCORES[name])
                    + _mark(is_mean_marked(report.runs[model.run], model.results, space, name))
                    for name in columns
                ),
            ]
            for index, (model, scores) in enumerate(models, start=1)
        ]
        yield f"### {heading(part, space)}"
        yield order
        head = ["#", "model", *(["rank, 95 %"] if ranked else []), *columns.values()]
        yield table(head, rows, left=2)
        if note := note_on(model.results for model, _ in models):
            yield note


def by_corruption(part: Part, model: ModelEntry) -> Iterator[str]:
    """Yield a heading and a table for each label space of a model: a line for each corruption."""
    for name, space in model.results.spaces.items():
        collected = {corruption: _cells(space, corruption) for corruption in space.corruptions}
        present = {title for cells in collected.values() for title in cells}
        columns = [title for score in DECLARED if (title := _title(score)) in present]
        if not columns:
            continue
        rows = [
            [
                escape(corruption_title(key)) + _mark(key in model.results.marked),
                *(cells.get(column, "–") for column in columns),
            ]
            for key, cells in collected.items()
        ]
        yield f"### {escape(model.short)}, {heading(part, name)}"
        yield table(["corruption", *map(escape, columns)], rows)
        if note := note_on([model.results]):
            yield note


def _mark(is_marked: bool) -> str:
    return f" {MARK}" if is_marked else ""


def in_words(number: Estimate, score: Score) -> str:
    """Return a score with its 95 % interval, to three decimals or, in percent, to one."""
    value = f"{score.scale * number.value:.{score.decimals}f}" if number.is_known else "–"
    return f"{value} ({interval_text(number.interval95, score.decimals, score.scale)})"


def _title(score: Score) -> str:
    return f"{score.title} in %" if score.is_percent else score.title


def heading(part: Part, space: str) -> str:
    """Return which test this is, and what the answers were taken for."""
    pictures = part.standings.board.pictures(space)
    return f"{escape(suite_title(part.suite))}, {space_title(space)}, {pictures} pictures"


def _scored(part: Part, space: str) -> list[Scored]:
    return [(model, scores) for model in part.models if (scores := model.space(space)) is not None]


def _span(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _columns(report: Report, models: Sequence[Scored]) -> Iterator[tuple[str, str]]:
    """Yield the scores that all models have over the same corruptions, with their titles."""
    for score in LEADERBOARD:
        name = score.name
        if not all(name in overall(space) for _, space in models):
            continue
        over = {averaged(report.runs[model.run], space, name) for model, space in models}
        if len(over) > 1:
            continue
        wanted = len(report.runs[models[0][0].run].config.means_over)
        count = len(over.pop())
        some = 0 < count < wanted
        note = f" ({count} of {wanted} corruptions)" if some else ""
        yield name, escape(_title(score)) + note


def _cells(space: SpaceResults, corruption: str) -> dict[str, str]:
    """Return all scores under one corruption, by the titles of their columns."""
    collected = {
        score: find(space, score.path(corruption)) for score in DECLARED if not score.of_test
    }
    return {
        _title(score): in_words(number, score)
        for score, number in collected.items()
        if number is not None
    }
