"""Which of the study's scenarios two curves are: who is ahead, as far as chance lets one say."""

from dataclasses import dataclass

import numpy as np

from eyechart.curves.curve import Curve
from eyechart.scores.curve_significance import TOUCHING, Lead, leads_at, resampled_gaps
from eyechart.scores.human_relative import NAMES, Areas, compared_areas
from eyechart.stats.intervals import CONFIDENCE, check_level

VERDICTS = {
    (True, False): "people ahead",
    (False, True): "model ahead",
    (True, True): "mixed",
    (False, False): "not significant",
}
"""By whether there are ranges in which people are ahead, and in which the model is."""

LEAST_ERROR = 0.1
"""The least standard error along the curves, as a share of the greatest."""


@dataclass(frozen=True)
class Scenario:
    """The verdict, the ranges that it rests on, and the areas between the two curves.

    `name`: "people ahead", "model ahead", "mixed" or "not significant". `p_human` and `p_model`:
    the p-values of either being ahead anywhere, by the same test; both together err as one test.
    """

    name: str
    leads: tuple[Lead, ...]
    areas: Areas
    p_human: float
    p_model: float


def scenario(
    human_curve: Curve, model_curve: Curve, level: float = CONFIDENCE, paired: bool = False
) -> Scenario:
    """Return who is ahead of whom, by a bootstrap test along both curves at once.

    The difference of the curves gets a band that holds the true one, all along what both observed,
    with probability `level`: as wide everywhere, in standard errors, as the largest deviation of
    resampled differences demands. Where the band is above 0 people are ahead, where it is below the
    model is. "people ahead" (the study's HMRI < 1, MRSI = 0), "model ahead" (HMRI = 1, MRSI > 0)
    and "mixed" say in which of these cases there are such ranges; where there are none the
    difference is "not significant". So equal curves get another verdict with probability 1 − level,
    however small or large the areas between them are.
    """
    check_level(level)
    areas = compared_areas(human_curve, model_curve)
    gap, chance, places = resampled_gaps(human_curve, model_curve, paired)
    error = chance.std(axis=1)
    # an anchor given as a number has no error; next to it errors are too small to divide by
    error = np.maximum(error, max(LEAST_ERROR * float(error.max()), TOUCHING))
    largest = np.abs(chance / error[:, None]).max(axis=0)
    margin = error * np.quantile(largest, level)
    human, model = gap > margin, -gap > margin
    p_human, p_model = (
        float((1 + (largest >= (sign * gap / error).max()).sum()) / (1 + len(largest)))
        for sign in (1, -1)
    )
    return Scenario(
        VERDICTS[bool(human.any()), bool(model.any())],
        tuple(leads_at(places, human, model, NAMES)),
        areas,
        p_human,
        p_model,
    )
