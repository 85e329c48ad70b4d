"""Hypothesis tests on replicates and counts: bootstrap p-values, sign flips, Holm's correction.

Paired estimates must have been resampled with the same units and weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import CONFIDENCE, Interval, percentile_interval

SIGNIFICANT = 0.05
"""A difference is significant if its p-value, corrected for multiple tests, is below this."""


@dataclass(frozen=True)
class PairedDifference:
    """The difference first minus second, its 95 % interval, and its two-sided p-value."""

    difference: float
    interval: Interval
    p_value: float


def bootstrap_p_value(as_extreme: NDArray[np.bool_]) -> float:
    """Return the fraction of replicates that are at least as extreme as the observed score.

    Example:
        >>> bootstrap_p_value(np.array([True, False, False]))
        0.5
    """
    # the observed data count as one of the replicates, so that no p-value is 0
    return (1 + int(as_extreme.sum())) / (1 + len(as_extreme))


def sign_flip(sums: IntArray) -> float:
    """Return the two-sided p-value of sums that are symmetric around 0 under the null hypothesis.

    For example, a participant's sum is the number of correct minus incorrect responses. For a
    participant who guesses, the opposite sum is equally likely, even if the responses depend on
    each other. All sign combinations are counted; none are sampled. With one response per
    participant, this is the binomial test.

    Args:
        sums: One integer per unit.

    Example:
        >>> sign_flip(np.array([1, 1, 1, 1, 1]))  # 2 / 2**5
        0.0625
    """
    sizes = np.abs(np.asarray(sums, dtype=np.int64))
    chances = np.ones(1)
    # the distribution of the total, convolved with ±size for one unit after another
    for size in sizes.tolist():
        wider = np.zeros(len(chances) + 2 * size)
        wider[: len(chances)] += chances / 2
        wider[2 * size :] += chances / 2
        chances = wider
    total = int(sizes.sum())
    # all possible totals, in the order of `chances`
    outcomes = np.arange(-total, total + 1)
    # A sum of many probabilities can exceed 1 by rounding.
    return min(1.0, float(chances[np.abs(outcomes) >= abs(int(np.sum(sums)))].sum()))


def holm(p_values: Sequence[float] | FloatArray) -> FloatArray:
    """Return p-values corrected for multiple tests by Holm's step-down method.

    If corrected p-values below 5 % are called significant, the probability of at least one false
    positive is at most 5 %, even if the tests depend on each other.

    Example:
        >>> holm([0.01, 0.04, 0.03, 0.005])
        array([0.03, 0.06, 0.06, 0.02])
    """
    raw: FloatArray = np.asarray(p_values, dtype=np.float64)
    if raw.ndim != 1 or not ((raw >= 0) & (raw <= 1)).all():
        raise UsageError("p_values must be a list of numbers in [0, 1].")
    order = np.argsort(raw, kind="stable")
    # the smallest p-value times the number of tests, the next one times one less, …
    steps = raw[order] * np.arange(len(raw), 0, -1)
    corrected = np.empty_like(raw)
    # a corrected p-value must not be below an earlier one
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def paired_difference(first: Estimate, second: Estimate) -> PairedDifference:
    """Return the difference of two estimates with a two-sided paired bootstrap test.

    The p-value is the fraction of replicates whose difference is at least as far from the observed
    difference as the observed one is from 0. The observed data count as a replicate, and an
    undetermined replicate (NaN) counts as extreme. If no replicate is that far, the p-value is the
    tail probability of a normal distribution with the replicates' standard deviation: otherwise a
    thousand replicates could not show significance after correction over more than 50 pairs.

    Example:
        >>> from eyechart.stats.estimate import make_estimate
        >>> numbers = np.random.default_rng(0)
        >>> first, second = (
        ...     make_estimate(mean, numbers.normal(mean, 0.1, 1000)) for mean in (0.6, 0.5)
        ... )
        >>> 0.4 < paired_difference(first, second).p_value < 0.55
        True
    """
    check_comparable_value(first.value, "first")
    check_comparable_value(second.value, "second")
    if len(first.replicates) != len(second.replicates):
        raise UsageError(
            "Paired scores must have the same number of bootstrap replicates of the same images,"
            f" got {len(first.replicates)} and {len(second.replicates)} replicates."
        )
    difference = first.value - second.value
    drawn = first.replicates - second.replicates
    # negated, so that NaN counts as beyond
    beyond = ~(np.abs(drawn - difference) < abs(difference))
    share = bootstrap_p_value(beyond)
    # only if the replicates cannot resolve the p-value
    spread = 0.0 if beyond.any() else float(drawn.std())
    if spread:
        # Counting remains an upper limit, because no replicate was that far.
        share = min(share, 2 * float(ndtr(-abs(difference) / spread)))
    return PairedDifference(difference, percentile_interval(drawn, CONFIDENCE), share)


def check_comparable_value(value: float, name: str) -> None:
    """Raise a UsageError if a score is not a finite number.

    Example:
        >>> check_comparable_value(0.5, "resnet50")
    """
    if not np.isfinite(value):
        raise UsageError(f"Models can be compared only by a number, got {value} for '{name}'.")
