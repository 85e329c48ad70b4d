"""Bootstrap intervals of overlap scores, over images and trainings; agreement of two matrices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.overlap.matrix import (
    Hits,
    OverlapMatrix,
    overlap_matrix,
    overlap_scores,
    robustness_scores,
)
from eyechart.overlap.overlap_settings import MIN_GAIN
from eyechart.stats.bootstrap import check_bootstrap, draw_units, draw_weights, weight_blocks
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.stats.intervals import CONFIDENCE, check_level, percentile_interval

AT_ONCE = 8_000_000
"""Maximum number of elements in each block of hits and of weights, so that each fits in 64 MB."""

EXACT = 2**24
"""float32 represents every integer up to this limit exactly."""


@dataclass(frozen=True, eq=False)
class OverlapIntervals:
    """Overlaps with percentile intervals from `low` to `high`; all have the shape (n, n).

    The interval is [0, ∞) if an overlap is undetermined in too many replicates; `undetermined` is
    the fraction of these replicates. `seed_deviation` is the sample standard deviation over seeds,
    NaN if there is one seed or the overlap is undetermined for any seed.
    """

    matrix: OverlapMatrix
    low: FloatArray
    high: FloatArray
    undetermined: FloatArray
    seed_deviation: FloatArray
    level: float
    n_bootstrap: int
    n_images: int
    seeds: int


def overlap_intervals(
    hits: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
    min_gain: float = MIN_GAIN,
) -> OverlapIntervals:
    """Return overlaps with bootstrap intervals, from the correctness of each prediction.

    A replicate uses the same images for all models, tests and seeds.

    Args:
        hits: Boolean array of shape (models, tests, images) or (seeds, models, tests, images). The
            first model is the standard one, the others were trained on one corruption each; the
            first test is on clean images, the others on the same images with each corruption.
        names: Names of the corruptions.
        level: Confidence level of the intervals.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.
        min_gain: Minimum gain for overlaps to be determined.
    """
    check_level(level)
    checked = _checked(hits)
    n_bootstrap, seed = check_bootstrap(n_bootstrap, seed, low=2)
    shares = checked.mean(axis=-1)
    robustness = robustness_scores(shares[..., 1:], shares[..., 0])
    if np.isnan(robustness).any():
        raise UsageError("Every model must be correct on at least one clean image.")
    matrix = overlap_matrix(robustness.mean(axis=0), names, min_gain)
    drawn = overlap_replicates(checked, n_bootstrap, seed, min_gain)
    low, high = _ends(drawn, level)
    for ends in (low, high):
        # An undetermined overlap has no interval, even if some replicates determine it.
        ends[np.isnan(matrix.scores)] = np.nan
    seeds = len(checked)
    spread: FloatArray = np.full(low.shape, np.nan)
    if seeds > 1:
        spread = overlap_scores(robustness, min_gain).std(axis=0, ddof=1)
    lost: FloatArray = np.isnan(drawn).mean(axis=0)
    return OverlapIntervals(
        matrix, low, high, lost, spread, level, n_bootstrap, checked.shape[-1], seeds
    )


def overlap_replicates(
    hits: Hits, n_bootstrap: int, seed: int = 0, min_gain: float = MIN_GAIN
) -> FloatArray:
    """Return overlaps (replicates, n, n) for bootstrap replicates over images and seeds.

    `hits` has the shape (seeds, models, tests, images).
    """
    blocks = []
    for shares in resampled_shares(hits, n_bootstrap, seed):
        scores = robustness_scores(shares[..., 1:], shares[..., 0])
        blocks.append(overlap_scores(scores.mean(axis=1), min_gain))
    return np.concatenate(blocks)


def resampled_shares(hits: Hits, n_bootstrap: int, seed: int = 0) -> Iterator[FloatArray]:
    """Yield accuracies of bootstrap replicates in blocks (replicates, seeds drawn, models, tests).

    `hits` has the shape (seeds, models, tests, images).
    """
    seeds, models, tests, n_images = hits.shape
    # Drawing S − 1 of S seeds gives means over seeds the right variance. The separate key keeps
    # the image weights the same for any number of seeds.
    taken = draw_units(seeds, max(1, seeds - 1), n_bootstrap, (seed, 1))
    # Replicates are processed in blocks, so that memory does not grow with their number.
    max_block = max(1, AT_ONCE // max(n_images, seeds * models * tests))
    rows, step = hits.reshape(-1, n_images), max(1, AT_ONCE // n_images)
    for part, weights in weight_blocks(n_images, n_bootstrap, seed, max_block):
        # float32 is exact here: counts stay below 2²⁴ (`EXACT`), and it halves memory.
        counted = weights.T.astype(np.float32)
        size = counted.shape[1]
        shares = np.empty((seeds, models, tests, size))
        for start in range(0, len(rows), step):
            # One matrix product per block: the resampled accuracies of all models and tests.
            block = rows[start : start + step].astype(np.float32)
            shares.reshape(-1, size)[start : start + step] = block @ counted / n_images
        yield np.moveaxis(shares, -1, 0)[np.arange(size)[:, None], taken[part]]


def _ends(drawn: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the percentile interval; undetermined replicates count as both lowest and highest."""
    tail = (1 - level) / 2
    unknown = np.isnan(drawn)
    low: FloatArray = np.quantile(np.where(unknown, 0.0, drawn), tail, axis=0)
    with np.errstate(invalid="ignore"):  # inf − inf, replaced below
        high: FloatArray = np.quantile(np.where(unknown, np.inf, drawn), 1 - tail, axis=0)
    # Interpolating between infinity and a finite neighbor is undefined: use the higher one.
    endless = np.quantile(np.where(unknown, np.inf, drawn), 1 - tail, axis=0, method="higher")
    some = unknown.any(axis=0)
    high[some] = endless[some]
    return low, high


