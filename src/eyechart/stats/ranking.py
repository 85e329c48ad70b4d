"""Ranks with confidence intervals, the similarity of two rankings, and pairs in opposite order.

All estimates must have been resampled with the same units and weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import CONFIDENCE, Interval
from eyechart.stats.p_values import (
    SIGNIFICANT,
    check_comparable_value,
    holm,
    paired_difference,
)


@dataclass(frozen=True)
class Ranking:
    """The rank of each model (1 is the best) and its interval over 95 % of the replicates.

    Tied models share the mean of their ranks: if two models are best, both have rank 1.5.
    """

    ranks: Mapping[str, float]
    intervals: Mapping[str, Interval]


@dataclass(frozen=True)
class Swap:
    """Two models that two rankings put in opposite orders; `first` leads in the first ranking.

    `p_values` has the p-value of their difference in each ranking, corrected for all of its pairs.
    """

    first: str
    second: str
    p_values: tuple[float, float]

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 5 % in both rankings."""
        return max(self.p_values) < SIGNIFICANT


def rank(scores: Mapping[str, Estimate], higher_is_better: bool) -> Ranking:
    """Return the ranks of models by a score, with intervals from ranking each replicate.

    In a replicate with an undetermined score (NaN), every model may have any rank.

    Example:
        >>> from eyechart.stats.estimate import make_estimate
        >>> scores = {
        ...     name: make_estimate(value, np.full(100, value))
        ...     for name, value in (("small", 0.6), ("large", 0.8))
        ... }
        >>> rank(scores, higher_is_better=True).ranks
        {'small': 2.0, 'large': 1.0}
    """
    # scipy.stats takes long to import, and the reports of one model rank nothing.
    from scipy.stats import rankdata

    if not scores:
        raise UsageError("A ranking needs at least one model.")
    for name, score in scores.items():
        check_comparable_value(score.value, name)
    if len({len(score.replicates) for score in scores.values()}) > 1:
        raise UsageError(
            "Ranked models must have the same number of bootstrap replicates of the same images."
        )
    # rankdata gives rank 1 to the smallest value
    sign = -1 if higher_is_better else 1
    ranks = rankdata([sign * score.value for score in scores.values()])
    # A replicate ranks all models on the same images, so that easy images favor none of them.
    drawn = rankdata([sign * score.replicates for score in scores.values()], axis=0)
    tail = (1 - CONFIDENCE) / 2
    # `rankdata` makes all ranks of a replicate NaN if one of its scores is NaN.
    unknown, last = np.isnan(drawn), len(scores)
    # ranks are discrete: the ends of an interval are ranks that occurred
    low = np.quantile(np.where(unknown, 1, drawn), tail, axis=1, method="inverted_cdf")
    high = np.quantile(np.where(unknown, last, drawn), 1 - tail, axis=1, method="inverted_cdf")
    names = list(scores)
    return Ranking(
        dict(zip(names, map(float, ranks), strict=True)),
        {name: (float(low[row]), float(high[row])) for row, name in enumerate(names)},
    )


def kendall_tau(first: Ranking, second: Ranking) -> float:
    """Return Kendall's τ_b of two rankings of the same models: 1 if equal, −1 if reversed.

    The result is NaN if all models are tied in one of the rankings.

    Example:
        >>> first = Ranking({"a": 1, "b": 2, "c": 3}, {})
        >>> kendall_tau(first, Ranking({"a": 3, "b": 2, "c": 1}, {}))
        -1.0
    """
    signs = [
        (_sign(first.ranks, *pair), _sign(second.ranks, *pair)) for pair in _pairs(first, second)
    ]
    agreement = sum(one * two for one, two in signs)
    # pairs that are not tied, for the correction of τ_b
    strict = [sum(abs(sign) for sign in side) for side in zip(*signs, strict=True)]
    return agreement / sqrt(strict[0] * strict[1]) if signs and all(strict) else float("nan")


def swaps(
    first: tuple[Mapping[str, Estimate], bool], second: tuple[Mapping[str, Estimate], bool]
) -> list[Swap]:
    """Return the pairs of models that two scores put in opposite orders.

    Each argument contains the scores of all models, and whether higher is better. The p-values are
    corrected by Holm's method over all pairs of models, separately for each score.

    Example:
        >>> from eyechart.stats.estimate import make_estimate
        >>> high, low = (make_estimate(value, np.full(100, value)) for value in (0.8, 0.6))
        >>> accuracy, error = {"a": high, "b": low}, {"a": high, "b": low}
        >>> [(swap.first, swap.second) for swap in swaps((accuracy, True), (error, False))]
        [('a', 'b')]
    """
    ways = (first, second)
    rankings = [rank(*way) for way in ways]
    pairs = _pairs(*rankings)
    corrected = [
        holm([paired_difference(scores[one], scores[two]).p_value for one, two in pairs])
        for scores, _ in ways
    ]
    opposite = []
    for number, (one, two) in enumerate(pairs):
        signs = [_sign(ranking.ranks, one, two) for ranking in rankings]
        if signs[0] * signs[1] < 0:
            ahead = (one, two) if signs[0] > 0 else (two, one)
            p_values = (float(corrected[0][number]), float(corrected[1][number]))
            opposite.append(Swap(*ahead, p_values))
    return opposite


def _pairs(first: Ranking, second: Ranking) -> list[tuple[str, str]]:
    if set(first.ranks) != set(second.ranks):
        other = sorted(set(first.ranks) ^ set(second.ranks))[0]
        raise UsageError(f"Rankings must contain the same models; only one has '{other}'.")
    return list(combinations(first.ranks, 2))


def _sign(ranks: Mapping[str, float], one: str, two: str) -> int:
    """Return 1 if the first model leads, −1 if the second does, 0 if they are tied."""
    return int(np.sign(ranks[two] - ranks[one]))
