"""What the terminal shows of an evaluation: a table for each model and label space."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eyechart.pipeline.caveats import MARK
from eyechart.reports.interval_text import interval_text
from eyechart.reports.terminal.columns import stacked
from eyechart.results.schema import CorruptionResults, Results, SpaceResults
from eyechart.scores.registry import BASELINE, DECLARED, Score
from eyechart.stats.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table


def tables(results: Results, width: int) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each model and label space."""
    for model in results.models:
        for name, space in model.spaces.items():
            clean = space.clean_accuracy
            title = f"{model.name}, {_space_title(name, space)}"
            title += "" if clean is None else f", clean accuracy {clean.value:.3f}"
            if space.corruption_error is not None:
                title += f", CE in percent of {space.corruption_error.baseline}'s errors"
            mean = f"mean {MARK}" if set(results.config.means_over) & set(model.marked) else "mean"
            yield title, list(_tables(space, model.marked, mean, width))


def _tables(
    space: SpaceResults, marked: Collection[str], mean: str, width: int
) -> Iterator["Table"]:
    from rich.markup import escape

    scores = _columns(space)
    has_verdict = any(
        property_score.people
        for score in space.corruptions.values()
        for property_score in score.properties.values()
    )
    rows = [
        [
            escape(corruption) + (f" {MARK}" if corruption in marked else ""),
            *_cells(space, corruption, scores),
            *([_verdict(space, space[corruption])] if has_verdict else []),
        ]
        for corruption in space.corruptions
    ]
    has_mean = len(space.corruptions) > 1 and bool(space.means)
    if has_mean:
        verdict = [""] if has_verdict else []
        rows.append([mean, *(_mean_cell(space, score) for score in scores), *verdict])
    head = ["corruption", *(score.title for score in scores), *(["verdict"] * has_verdict)]
    left = [0, len(scores) + 1] if has_verdict else [0]
    return stacked(head, rows, width=width, left=left, last_apart=has_mean)


def _space_title(name: str, space: SpaceResults) -> str:
    where = "16 categories" if name == "entry16" else "own classes"
    return f"{where} ({space.pictures} pictures)"


def _columns(space: SpaceResults) -> list[Score]:
    """Return the main scores that any corruption has, in the order of their columns."""
    records = space.corruptions.values()
    present = {name for record in records for name in record.scores}
    if space.corruption_error is not None:
        present |= {"ce"} | ({"relative_ce"} if space.corruption_error.relative_ce else set())
    # an error rate where there are levels, or where it is all there is
    is_bare = any(
        record.error_by_severity or record.consistency is None or record.consistency.curve is None
        for record in records
    )
    if not is_bare:
        present.discard("error")
    return [score for score in DECLARED if score.is_main and score.name in present]


def _mean_cell(space: SpaceResults, score: Score) -> str:
    """Return the mean over corruptions: of CE, the mCE."""
    errors = {} if space.corruption_error is None else space.corruption_error.means
    mean = errors.get(score.mean) if score.mean else space.means.get(score.name)
    return "" if mean is None else _number(mean, score)


def _cells(space: SpaceResults, corruption: str, columns: list[Score]) -> Iterator[str]:
    values = space[corruption].scores
    for column in columns:
        if BASELINE in column.needs and space.corruption_error is not None:
            estimate = space.corruption_error.tables[column.name].get(corruption)
        else:
            estimate = values.get(column.name)
        yield "–" if estimate is None else _number(estimate, column)


def _verdict(space: SpaceResults, score: CorruptionResults) -> str:
    collected = [
        property_score.people.scenario
        for property_score in score.properties.values()
        if property_score.people is not None
    ]
    if not collected:
        return "no human reference"
    return "too few photographs" if space.verdict else " / ".join(collected)


def _number(estimate: Estimate, score: Score) -> str:
    ends = interval_text(estimate.interval95, score.decimals - 1, score.scale)
    return f"{score.scale * estimate.value:.{score.decimals}f} [dim]{ends}[/dim]"
