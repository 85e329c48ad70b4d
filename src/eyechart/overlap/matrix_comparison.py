"""Agreement of two overlap matrices, for example from two networks or two training methods."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import pearsonr, spearmanr

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.stats.bootstrap import check_bootstrap, draw_weights
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.stats.intervals import CONFIDENCE, percentile_interval

MIN_SHARED = 4
"""Minimum number of common corruptions, and of common pairs."""


@dataclass(frozen=True)
class MatrixAgreement:
    """Agreement of two matrices over the pairs whose overlap is determined in both.

    Attributes:
        corruptions: Common corruptions.
        pairs: Number of pairs.
        rank: Spearman's correlation.
        interval: 95 % interval of `rank`, from a bootstrap over corruptions.
        linear: Pearson's correlation.
        difference: Mean absolute difference.
        shift: Mean of the second matrix minus mean of the first.
    """

    corruptions: tuple[str, ...]
    pairs: int
    rank: float
    interval: tuple[float, float]
    linear: float
    difference: float
    shift: float


def compare_matrices(
    one: OverlapMatrix, two: OverlapMatrix, n_bootstrap: int = N_BOOTSTRAP, seed: int = 0
) -> MatrixAgreement:
    """Return the agreement of two matrices over the corruptions that both have."""
    n_bootstrap, seed = check_bootstrap(n_bootstrap, seed)
    names = tuple(name for name in one.names if name in two.names)
    if len(names) < MIN_SHARED:
        raise UsageError(
            f"Two matrices must share at least {MIN_SHARED} corruptions to be compared, got"
            f" {len(names)}."
        )
    first, second = one.only(names).scores, two.only(names).scores
    # The matrix is symmetric: each pair once.
    places = np.stack(np.triu_indices(len(names), 1))
    known = ~np.isnan(first[tuple(places)]) & ~np.isnan(second[tuple(places)])
    places = places[:, known]
    first_scores, other = first[tuple(places)], second[tuple(places)]
    if len(first_scores) < MIN_SHARED or np.ptp(first_scores) == 0 or np.ptp(other) == 0:
        raise UsageError(
            f"Two matrices need at least {MIN_SHARED} pairs that are determined in both, and the "
            f"scores in each matrix must not all be equal, got {len(first_scores)} pairs."
        )
    drawn = _replicates(first, second, n_bootstrap, seed)
    return MatrixAgreement(
        names,
        len(first_scores),
        float(spearmanr(first_scores, other).statistic),
        percentile_interval(drawn, CONFIDENCE),
        float(pearsonr(first_scores, other).statistic),
        float(np.abs(first_scores - other).mean()),
        float((other - first_scores).mean()),
    )


def _replicates(first: FloatArray, second: FloatArray, n_bootstrap: int, seed: int) -> FloatArray:
    """Return rank correlations for corruptions drawn with replacement.

    Pairs of a corruption with itself are left out. Replicates with too few pairs, or without
    variation among them, are drawn again.
    """
    rows, columns = np.triu_indices(len(first), 1)
    known = ~np.isnan(first[rows, columns]) & ~np.isnan(second[rows, columns])
    rows, columns = rows[known], columns[known]
    correlations: list[float] = []
    for weights in draw_weights(len(first), seed):
        # A pair's weight is the product of how often its two corruptions were drawn.
        repeats = (weights[rows] * weights[columns]).astype(np.int64)
        one, two = (np.repeat(scores[rows, columns], repeats) for scores in (first, second))
        # The rank correlation of constant values is undefined.
        if len(one) >= MIN_SHARED and np.ptp(one) > 0 and np.ptp(two) > 0:
            correlations.append(spearmanr(one, two).statistic)
        if len(correlations) == n_bootstrap:
            break
    return np.array(correlations)