def _checked(hits: ArrayLike) -> Hits:
    array = np.asarray(hits)
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise UsageError("hits must be booleans that say whether each prediction is correct.")
        array = array.astype(bool)
    array = array[None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[1] < 2 or array.shape[1] != array.shape[2]:
        raise UsageError(
            "hits must have as many models as tests, with the standard model and clean images "
            "first:"
            f" (models, tests, images), optionally with seeds before them, got shape {array.shape}."
        )
    if not 0 < array.shape[-1] < EXACT:
        raise UsageError(f"hits must have 1 to {EXACT - 1:,} images, got {array.shape[-1]:,}.")
    return array


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
    known = np.triu(~np.isnan(first) & ~np.isnan(second), 1)
    rows, columns = np.nonzero(known)
    first_scores, other = first[known], second[known]
    if len(first_scores) < MIN_SHARED or np.ptp(first_scores) == 0 or np.ptp(other) == 0:
        raise UsageError(
            f"Two matrices need at least {MIN_SHARED} pairs that are determined in both, and the "
            f"scores in each matrix must not all be equal, got {len(first_scores)} pairs."
        )
    # Imported where it is used: scipy.stats takes a second.
    from scipy.stats import pearsonr, spearmanr

    # The interval is over corruptions drawn with replacement, without pairs of one with itself.
    drawn: list[float] = []
    for weights in draw_weights(len(names), seed):
        # A pair's weight is the product of how often its two corruptions were drawn.
        repeats = (weights[rows] * weights[columns]).astype(np.int64)
        pairs = [np.repeat(scores, repeats) for scores in (first_scores, other)]
        # The rank correlation of too few or of constant values is undefined: draw again.
        if repeats.sum() >= MIN_SHARED and all(np.ptp(scores) > 0 for scores in pairs):
            drawn.append(spearmanr(*pairs).statistic)
        if len(drawn) == n_bootstrap:
            break
    return MatrixAgreement(
        names,
        len(first_scores),
        float(spearmanr(first_scores, other).statistic),
        percentile_interval(np.array(drawn), CONFIDENCE),
        float(pearsonr(first_scores, other).statistic),
        float(np.abs(first_scores - other).mean()),
        float((other - first_scores).mean()),
    )
