"""Results of an evaluation on the terminal: a table for each model and label space."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from eyechart.core.phrases import plural
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.number_text import MISSING, estimate_text, estimate_texts
from eyechart.reports.terminal.columns import stacked
from eyechart.reports.titles import NO_REFERENCE, human_source, short_space
from eyechart.results.model_results import CorruptionResults, SpaceResults
from eyechart.results.schema import Results
from eyechart.scores.registry import DECLARED, SCORES, Score, find
from eyechart.stats.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table


def tables(results: Results, width: int) -> Iterator[tuple[str, list["Table"]]]:
    """Yield a title and tables no wider than `width` for each model and label space."""
    for model in results.models:
        for name, space in model.spaces.items():
            clean = space.clean_accuracy
            images = f"{space.n_images} {plural(space.n_images, 'image')}"
            title = f"{model.name}, {short_space(name)} ({images})"
            if clean is not None:
                title += f", clean accuracy {estimate_text(clean, SCORES['clean_accuracy'])}"
            if space.corruption_error is not None:
                title += f", CE as a percentage of {space.corruption_error.baseline}'s errors"
                means = [SCORES[mean].title for mean in space.corruption_error.means]
                if means and _has_mean(space):
                    title += f" (mean: {' and '.join(means)})"
            mean = f"mean {MARK}" if set(results.config.means_over) & set(model.marked) else "mean"
            yield title, list(space_tables(space, width, model.marked, mean))


def source_lines(results: Results) -> Iterator[str]:
    """Yield a line for each human reference used, with the corruptions it applies to."""
    spaces = results.models[0].spaces.values()
    scores = [item for space in spaces for item in space.corruptions.items()]
    order, more = results.config.human_names, ""
    if len(order) > 1:
        more = f" (precedence: {', '.join(order)}; direct before transferred responses)"
    yield from human_lines(scores, more)


def human_lines(scores: Collection[tuple[str, CorruptionResults]], more: str = "") -> Iterator[str]:
    """Yield a line for each human reference that the scores of these corruptions refer to."""
    by_source: dict[str, list[str]] = {}
    for corruption, score in scores:
        humans = [(letter, scored.humans) for letter, scored in score.properties.items()]
        if any(comparison is not None for _, comparison in humans):
            by_source.setdefault(human_source(humans), []).append(corruption)
    if not by_source:
        return
    yield f"Human reference of each corruption{more}:"
    known = {name for names in by_source.values() for name in names}
    without = [name for name in dict(scores) if name not in known]
    for source, names in (*by_source.items(), (NO_REFERENCE, without)):
        if names:
            yield f"  {', '.join(names)}: {source}"


def space_tables(
    space: SpaceResults, width: int, marked: Collection[str] = (), mean: str = "mean"
) -> Iterator["Table"]:
    """Yield the tables of a model's scores by corruption; `marked` corruptions get a mark."""
    from rich.markup import escape

    scores = _columns(space)
    has_verdict = any(
        property_score.humans
        for score in space.corruptions.values()
        for property_score in score.properties.values()
    )
    rows = [
        [
            escape(corruption) + (f" {MARK}" if corruption in marked else ""),
            *(_cell(find(space, score.path(corruption)), score, MISSING) for score in scores),
            *([_verdict(space, results)] if has_verdict else []),
        ]
        for corruption, results in space.corruptions.items()
    ]
    has_mean = _has_mean(space)
    if has_mean:
        # The mean of CE is the mCE.
        paths = [(SCORES[score.mean] if score.mean else score).overall_path for score in scores]
        means = (_cell(find(space, path), score) for path, score in zip(paths, scores, strict=True))
        rows.append([mean, *means, *([""] if has_verdict else [])])
    head = ["corruption", *(score.title for score in scores), *(["verdict"] * has_verdict)]
    left = [0, len(scores) + 1] if has_verdict else [0]
    return stacked(head, rows, width=width, left=left, last_apart=has_mean)


def _has_mean(space: SpaceResults) -> bool:
    return len(space.corruptions) > 1 and bool(space.means)


def _columns(space: SpaceResults) -> list[Score]:
    """Return the main scores that at least one corruption has, in the order of their columns."""
    records = space.corruptions.values()
    present = {name for record in records for name in record.scores}
    if space.corruption_error is not None:
        present |= {"ce"} | ({"relative_ce"} if space.corruption_error.relative_ce else set())
    # The error rate is shown if there are severity levels, or if there is nothing else.
    is_bare = any(
        record.error_by_severity or record.consistency is None or record.consistency.curve is None
        for record in records
    )
    if not is_bare:
        present.discard("error")
    return [score for score in DECLARED if score.is_main and score.name in present]


def _verdict(space: SpaceResults, score: CorruptionResults) -> str:
    scenarios = [
        property_score.humans.scenario
        for property_score in score.properties.values()
        if property_score.humans is not None
    ]
    if not scenarios:
        return NO_REFERENCE
    return "insufficient data" if space.verdict else " / ".join(scenarios)


def _cell(estimate: Estimate | None, score: Score, missing: str = "") -> str:
    return missing if estimate is None else score_with_interval(estimate, score)


def score_with_interval(estimate: Estimate, score: Score) -> str:
    """Return a score and its 95 % interval, which is dimmed."""
    return "{} [dim]{}[/dim]".format(*estimate_texts(estimate, score))
