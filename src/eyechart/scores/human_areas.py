"""Humans' own robustness: R_a and R_p of every experiment of a reference."""

from collections.abc import Iterator
from dataclasses import dataclass

from eyechart.curves.curve import Curve
from eyechart.humans.reference import METRICS, Reference
from eyechart.scores.scoring import NO_HUMAN_CURVE, Fit, human_curve


@dataclass(frozen=True, eq=False)
class HumanArea:
    """The curve of one property in one experiment, None with the reason in `why` if it has none.

    Its area is R_a for accuracy and R_p for consistency.
    """

    experiment: str
    metric: str
    curve: Curve | None
    why: str = ""


def human_areas(reference: Reference, fit: Fit) -> Iterator[HumanArea]:
    """Yield accuracy and consistency of every experiment, fitted as a model's curves are.

    Consistency is left out where a reference knows nothing of it.
    """
    for experiment in reference.experiments:
        for metric in METRICS:
            curve, why = human_curve(reference, experiment, metric, fit)
            if curve is not None or metric == "accuracy" or why.startswith(NO_HUMAN_CURVE):
                yield HumanArea(experiment, metric, curve, why)
