"""What the terminal shows of an evaluation: a table for each model and label space."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eyechart.pipeline.trained_on import MARK
from eyechart.reports.interval_text import interval_text
from eyechart.reports.terminal.columns import stacked
from eyechart.scores.evaluation import CorruptionScore, Evaluation, SpaceScore
from eyechart.scores.registry import BASELINE, DECLARED, Score, values_of
from eyechart.stats.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table


def tables(evaluation: Evaluation, width: int) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each model and label space."""
    for model in evaluation.models:
        for space in model.spaces:
            clean = space.clean_accuracy
            title = f"{model.name}, {_space_title(space)}"
            title += "" if clean is None else f", clean accuracy {clean.value:.3f}"
            if space.normalised is not None:
                title += f", CE in percent of {space.normalised.baseline}'s errors"
            yield title, list(_tables(space, model.marked, width))


def _tables(space: SpaceScore, marked: Collection[str], width: int) -> Iterator["Table"]:
    from rich.markup import escape

    scores = _columns(space)
    has_verdict = any(
        own.people for score in space.corruptions for own in score.properties.values()
    )
    rows = [
        [
            escape(score.corruption) + (f" {MARK}" if score.corruption in marked else ""),
            *_cells(space, score, scores),
            *([_verdict(space, score)] if has_verdict else []),
        ]
        for score in space.corruptions
    ]
    has_mean = len(space.corruptions) > 1 and bool(space.means)
    if has_mean:
        over = space.counted or tuple(score.corruption for score in space.corruptions)
        mean = f"mean {MARK}" if set(over) & set(marked) else "mean"
        verdict = [""] if has_verdict else []
        rows.append([mean, *(_mean_cell(space, score) for score in scores), *verdict])
    head = ["corruption", *(score.title for score in scores), *(["verdict"] * has_verdict)]
    left = [0, len(scores) + 1] if has_verdict else [0]
    return stacked(head, rows, width=width, left=left, last_apart=has_mean)


def _space_title(space: SpaceScore) -> str:
    where = "16 categories" if space.space == "entry16" else "own classes"
    return f"{where} ({space.pictures} pictures)"


def _columns(space: SpaceScore) -> list[Score]:
    """Return the main scores that any corruption has, in the order of their columns."""
    there = {name for score in space.corruptions for name in values_of(score)}
    if space.normalised is not None:
        there |= {"ce"} | ({"relative_ce"} if space.normalised.relative_ce else set())
    # an error rate where there are levels, or where it is all there is
    is_bare = any(
        score.error_by_severity or score.consistency is None or score.consistency.curve is None
        for score in space.corruptions
    )
    if not is_bare:
        there.discard("error")
    return [score for score in DECLARED if score.is_main and score.name in there]


def _mean_cell(space: SpaceScore, score: Score) -> str:
    """Return the mean over corruptions: of CE, the mCE."""
    errors = {} if space.normalised is None else space.normalised.means
    mean = errors.get(score.mean) if score.mean else space.means.get(score.name)
    return "" if mean is None else _number(mean, score)


def _cells(space: SpaceScore, score: CorruptionScore, columns: list[Score]) -> Iterator[str]:
    values = values_of(score)
    for column in columns:
        if BASELINE in column.needs and space.normalised is not None:
            estimate = space.normalised.tables[column.name].get(score.corruption)
        else:
            estimate = values.get(column.name)
        yield "–" if estimate is None else _number(estimate, column)


def _verdict(space: SpaceScore, score: CorruptionScore) -> str:
    found = [own.people.scenario for own in score.properties.values() if own.people is not None]
    if not found:
        return "no human reference"
    return "too few photographs" if space.verdict else " / ".join(found)


def _number(estimate: Estimate, score: Score) -> str:
    ends = interval_text(estimate.interval, score.decimals - 1, score.scale)
    return f"{score.scale * estimate.value:.{score.decimals}f} [dim]{ends}[/dim]"
