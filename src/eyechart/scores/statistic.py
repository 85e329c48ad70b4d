"""Scores that are functions of sums over samples, and their bootstrap estimates.

A formula defines the summands; `stats` decides which images a replicate contains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.arrays import FloatArray, places_in
from eyechart.predictions.reading import Predictions
from eyechart.stats.bootstrap import resample_sums
from eyechart.stats.estimate import Estimate, make_estimate


@dataclass(frozen=True, eq=False)
class Statistic:
    """A score of one corruption, before it is resampled.

    Attributes:
        columns: What each sample adds to the sums, (n_samples, n_columns).
        combine: Function from sums (…, n_columns) to the score (…,), NaN where no sample is left.
        is_biased: Whether resampling raises the score, as it raises any mean of absolute
            differences. The replicates are then shifted so that their mean is the score: the bias
            of the score itself remains, and is not counted twice.
    """

    columns: FloatArray
    combine: Callable[[FloatArray], FloatArray]
    is_biased: bool = False


def estimate_statistics(
    statistics: Sequence[Statistic], predictions: Predictions, n_bootstrap: int, seed: int
) -> list[Estimate]:
    """Return scores of the same samples with their intervals, resampled together.

    Args:
        statistics: The scores, with one row of columns per prediction.
        predictions: Predictions whose images are resampled from their universe, with weights.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap; replicates with equal images and seed match.
    """
    image = predictions.image
    universe = np.unique(image) if predictions.universe is None else predictions.universe
    unit = places_in(universe, image)
    weights = np.ones(len(unit)) if predictions.weights is None else predictions.weights
    columns = np.concatenate([statistic.columns for statistic in statistics], axis=1)
    # All scores share one pass over the images, and thereby the same bootstrap weights.
    sums = np.stack([np.bincount(unit, weights * column, len(universe)) for column in columns.T])
    replicate_sums = resample_sums(sums.T, n_bootstrap, seed)
    ends = np.cumsum([statistic.columns.shape[1] for statistic in statistics])[:-1]
    totals = np.split(sums.sum(axis=1), ends)
    replicates = np.split(replicate_sums, ends, axis=1)
    n_images = int(np.count_nonzero(np.bincount(unit)))
    return [
        _estimate(statistic, total, part, n_images)
        for statistic, total, part in zip(statistics, totals, replicates, strict=True)
    ]


def _estimate(
    statistic: Statistic, total: FloatArray, replicate_sums: FloatArray, n_images: int
) -> Estimate:
    value = float(statistic.combine(total))
    replicates = statistic.combine(replicate_sums)
    # A replicate that contains none of these images does not count for the score.
    replicates = np.where(np.isnan(replicates), value, replicates)
    if statistic.is_biased:
        # Shares stay in [0, 1] after the shift.
        replicates = np.clip(replicates - (replicates.mean() - value), 0, 1)
    return make_estimate(value, replicates, n_images)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the quotient, NaN where the denominator is 0."""
    quotient = np.full(np.shape(denominator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=np.asarray(denominator) > 0)
    return quotient
