"""What qualifies a human curve: dropped trials, proportions of categories, simulated participants.

Nobody knows what the response to a dropped trial would have been. Two curves bound what it can have
changed: one in which all dropped trials are incorrect, and one in which all are correct. If a
reference and a test show categories in different proportions, a comparison of humans with models is
also one of categories, because humans recognize some of them better than others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.humans.human_fit import CategoryMix, category_mix
from eyechart.humans.human_responses import HumanResponses, join_responses, make_responses
from eyechart.humans.reference import Reference, title
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
        # The cache contains curves of the responses as they are.
        bound = replace(
            reference, responses=with_dropped(reference.responses, is_correct), _fitted={}
        )
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


MAX_DIFFERENCE = 0.1
"""Share of responses that may be to other categories than in a test before this is reported."""

SCORES = {"accuracy": "R_a", "consistency": "R_p"}


def mix_note(
    reference: Reference,
    experiment: str,
    metrics: Iterable[str],
    mix: CategoryMix,
    test: str,
    **fit: Any,
) -> str:
    """Return a sentence with the human areas in the proportions of a test; "" if they are alike.

    Args:
        reference: The human reference.
        experiment: The experiment.
        metrics: The properties that have a human curve.
        mix: The shares of categories in the test. Categories that humans did not see are left out.
        test: Name of the test in the sentence.
        **fit: Arguments of `Reference.curve`.
    """
    rows = reference.responses.only(reference.responses.corruption == experiment)
    own = category_mix(rows.label, rows.trials)
    differences = {name: mix.get(name, 0.0) - own.get(name, 0.0) for name in sorted({*own, *mix})}
    common = {name: share for name, share in mix.items() if name in own}
    if not common or sum(map(abs, differences.values())) / 2 <= MAX_DIFFERENCE:
        return ""
    total = sum(common.values())
    weighted = {name: share / total for name, share in common.items()}
    # Only the area is needed, no interval.
    in_mix = {"category_mix": weighted, "n_bootstrap": 1}
    areas = []
    for metric in metrics:
        try:
            curves = [
                reference.curve(experiment, metric, **fit),
                reference.curve(experiment, metric, **{**fit, **in_mix}),
            ]
        except UsageError:
            continue  # too few responses remain in the categories of the test
        one, two = (None if curve is None else curve.area for curve in curves)
        if one is not None and two is not None:
            areas.append(
                f"{SCORES[metric]} of humans is {one:.3f}, and {two:.3f} in those of {test}"
            )
    if not areas:
        return ""
    name = max(differences, key=lambda name: abs(differences[name]))
    return (
        f"{title(experiment)} ({reference.name}) shows categories in other proportions than {test},"
        f" such as {name} in {own.get(name, 0):.0%} instead of {mix.get(name, 0):.0%}. In its own"
        f" proportions {'; '.join(areas)}."
    ).replace("%", " %")
