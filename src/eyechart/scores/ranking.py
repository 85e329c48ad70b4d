"""Models in order: ranks with intervals, paired tests, and where two rankings disagree.

Estimates come in: all must have resampled the same pictures with the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.special import ndtr
from scipy.stats import rankdata

from eyechart.core.errors import UsageError
from eyechart.curves.bins import Numbers
from eyechart.curves.curve import percentile_interval
from eyechart.scores.estimate import Estimate, Interval
from eyechart.scores.significance import p_value

LEVEL = 0.95
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class PairedDifference:
    """First less second, its 95 % interval, and how often chance alone makes as large a one."""

    difference: float
    interval: Interval
    p_value: float


@dataclass(frozen=True)
class Ranking:
    """The rank of each model, 1 the best, and between what it lies in 95 % of the replicates.

    Equal scores share the mean of their ranks: two best models have rank 1.5 each.
    """

    ranks: Mapping[str, float]
    intervals: Mapping[str, Interval]


@dataclass(frozen=True)
class Swap:
    """Two models that two rankings put in opposite orders; `first` is ahead in the first one.

    `p_values`: that of their difference in each ranking, corrected for all of its pairs.
    `significant`: whether both differences are more than chance.
    """

    first: str
    second: str
    p_values: tuple[float, float]

    @property
    def significant(self) -> bool:
        """Whether the order is sure in both rankings, at 5 %."""
        return max(self.p_values) < SIGNIFICANT


def holm(p_values: Sequence[float] | Numbers) -> Numbers:
    """Return p-values corrected for their number by Holm's step-down method.

    Calling those below 5 % significant is wrong about one or more of them at most 5 % of the time,
    however the tests depend on each other.
    """
    given: Numbers = np.asarray(p_values, dtype=np.float64)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise UsageError("p_values must be a row of numbers between 0 and 1.")
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def paired_difference(first: Estimate, second: Estimate) -> PairedDifference:
    """Return by how much the first exceeds the second, with a paired bootstrap test, two-sided.

    The p-value is the share of replicates whose difference is as far from the one found as that is
    from none; the set found counts as one of them. An undetermined replicate (NaN) counts against
    it. Where
    no replicate is as far, it is the tail of a normal distribution with their spread: otherwise a
    thousand replicates could show nothing among more than 50 pairs.
    """
    _check_pair(first, second)
    difference = first.value - second.value
    drawn = first.replicates - second.replicates
    beyond = ~(np.abs(drawn - difference) < abs(difference))
    share = p_value(beyond)
    spread = 0.0 if beyond.any() else float(drawn.std())
    if spread:
        share = min(share, 2 * float(ndtr(-abs(difference) / spread)))
    return PairedDifference(difference, percentile_interval(drawn, LEVEL), share)


def rank(scores: Mapping[str, Estimate], higher_is_better: bool) -> Ranking:
    """Return the ranks of models by a score, with intervals from ranking each replicate.

    In a replicate that leaves a score undetermined (NaN) every model may have any rank.
    """
    _check_scores(scores)
    sign = -1 if higher_is_better else 1
    found = rankdata([sign * own.value for own in scores.values()])
    drawn = rankdata([sign * own.replicates for own in scores.values()], axis=0)
    tail = (1 - LEVEL) / 2
    unknown, last = np.isnan(drawn), len(scores)
    # ranks are no continuum: the ends of an interval are ranks that were seen
    low = np.quantile(np.where(unknown, 1, drawn), tail, axis=1, method="inverted_cdf")
    high = np.quantile(np.where(unknown, last, drawn), 1 - tail, axis=1, method="inverted_cdf")
    names = list(scores)
    return Ranking(
        dict(zip(names, map(float, found), strict=True)),
        {name: (float(low[place]), float(high[place])) for place, name in enumerate(names)},
    )


def kendall_tau(first: Ranking, second: Ranking) -> float:
    """Return Kendall's τ_b of two rankings of the same models: 1 equal, −1 reversed.

    NaN if one ranking holds all models to be equal.
    """
    signs = [
        (_sign(first.ranks, *pair), _sign(second.ranks, *pair)) for pair in _pairs(first, second)
    ]
    agreement = sum(one * two for one, two in signs)
    strict = [sum(abs(sign) for sign in side) for side in zip(*signs, strict=True)]
    return agreement / sqrt(strict[0] * strict[1]) if signs and all(strict) else float("nan")


def swaps(
    first: tuple[Mapping[str, Estimate], bool], second: tuple[Mapping[str, Estimate], bool]
) -> list[Swap]:
    """Return the pairs of models that two scores put in opposite orders.

    Each is scores by model and whether higher is better. p-values are corrected by Holm's method
    for all pairs of models, in each ranking by itself.
    """
    ways = (first, second)
    rankings = [rank(*way) for way in ways]
    pairs = _pairs(*rankings)
    corrected = [_corrected(scores, pairs) for scores, _ in ways]
    found = []
    for place, (one, two) in enumerate(pairs):
        signs = [_sign(ranking.ranks, one, two) for ranking in rankings]
        if signs[0] * signs[1] < 0:
            ahead = (one, two) if signs[0] > 0 else (two, one)
            found.append(Swap(*ahead, (float(corrected[0][place]), float(corrected[1][place]))))
    return found


def _corrected(scores: Mapping[str, Estimate], pairs: Sequence[tuple[str, str]]) -> Numbers:
    return holm([paired_difference(scores[one], scores[two]).p_value for one, two in pairs])


def _pairs(first: Ranking, second: Ranking) -> list[tuple[str, str]]:
    if set(first.ranks) != set(second.ranks):
        other = sorted(set(first.ranks) ^ set(second.ranks))[0]
        raise UsageError(f"Rankings must be of the same models, and only one has '{other}'.")
    return list(combinations(first.ranks, 2))


def _sign(ranks: Mapping[str, float], one: str, two: str) -> int:
    """Return 1 if the first is ahead, −1 if behind, 0 if they share their rank."""
    return int(np.sign(ranks[two] - ranks[one]))


def _check_pair(first: Estimate, second: Estimate) -> None:
    _check_number(first.value, "first")
    _check_number(second.value, "second")
    if len(first.replicates) != len(second.replicates):
        raise UsageError(
            "Scores can be paired only if both resampled the same pictures equally often, got"
            f" {len(first.replicates)} and {len(second.replicates)} replicates."
        )


def _check_scores(scores: Mapping[str, Estimate]) -> None:
    if not scores:
        raise UsageError("A ranking needs at least one model.")
    for name, own in scores.items():
        _check_number(own.value, name)
    if len({len(own.replicates) for own in scores.values()}) > 1:
        raise UsageError(
            "Models can be ranked only if all resampled the same pictures equally often."
        )


def _check_number(value: float, name: str) -> None:
    if not np.isfinite(value):
        raise UsageError(f"Models can be compared only by a number, got {value} for '{name}'.")
