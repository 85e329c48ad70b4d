"""The tables of a model card: all models side by side, and each model under every corruption."""

from collections.abc import Iterator, Sequence

from eyechart.core.phrases import plural
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.number_text import MISSING, estimate_texts, rank_text
from eyechart.reports.series.overall_scores import (
    averaged,
    is_mean_marked,
    mark_note,
    overall_scores,
)
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.terminal.markdown import escape, table
from eyechart.reports.words import corruption_title, space_title, suite_title
from eyechart.results.model_results import SpaceResults
from eyechart.scores.registry import DECLARED, LEADERBOARD, SCORES, Score, find
from eyechart.stats.estimate import Estimate

Scored = tuple[ModelEntry, SpaceResults]


def leaderboards(report: Report, part: Part) -> Iterator[str]:
    """Yield a heading, the sort order and a table for each label space of a test."""
    standings = part.standings
    where = space_title(standings.space)
    order = f"Sorted by {escape(SCORES[standings.by].title)} in {where}."
    if standings.board.baseline:
        order += f" Errors are divided by the errors of {escape(standings.board.baseline)}."
    for space in part.spaces:
        models = [
            (model, scores) for model in part.models if (scores := model.space(space)) is not None
        ]
        columns = dict(_columns(report, models))
        # A rank belongs to the label space it was computed in.
        ranks = standings.ranks if space == standings.space else None
        rows = [
            [
                *([] if standings.verdict else [str(index)]),
                escape(model.short),
                *([] if ranks is None else [rank_text(ranks.intervals[model.name])]),
                *(
                    bracketed(overall_scores(scores)[name], SCORES[name])
                    + _mark(is_mean_marked(report.runs[model.run], model.results, space, name))
                    for name in columns
                ),
            ]
            for index, (model, scores) in enumerate(models, start=1)
        ]
        yield f"### {heading(part, space)}"
        yield order
        head = [
            *([] if standings.verdict else ["#"]),
            "model",
            *([] if ranks is None else ["rank, 95 %"]),
            *columns.values(),
        ]
        yield table(head, rows, left=1 if standings.verdict else 2)
        if note := mark_note(model.results for model, _ in models):
            yield note


def by_corruption(part: Part, model: ModelEntry) -> Iterator[str]:
    """Yield a heading and a table for each label space of a model, with a row per corruption."""
    scores = [score for score in DECLARED if not score.of_test]
    for name, space in model.results.spaces.items():
        estimates: dict[str, dict[Score, Estimate]] = {
            corruption: {
                score: estimate
                for score in scores
                if (estimate := find(space, score.path(corruption))) is not None
            }
            for corruption in space.corruptions
        }
        columns = [score for score in scores if any(score in row for row in estimates.values())]
        if not columns:
            continue
        rows = [
            [
                escape(corruption_title(corruption)) + _mark(corruption in model.results.marked),
                *(bracketed(row[score], score) if score in row else MISSING for score in columns),
            ]
            for corruption, row in estimates.items()
        ]
        yield f"### {escape(model.short)}, {heading(part, name)}"
        yield table(["corruption", *(escape(_title(score)) for score in columns)], rows)
        if note := mark_note([model.results]):
            yield note


def _mark(is_marked: bool) -> str:
    return f" {MARK}" if is_marked else ""


def bracketed(estimate: Estimate, score: Score) -> str:
    """Return a score with its 95 % interval, both with all decimals (a card has room)."""
    return "{} ({})".format(*estimate_texts(estimate, score, is_short=False))


def _title(score: Score) -> str:
    return f"{score.title} in %" if score.is_percent else score.title


def heading(part: Part, space: str) -> str:
    """Return the test and the label space as a heading."""
    n_images = part.standings.board.n_images(space)
    images = f"{n_images} {plural(n_images, 'image')}"
    return f"{escape(suite_title(part.suite))}, {space_title(space)}, {images}"


def _columns(report: Report, models: Sequence[Scored]) -> Iterator[tuple[str, str]]:
    """Yield the scores that all models have over the same corruptions, with their titles."""
    for score in LEADERBOARD:
        name = score.name
        if not all(name in overall_scores(space) for _, space in models):
            continue
        over = {averaged(report.runs[model.run], space, name) for model, space in models}
        # Means over different corruptions are not comparable within one column.
        if len(over) == 1:
            wanted = len(report.runs[models[0][0].run].config.means_over)
            count = len(over.pop())
            note = f" ({count} of {wanted} corruptions)" if 0 < count < wanted else ""
            yield name, escape(_title(score)) + note
