"""Confidence intervals: percentile, Wilson, Korn–Graubard, exact, and of weighted sums.

These functions take and return plain numbers. scipy.stats is imported where it is used: it takes a
second, and processes that only predict do not need it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri, stdtrit

from eyechart.core.arguments import as_number, digits
from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError

Interval = tuple[float, float]

CONFIDENCE = 0.95
"""The confidence level of every interval shown next to a number.

It is part of the file formats: fields such as `interval95` and `low95` of results.json, columns of
results.csv, and the text "95 %". Changing it changes those formats.
"""

PUBLISHED_LEVEL = 0.83
"""Two equally wide intervals at this level that just touch differ significantly at about 5 %.

It is part of the file formats too: `interval83`, `low83`.
"""


MAX_VALUES = 256
"""Maximum number of different values in an exact bound; more are grouped, keeping their mean."""

DECIDED = 12.0
"""Distance from a limit in standard deviations, beyond which a probability counts as 0 or 1."""

LOG_NODES = np.arange(-28, 28, 0.05)
"""Where a characteristic function is inverted: logarithms of multiples of 1/standard deviation.
The trapezoidal rule with this step has an error below 1e-6."""


def check_level(level: float) -> float:
    """Return the level of an interval as a float; raise an error unless it is in (0, 1).

    Example:
        >>> check_level(0.95)
        0.95
    """
    share = as_number(level, "level")
    if not 0 < share < 1:
        raise UsageError(f"level must be between 0 and 1, got {digits(share)}.")
    return share


def percentile_interval(values: FloatArray, level: float) -> Interval:
    """Return the interval that contains the middle fraction `level` of the values.

    A NaN could be any value, so it counts as below the lower end and as above the upper end. If
    there are more NaN than values in one tail, the interval is undetermined: (NaN, NaN).

    Example:
        >>> percentile_interval(np.arange(101.0), 0.5)
        (25.0, 75.0)
    """
    return percentile_intervals(values, [level])[0]


def percentile_intervals(values: FloatArray, levels: Sequence[float]) -> list[Interval]:
    """Return the intervals of several levels, which sort the values only once.

    Example:
        >>> percentile_intervals(np.arange(101.0), [0.5, 0.75])
        [(25.0, 75.0), (12.5, 87.5)]
    """
    percentiles = percentiles_of(levels)
    unknown = np.isnan(values)
    if unknown.any():
        return [_interval_with_unknown(values, unknown, tail) for tail in percentiles[::2]]
    ends = np.percentile(values, percentiles).tolist()
    return list(zip(ends[::2], ends[1::2], strict=True))


def percentiles_of(levels: Sequence[float]) -> list[float]:
    """Return the percentiles at the lower and the upper end of the interval of each level.

    Example:
        >>> percentiles_of([0.5, 0.75])
        [25.0, 75.0, 12.5, 87.5]
    """
    tails = [50 * (1 - check_level(level)) for level in levels]
    return [end for tail in tails for end in (tail, 100 - tail)]


def _interval_with_unknown(values: FloatArray, unknown: NDArray[np.bool_], tail: float) -> Interval:
    if 100 * unknown.mean() > tail:
        return float("nan"), float("nan")
    # the ends are observed values: there is no interpolation towards an undetermined one
    low = np.percentile(np.where(unknown, -np.inf, values), tail, method="higher")
    high = np.percentile(np.where(unknown, np.inf, values), 100 - tail, method="lower")
    return float(low), float(high)


# Scores of the same images ask for the same factor.
@lru_cache(maxsize=1024)
def small_sample_factor(n_units: int | None, level: float = CONFIDENCE) -> float:
    """Return the factor by which a percentile interval from few units must be widened.

    The bootstrap underestimates the variance by a factor of (n − 1)/n, and ignores that a
    variance estimated from few units is itself uncertain. The t quantile accounts for this.

    Example:
        >>> round(small_sample_factor(20), 3), round(small_sample_factor(1000), 3)
        (1.096, 1.002)
    """
    # A single unit has no degrees of freedom; for shares, Wilson's interval sets the width.
    if n_units is None or n_units < 2:
        return 1.0
    tail = (1 + level) / 2
    # the function behind scipy.stats.t.ppf, without the import, for which all threads would wait
    return float(stdtrit(n_units - 1, tail) / ndtri(tail)) * sqrt(n_units / (n_units - 1))


def hull(first: Interval, second: Interval) -> Interval:
    """Return the smallest interval that contains both intervals.

    Example:
        >>> hull((0.2, 0.4), (0.3, 0.6))
        (0.2, 0.6)
    """
    return min(first[0], second[0]), max(first[1], second[1])


def wilson_interval(
    share: float, n_units: int, level: float, variance: float | None = None
) -> Interval:
    """Return Wilson's score interval of a proportion over independent units, each 0 or 1.

    Args:
        share: The mean over the units.
        n_units: The number of units.
        level: The confidence level, such as 0.95.
        variance: The variance of the proportion, if it is not p(1 − p)/n, as for a mean of units in
            [0, 1]. With variance 0, a proportion of 0 or 1 still gets the interval width for
            `n_units` units.

    Example:
        >>> tuple(round(end, 4) for end in wilson_interval(1.0, 271, 0.95))
        (0.986, 1.0)
    """
    z = float(ndtri((1 + level) / 2))
    if variance is None:
        variance = share * (1 - share) / n_units
    # Wilson (1927), with the variance of the share left open
    middle = (share + z * z / (2 * n_units)) / (1 + z * z / n_units)
    half = z / (1 + z * z / n_units) * sqrt(variance + z * z / (4 * n_units**2))
    # for a share of 0 or 1 that end is the share itself, which rounding would miss by 1e-16
    low = 0.0 if share <= 0 else max(0.0, middle - half)
    return low, 1.0 if share >= 1 else min(1.0, middle + half)


def clustered_interval(n_correct: IntArray, n_trials: IntArray, level: float) -> Interval:
    """Return the interval of a proportion over clusters of unequal size, such as participants.

    After Korn and Graubard: the exact binomial interval for the effective number of trials, which
    is smaller if there are few clusters or if they differ. A single cluster gives (0, 1).

    Args:
        n_correct: The number of correct trials in each cluster.
        n_trials: The number of trials in each cluster.
        level: The confidence level, such as 0.95.

    Example:
        >>> n_correct, n_trials = np.array([8, 9, 7, 8, 8]), np.full(5, 10)
        >>> tuple(round(end, 2) for end in clustered_interval(n_correct, n_trials, 0.95))
        (0.6, 0.93)
    """
    from scipy.stats import beta, t

    n_clusters, total, hits = len(n_trials), int(n_trials.sum()), int(n_correct.sum())
    # nothing is known about other clusters
    if n_clusters < 2:
        return 0.0, 1.0
    rate = hits / total
    squares = float(((n_correct - rate * n_trials) ** 2).sum())
    # of a ratio estimator over clusters
    variance = n_clusters / (n_clusters - 1) * squares / total**2
    # the effective number of trials: as many independent ones would have this variance
    # At most the number of trials, since clusters that agree by accident add no information.
    worth = min(rate * (1 - rate) / variance, total) if variance > 0 else float(total)
    tail = (1 - level) / 2
    # the t quantiles account for the few clusters that the variance was estimated from
    worth *= float(t.ppf(tail, total - 1) / t.ppf(tail, n_clusters - 1)) ** 2
    hit, missed = rate * worth, (1 - rate) * worth
    # Clopper–Pearson with fractional counts
    low = float(beta.ppf(tail, hit, missed + 1)) if hit > 0 else 0.0
    high = float(beta.ppf(1 - tail, hit + 1, missed)) if missed > 0 else 1.0
    return low, high


def exact_lower_bound(
    values: FloatArray, weights: FloatArray, lowest: float, alpha: float
) -> float:
    """Return a lower confidence bound of the mean of bounded units, valid for any number of units.

    After Gaffke (2005): units get random weights, as in the Bayesian bootstrap, together with one
    more unit that has the lowest possible value. For units that are 0 or 1, this is the bound of
    Clopper and Pearson; unlike Wilson's bound or Student's t, it errs with probability `alpha` at
    most, also for few units and for rare losses.

    Args:
        values: The value of each unit, at least `lowest`.
        weights: The weight of each unit; they sum to the effective number of units.
        lowest: The lowest possible value.
        alpha: The error probability.

    Example:
        >>> round(exact_lower_bound(np.ones(6), np.ones(6), lowest=0, alpha=0.05), 3)
        0.607
    """
    from scipy.optimize import brentq

    mean = float(np.average(values, weights=weights))
    if mean <= lowest:
        return lowest

    def excess(limit: float) -> float:
        return weighted_mean_cdf(values, weights, lowest, limit) - alpha

    return mean if excess(mean) <= 0 else float(brentq(excess, lowest, mean, xtol=1e-13))


def weighted_mean_cdf(
    values: FloatArray, weights: FloatArray, lowest: float, limit: float
) -> float:
    """Return the probability that a randomly weighted mean is at most `limit`.

    The weights are drawn from a Dirichlet distribution with the parameters `weights`, and 1 for one
    more unit with the value `lowest`. See `exact_lower_bound`, whose p-value this is.

    Example:
        >>> round(weighted_mean_cdf(np.ones(6), np.ones(6), lowest=0, limit=0.689), 3)  # 0.689**6
        0.107
    """
    values, weights = np.append(values, lowest), np.append(weights, 1.0)
    levels, group = np.unique(values, return_inverse=True)
    if len(levels) > MAX_VALUES:
        group = np.digitize(values, np.linspace(levels[0], levels[-1], MAX_VALUES))
    shapes = np.bincount(group, weights)
    gaps = np.bincount(group, weights * values)[shapes > 0] / shapes[shapes > 0] - limit
    shapes = shapes[shapes > 0]
    if len(gaps) == 2 and gaps[0] < 0 < gaps[1]:
        # The weight of the higher of two values follows a beta distribution.
        return float(betainc(shapes[1], shapes[0], -gaps[0] / (gaps[1] - gaps[0])))
    # The mean is at most `limit` where Σ gap × weight is at most 0, for gamma-distributed weights.
    spread = sqrt(float((shapes * gaps**2).sum()))
    distance = float((shapes * gaps).sum())
    if abs(distance) >= DECIDED * spread:
        return 0.0 if distance > 0 else 1.0
    # Imhof (1961): the characteristic function of this sum, inverted
    steps = np.exp(LOG_NODES)[:, None] * (gaps / spread)
    angles = np.arctan(steps) @ shapes
    sizes = np.exp(-0.5 * (np.log1p(steps**2) @ shapes))
    integral = float((np.sin(angles) * sizes).sum()) * (LOG_NODES[1] - LOG_NODES[0])
    return float(np.clip(0.5 - integral / pi, 0, 1))


def sum_interval(terms: Iterable[tuple[float, float, Interval]]) -> Interval:
    """Return the interval of a weighted sum of independent scores, such as a difference.

    The distances from each score to the ends of its interval are added in quadrature (Zou and
    Donner 2008; for two proportions Newcombe 1998), so that proportions of 0 or 1 do not give an
    interval of width 0.

    Args:
        terms: For each score its weight, its value and its interval.

    Example:
        >>> difference = [(1, 0.5, (0.4, 0.6)), (-1, 0.2, (0.1, 0.3))]
        >>> tuple(round(end, 3) for end in sum_interval(difference))
        (0.159, 0.441)
    """
    total = below = above = 0.0
    for weight, value, interval in terms:
        # sorted, because a negative weight turns the interval around
        ends = sorted(weight * (end - value) for end in interval)
        total, below, above = total + weight * value, below + ends[0] ** 2, above + ends[1] ** 2
    return total - sqrt(below), total + sqrt(above)
