"""How alike two overlap matrices are: of two networks, of tuning and of training from scratch."""

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.stats import pearsonr, spearmanr

from eyechart.core.errors import UsageError
from eyechart.curves.bins import Numbers
from eyechart.curves.bootstrap import check_replicates
from eyechart.curves.curve import percentile_interval
from eyechart.overlap.scores import OverlapMatrix

LEAST = 4
"""Corruptions that two matrices must share to be compared."""


@dataclass(frozen=True)
class Agreement:
    """How alike two matrices are over the pairs that are determined in both.

    `rank`: Spearman's correlation, with the 95 % interval over corruptions drawn with replacement.
    `linear`: Pearson's. `difference`: the mean absolute difference; `shift`: the mean of the second
    less the first.
    """

    corruptions: tuple[str, ...]
    pairs: int
    rank: float
    interval: tuple[float, float]
    linear: float
    difference: float
    shift: float


def compare_matrices(
    one: OverlapMatrix, two: OverlapMatrix, replicates: int = 1000, seed: int = 0
) -> Agreement:
    """Return how alike two matrices are over the corruptions that both have."""
    replicates, seed = check_replicates(replicates, seed)
    names = tuple(name for name in one.names if name in two.names)
    if len(names) < LEAST:
        raise UsageError(
            f"Two matrices must share at least {LEAST} corruptions to be compared, got"
            f" {len(names)}."
        )
    first, second = one.only(names).scores, two.only(names).scores
    places = np.stack(np.triu_indices(len(names), 1))
    known = ~np.isnan(first[tuple(places)]) & ~np.isnan(second[tuple(places)])
    places = places[:, known]
    own, other = first[tuple(places)], second[tuple(places)]
    if len(own) < LEAST or np.ptp(own) == 0 or np.ptp(other) == 0:
        raise UsageError(
            f"Two matrices need at least {LEAST} pairs with scores that differ in each, got"
            f" {len(own)} that are determined in both."
        )
    drawn = _replicates(first, second, replicates, seed)
    return Agreement(
        names,
        len(own),
        float(spearmanr(own, other).statistic),
        percentile_interval(drawn, 0.95),
        float(pearsonr(own, other).statistic),
        float(np.abs(own - other).mean()),
        float((other - own).mean()),
    )


def _replicates(first: Numbers, second: Numbers, replicates: int, seed: int) -> Numbers:
    """Return rank correlations of corruptions drawn with replacement; pairs of one are no pairs."""
    numbers = np.random.default_rng(seed)
    found: list[float] = []
    while len(found) < replicates:
        taken = numbers.integers(0, len(first), len(first))
        row, column = np.triu_indices(len(first), 1)
        row, column = taken[row], taken[column]
        own, other = first[row, column], second[row, column]
        use = (row != column) & ~np.isnan(own) & ~np.isnan(other)
        if use.sum() >= LEAST and np.ptp(own[use]) > 0 and np.ptp(other[use]) > 0:
            found.append(spearmanr(own[use], other[use]).statistic)
    return cast(Numbers, np.array(found))
