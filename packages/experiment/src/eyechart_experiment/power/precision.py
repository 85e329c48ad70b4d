"""The confidence intervals to expect from a planned categorization study."""

from dataclasses import dataclass, replace

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.humans.reference import Reference
from eyechart.scores.human_relative import compared_replicates
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.intervals import CONFIDENCE, percentile_interval
from eyechart_experiment.power.simulated_study import (
    AGREEMENT,
    StimulusTable,
    simulate_responses,
    success_rates,
)
from eyechart_experiment.simulate.psychometric import Psychometric

STUDIES, N_BOOTSTRAP = 4, 200
"""Number of simulated studies over which the half-width is averaged, and replicates in each."""

MIN_IMAGES = 20
"""Minimum number of images; a bootstrap over fewer claims a precision that it cannot know."""

BEHIND = 0.15
"""The model to which humans are compared loses its accuracy at a Δv that is lower by this."""


@dataclass(frozen=True)
class ExpectedPrecision:
    """Half-widths of 95 % intervals to expect for one corruption.

    Attributes:
        area: Area under the assumed human curve, R_a^h.
        area_half_width: Half the width of its interval.
        hmri: HMRI of the assumed model, which is `BEHIND` humans.
        hmri_half_width: Half the width of its interval.
    """

    corruption: str
    n_responses: int
    area: float
    area_half_width: float
    hmri: float
    hmri_half_width: float


def expected_precision(
    table: StimulusTable,
    curve: Psychometric | None = None,
    seed: int = 0,
    agreement: float = AGREEMENT,
) -> ExpectedPrecision | None:
    """Return the precision to expect for one corruption; None if there is too little data.

    Simulated responses to the planned stimuli are analyzed as those of a real study are: a curve
    with a bootstrap over images, by the estimator that `eyechart evaluate` uses. The model sees
    each stimulus once.

    Args:
        table: The planned stimuli.
        curve: The assumed psychometric curve of humans.
        seed: Random seed.
        agreement: Correlation of two participants' correctness on the same stimulus.
    """
    if len(table.image) < MIN_IMAGES:
        return None
    human = Psychometric() if curve is None else curve
    model = replace(human, middle=human.middle - BEHIND)
    areas, hmris = [], []
    for number in range(STUDIES):
        # One stream per study: adding studies does not change the earlier ones.
        random = np.random.default_rng((seed, number, 26))
        try:
            human_curve = human_curve_of(table, human, random, agreement)
            model_curve = _model_curve(table, model, random)
            hmri, _ = compared_replicates(human_curve, model_curve)
        except UsageError:
            return None
        areas.append((human_curve.area, _half_width(human_curve.areas)))
        # A replicate in which HMRI is not defined is NaN.
        hmris.append((float(np.nanmean(hmri)), _half_width(hmri)))
    (area, area_half_width), (hmri_mean, hmri_half_width) = (
        np.mean(pairs, axis=0).tolist() for pairs in (areas, hmris)
    )
    return ExpectedPrecision(
        table.corruption, table.n_responses, area, area_half_width, hmri_mean, hmri_half_width
    )


def human_curve_of(
    table: StimulusTable,
    curve: Psychometric,
    random: np.random.Generator,
    agreement: float,
    n_bootstrap: int = N_BOOTSTRAP,
) -> Curve:
    """Return the human curve of one simulated study, with bootstrap replicates over images."""
    responses = simulate_responses(table, curve, random, agreement)
    fitted = Reference("simulated", responses).curve(table.corruption, n_bootstrap=n_bootstrap)
    if fitted is None:
        raise UsageError(f"{table.corruption} has no stimuli.")
    return fitted


def _model_curve(table: StimulusTable, curve: Psychometric, random: np.random.Generator) -> Curve:
    """Return the curve of a model that predicts each stimulus once."""
    # A model gives one prediction per image, so that images that differ in difficulty need no term.
    rates = success_rates(table.delta_v, curve, 0.0, random)
    clean = success_rates(np.zeros(len(rates)), curve, 0.0, random)
    hits, clean_hits = (random.random(len(rates)) < chances for chances in (rates, clean))
    return fit_curve(
        table.delta_v,
        hits.astype(np.float64),
        anchor=clean_hits.astype(np.float64),
        clusters=np.array(table.image),
        n_bootstrap=N_BOOTSTRAP,
    )


def _half_width(replicates: FloatArray) -> float:
    low, high = percentile_interval(replicates, CONFIDENCE)
    return float(high - low) / 2
