"""Overall scores of a test, the corruptions averaged, and marks for models trained on them."""

from collections.abc import Iterable

from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.results.model_results import ModelResults, SpaceResults
from eyechart.results.runs import Run
from eyechart.scores.registry import BASELINE, SCORES, find
from eyechart.stats.estimate import Estimate


def overall_scores(space: SpaceResults) -> dict[str, Estimate]:
    """Return the overall scores that exist, by name, in the order of a model card."""
    return {name: estimate for name, estimate in space.scores.items() if estimate.is_known}


def averaged(run: Run, space: SpaceResults, name: str) -> tuple[str, ...]:
    """Return the corruptions that an overall score averages; none for clean accuracy."""
    counted, score = run.config.means_over, SCORES[name]
    if score.of_test:
        # mCE is one score of the whole test, but still a mean over the counted corruptions.
        return counted if BASELINE in score.needs else ()
    return tuple(name for name in counted if find(space, score.path(name)) is not None)


def is_mean_marked(run: Run, model: ModelResults, space: str, score: str) -> bool:
    """Return whether an overall score averages a corruption that the model was trained on."""
    if not model.marked or space not in model.spaces:
        return False
    return not set(model.marked).isdisjoint(averaged(run, model.spaces[space], score))


def mark_note(models: Iterable[ModelResults]) -> str:
    """Return the footnote that explains the mark; "" if no model is marked."""
    return f"{MARK} {MEANING}." if any(model.marked for model in models) else ""
