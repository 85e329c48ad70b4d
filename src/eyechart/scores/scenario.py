"""Classify two curves by the VCR paper's scenarios: who is significantly ahead, and where."""

from dataclasses import dataclass

import numpy as np

from eyechart.curves.curve import Curve
from eyechart.scores.curve_significance import TOUCHING, Lead, leads_at, resampled_gaps
from eyechart.scores.human_relative import NAMES, Areas, compared_areas
from eyechart.stats.intervals import CONFIDENCE, check_level

VERDICTS = {
    (True, False): "humans ahead",
    (False, True): "model ahead",
    (True, True): "mixed",
    (False, False): "not significant",
}
"""Verdict by whether there are ranges with humans ahead, and ranges with the model ahead."""

MIN_ERROR = 0.1
"""Lower limit of the standard error along the curves, as a share of its maximum."""


@dataclass(frozen=True)
class Scenario:
    """Verdict, the ranges it is based on, and the areas of the two curves.

    Attributes:
        name: "humans ahead", "model ahead", "mixed" or "not significant".
        leads: Ranges of Δv with a significant difference.
        areas: The four areas.
        p_human: P-value of humans being ahead anywhere.
        p_model: P-value of the model being ahead anywhere. Both p-values come from one two-sided
            test, so that together they have its error rate.
    """

    name: str
    leads: tuple[Lead, ...]
    areas: Areas
    p_human: float
    p_model: float


def scenario(
    human_curve: Curve, model_curve: Curve, level: float = CONFIDENCE, paired: bool = False
) -> Scenario:
    """Return who is significantly ahead, by a bootstrap test along both curves at once.

    The difference of the curves gets a simultaneous band that contains the true difference over the
    whole observed range with probability `level`: everywhere the same number of standard errors
    wide, taken from the largest deviation of each bootstrap replicate. Humans are ahead where the
    band is above 0, the model where it is below.

    The verdict is "humans ahead" (the paper's HMRI < 1, MRSI = 0), "model ahead" (HMRI = 1, MRSI >
    0) or "mixed" by which of these ranges exist, and "not significant" if none does. Equal curves
    therefore get another verdict with probability 1 − level.
    """
    check_level(level)
    areas = compared_areas(human_curve, model_curve)
    gap, chance, places = resampled_gaps(human_curve, model_curve, paired)
    error = chance.std(axis=1)
    # A constant anchor has no sampling error; next to it standard errors are too small to divide
    # by.
    error = np.maximum(error, max(MIN_ERROR * float(error.max()), TOUCHING))
    # Studentized maximum: one critical value for the whole curve (simultaneous band).
    largest = np.abs(chance / error[:, None]).max(axis=0)
    margin = error * np.quantile(largest, level)
    human, model = gap > margin, -gap > margin
    p_human, p_model = (
        # The 1 counts the observed data as one replicate, so that p is never 0.
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
