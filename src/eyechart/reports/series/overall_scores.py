"""Scores over a whole test, what they are means over, and marks of means over training data."""

from collections.abc import Iterable

from eyechart.pipeline.caveats import MARK, MEANING
from eyechart.results.model_results import ModelResults, SpaceResults
from eyechart.results.runs import Run
from eyechart.scores.registry import BASELINE, SCORES, find
from eyechart.stats.estimate import Estimate


def overall_scores(space: SpaceResults) -> dict[str, Estimate]:
    """Return the scores over a whole test that exist, by name, in the order of a card."""
    return {name: estimate for name, estimate in space.scores.items() if estimate.is_known}


def averaged(run: Run, space: SpaceResults, name: str) -> tuple[str, ...]:
    """Return the corruptions that an overall score is the mean over; none of clean accuracy."""
    counted, score = run.config.means_over, SCORES[name]
    if score.of_test:
        return counted if BASELINE in score.needs else ()
    return tuple(name for name in counted if find(space, score.path(name)) is not None)


def is_mean_marked(run: Run, model: ModelResults, space: str, score: str) -> bool:
    """Whether an overall score is the mean over a corruption that the model was trained on."""
    if not model.marked or space not in model.spaces:
        return False
    return not set(model.marked).isdisjoint(averaged(run, model.spaces[space], score))


def mark_note(models: Iterable[ModelResults]) -> str:
    """Return what the mark means if one of the models has any, else ""."""
    return f"{MARK} {MEANING}." if any(model.marked for model in models) else ""
