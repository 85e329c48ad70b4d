"""`--fail-under`: find the models that do not reach a required score.

The caller decides what follows: an exit status, or an exception.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eyechart.core.errors import UsageError
from eyechart.pipeline.floors import Floor
from eyechart.results.schema import Results
from eyechart.scores.registry import SCORES


@dataclass(frozen=True)
class FloorOutcome:
    """Whether a model reaches a required score, and a sentence that says so."""

    is_reached: bool
    sentence: str


def floor_outcomes(results: Results, floors: Sequence[Floor]) -> list[FloorOutcome]:
    """Return the outcome for each required score and model.

    The confidence bound must reach the limit: the lower end of the 95 % interval, or the upper end
    for errors, and the data must suffice for a claim. With ":point", the score itself must reach
    the limit.

    Raises:
        UsageError: If a model lacks a required score.
    """
    return [outcome for floor in floors for outcome in _outcomes(results, floor)]


def _outcomes(results: Results, floor: Floor) -> Iterator[FloorOutcome]:
    score = SCORES[floor.name]
    for model in results.models:
        known = {
            label: space.scores[floor.name]
            for label, space in model.spaces.items()
            if floor.name in space.scores
        }
        if not known:
            raise UsageError(
                f"--fail-under {floor.name}: {model.name} has no {floor.name}; see the notes"
                " above. Results were written."
            )
        # The primary label space comes first.
        space, estimate = next(iter(known.items()))
        low, high = estimate.interval95
        bound = low if score.higher_is_better else high
        value = estimate.value if floor.is_point else bound
        # An undetermined bound (NaN) reaches nothing.
        is_reached = value >= floor.value if score.higher_is_better else value <= floor.value
        about = f"{model.name}: {floor.name} {estimate.value:.3f} ({space})"
        if not floor.is_point:
            about += f" with {'lower' if score.higher_is_better else 'upper'} bound {bound:.3f}"
        if score.higher_is_better:
            side = "reaches" if is_reached else "does not reach"
        else:
            side = "is within" if is_reached else "is over"
        sentence = f"{about} {side} {floor.value:g}"
        few = model.spaces[space].verdict
        if is_reached and few:
            # A bound claims something about other images; the score itself does not.
            is_reached, sentence = floor.is_point, f"{sentence}, but with {few}"
        yield FloorOutcome(is_reached, f"{sentence}.")
