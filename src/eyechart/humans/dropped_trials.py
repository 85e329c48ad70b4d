"""How much a human curve depends on trials that participants dropped.

Nobody knows what the response to a dropped trial would have been. Two curves bound what it can have
changed: one in which all dropped trials are incorrect, and one in which all are correct.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eyechart.humans.human_responses import HumanResponses, join_responses, make_responses
from eyechart.humans.reference import Reference
from eyechart.stats.curve import Curve

SIMULATED = "The participants of {} are simulated (robots): its responses are not human data."


@dataclass(frozen=True, eq=False)
class DroppedBounds:
    """Human curves if all `n_dropped` dropped trials were incorrect, and if all were correct."""

    n_dropped: int
    incorrect: Curve
    correct: Curve


def dropped_bounds(reference: Reference, corruption: str, **fit: Any) -> DroppedBounds | None:
    """Return the curves of accuracy that bound the effect of dropped trials.

    Dropped trials with clean images count as well, because the curve starts at their accuracy.

    Args:
        reference: The human reference.
        corruption: Name of a corruption.
        **fit: Arguments of `Reference.curve`.

    Returns:
        None if no trial was dropped, or if there is no curve for this corruption.
    """
    experiment = reference.match(corruption)
    n_dropped = sum(trial.corruption == experiment for trial in reference.responses.dropped)
    if experiment is None or not reference.responses.dropped:
        return None
    curves = []
    for is_correct in (False, True):
        responses = with_dropped(reference.responses, is_correct)
        # The cache contains curves of the responses as they are.
        bound = replace(reference, responses=responses, _fitted={})
        curves.append(bound.curve(corruption, **fit))
    incorrect, correct = curves
    if incorrect is None or correct is None:
        return None
    return DroppedBounds(n_dropped, incorrect, correct)


def with_dropped(responses: HumanResponses, is_correct: bool) -> HumanResponses:
    """Return the responses as if all dropped trials had been correct, or incorrect.

    A response to a dropped stimulus that was shown again is replaced, because the participant may
    have had two looks at it.
    """
    dropped = responses.dropped
    keys = {(trial.subject, trial.image) for trial in dropped}
    shown = zip(responses.subject.tolist(), responses.image.tolist(), strict=True)
    kept = responses.only(np.array([key not in keys for key in shown], dtype=bool))
    added = make_responses(
        len(dropped),
        source=responses.source,
        choices=responses.choices,
        label_space=responses.label_space,
        corruption=[trial.corruption for trial in dropped],
        subject=[trial.subject for trial in dropped],
        image=[trial.image for trial in dropped],
        delta_v=[trial.delta_v for trial in dropped],
        correct=np.full(len(dropped), float(is_correct)),
    )
    return replace(join_responses([kept, added]), dropped=())


def simulated_note(reference: Reference) -> str:
    """Return the note that belongs to everything computed from robots; "" for human responses."""
    return SIMULATED.format(reference.name) if reference.responses.simulated else ""
