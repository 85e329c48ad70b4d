"""Scores that are functions of sums over samples, such as top-5 accuracy, and their estimates.

A formula defines the summands; `stats` decides which images a replicate contains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.arrays import FloatArray, IntArray, places_in
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
        predictions: Predictions whose images are resampled from `resampled_images`, with weights.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap; replicates with equal images and seed match.
    """
    image = predictions.image
    images = predictions.resampled_images
    if images is None:
        images = np.unique(image)
    unit = places_in(images, image)
    weights = np.ones(len(unit)) if predictions.weights is None else predictions.weights
    columns = np.concatenate([statistic.columns for statistic in statistics], axis=1)
    # All scores share one pass over the images, and thereby the same bootstrap weights.
    sums = np.stack([np.bincount(unit, weights * column, len(images)) for column in columns.T])
    replicate_sums = resample_sums(sums.T, n_bootstrap, seed)
    ends = np.cumsum([statistic.columns.shape[1] for statistic in statistics])[:-1]
    totals = np.split(sums.sum(axis=1), ends)
    parts = np.split(replicate_sums, ends, axis=1)
    n_images = int(np.count_nonzero(np.bincount(unit)))
    estimates = []
    for statistic, total, part in zip(statistics, totals, parts, strict=True):
        value, replicates = float(statistic.combine(total)), statistic.combine(part)
        # A replicate that contains none of these images does not count for the score.
        replicates = np.where(np.isnan(replicates), value, replicates)
        if statistic.is_biased:
            # Shares stay in [0, 1] after the shift.
            replicates = np.clip(replicates - (replicates.mean() - value), 0, 1)
        estimates.append(make_estimate(value, replicates, n_images))
    return estimates


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the quotient, NaN where the denominator is 0."""
    quotient = np.full(np.shape(denominator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=np.asarray(denominator) > 0)
    return quotient


N_BINS = 15
"""Number of bins of the calibration error."""


def top5_accuracy(predictions: Predictions) -> Statistic | None:
    """Return the fraction of labels among the top 5 predictions; None if ranks are unknown.

    Rank 1 is the prediction itself. In the label space of the 16 categories, categories are ranked
    by their scores; the rule "top1" has no category scores and therefore no ranks.
    """
    rank = predictions.rank
    if rank is None or np.isnan(rank).any():
        return None
    hits = (rank <= 5).astype(np.float64)
    return Statistic(np.stack([hits, np.ones(len(hits))], axis=1), _share)


def _share(sums: FloatArray) -> FloatArray:
    return ratio(sums[..., 0], sums[..., 1])


def expected_calibration_error(predictions: Predictions) -> Statistic | None:
    """Return the ECE over 15 bins of equal mass: Σ_b (n_b / n) |accuracy_b − confidence_b|.

    Only the probability of the predicted class counts (top-label calibration).

    The ECE is biased upwards on few samples: within a bin of n_b samples, accuracy scatters around
    confidence by √(p(1 − p) / n_b) even for a perfectly calibrated model, and the absolute value
    turns that scatter into error. With 15 bins and p near 0.5 the bias is about 0.4 √(15 / n): 0.05
    at 1,000 samples, 0.007 at 50,000. Compare ECE only between runs with about the same number of
    samples.

    Samples without a prediction (rule "top1", class outside the categories) are left out.

    Returns:
        The statistic; None if no sample has a confidence.
    """
    confidence = predictions.confidence
    if confidence is None:
        return None
    is_known = ~np.isnan(confidence)
    if not is_known.any():
        return None
    weights = np.ones(len(confidence)) if predictions.weights is None else predictions.weights
    columns = np.zeros((len(confidence), N_BINS + 1))
    index = np.flatnonzero(is_known)
    gaps = (predictions.correct - confidence)[index]
    # Σ over a bin of (correct − confidence) is n_b (accuracy_b − confidence_b): sums are all ECE
    # needs.
    columns[index, equal_mass_bins(confidence[index], weights[index])] = gaps
    # The last column counts the samples.
    columns[index, N_BINS] = 1
    return Statistic(columns, _mean_gap, is_biased=True)


def equal_mass_bins(confidence: FloatArray, weights: FloatArray, n_bins: int = N_BINS) -> IntArray:
    """Return the bin of each sample, such that bins have about equal weight.

    Samples of equal confidence share a bin: splitting ties would add scatter.
    """
    order = np.argsort(confidence, kind="stable")
    mass = np.cumsum(weights[order])
    targets = mass[-1] * np.arange(1, n_bins) / n_bins
    # The upper edge of a bin is the confidence at which its share of the weight is reached. The
    # factor keeps rounding of the cumulative sum from moving an edge by one sample.
    upper = confidence[order][np.searchsorted(mass, targets * (1 - 1e-12))]
    return np.searchsorted(upper, confidence, side="left")


def _mean_gap(sums: FloatArray) -> FloatArray:
    return ratio(np.abs(sums[..., :N_BINS]).sum(axis=-1), sums[..., N_BINS])
