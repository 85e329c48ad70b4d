"""`--fail-under`: find the models that do not reach a required score.

The caller decides what follows: an exit status, or an exception.
"""

from collections.abc import Sequence

from eyechart.core.errors import UsageError
from eyechart.results.schema import Results
from eyechart.scores.registry import SCORES


def failures(results: Results, floors: Sequence[tuple[str, float]]) -> list[str]:
    """Return one sentence for each model and score that is worse than its floor.

    Raises:
        UsageError: If a model lacks such a score.
    """
    return [text for name, floor in floors for text in _below(results, name, floor)]


def _below(results: Results, name: str, floor: float) -> list[str]:
    sentences = []
    for model in results.models:
        known = {
            label: float(space.scores[name])
            for label, space in model.spaces.items()
            if name in space.scores
        }
        if not known:
            raise UsageError(
                f"--fail-under {name}: {model.name} has no {name}, see the notes above; results"
                " were written."
            )
        # The primary label space comes first.
        space, mean = next(iter(known.items()))
        is_high = not SCORES[name].higher_is_better
        if (mean > floor) if is_high else (mean < floor):
            side = "over" if is_high else "under"
            sentences.append(f"{model.name}: {name} {mean:.3f} ({space}) is {side} {floor:g}.")
    return sentences
