"""Bootstrap resampling: how often each replicate contains each unit, and sums over the units.

The caller chooses the units (images, subclasses, images × seeds, participants). All scores with the
same units and seed are resampled identically, because all resampling is done here.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from eyechart.core.arguments import as_whole
from eyechart.core.arrays import FloatArray, IntArray

MAX_BOOTSTRAP = 100_000
"""Maximum number of replicates: the tail probabilities of a 95 % interval are then accurate to 0.05
percentage points."""

MAX_SEED = 2**63 - 1

MAX_BLOCK, MAX_WEIGHTS = 50, 20_000_000
"""Maximum number of replicates in a block, and maximum number of weights in it (160 MB)."""

MAX_KEPT = 256_000_000
"""Maximum number of weights that are kept for the next score of the same units (256 MB)."""

_DRAWING = Lock()

Seed = int | tuple[int, ...]
"""The seed of a run, or a tuple that starts with it, which yields independent random numbers.

A trailing 0 has no effect: (3, 0) is equivalent to 3."""


def check_bootstrap(n_bootstrap: object, seed: object = 0, low: int = 1) -> tuple[int, int]:
    """Return the number of replicates and the seed as ints; raise a UsageError if one is invalid.

    Example:
        >>> check_bootstrap(1000, seed=3)
        (1000, 3)
    """
    number = as_whole(n_bootstrap, "n_bootstrap", low, MAX_BOOTSTRAP)
    return number, as_whole(seed, "seed", 0, MAX_SEED)


def draw_weights(n_units: int, seed: Seed) -> Iterator[FloatArray]:
    """Yield replicates endlessly, each as an array that counts how often it contains each unit.

    Args:
        n_units: The number of units, which is also the size of each replicate.
        seed: The random seed; replicate i depends only on it and on `n_units`.

    Yields:
        Whole numbers as floats, (n_units,), whose sum is `n_units`.

    Example:
        >>> next(draw_weights(4, seed=0))  # the first unit is missing, the third occurs twice
        array([0., 1., 2., 1.])
    """
    numbers = np.random.default_rng(seed)
    while True:
        # drawing units and counting them takes a tenth of the time of a multinomial draw
        drawn = numbers.integers(0, n_units, n_units)
        yield np.bincount(drawn, minlength=n_units).astype(np.float64)


def weight_blocks(
    n_units: int, n_bootstrap: int, seed: Seed, max_block: int = MAX_BLOCK
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the weights of `n_bootstrap` replicates in blocks, with the slice of each block.

    A table of all weights would not fit into memory for many units.

    Yields:
        The slice of the block's replicates, and their weights (rows, n_units).

    Example:
        >>> [block.shape for _, block in weight_blocks(4, n_bootstrap=3, seed=0, max_block=2)]
        [(2, 4), (1, 4)]
    """
    # replicates are drawn in order, so the size of a block does not change them
    rows = max(1, min(max_block, MAX_WEIGHTS // max(1, n_units)))
    drawn = draw_weights(n_units, seed)
    kept = None
    if n_units * n_bootstrap <= MAX_KEPT:
        # All scores of a run resample the same images: one thread draws, the others wait for it.
        with _DRAWING:
            kept = _draw_counts(n_units, n_bootstrap, seed)
    for start in range(0, n_bootstrap, rows):
        part = slice(start, min(start + rows, n_bootstrap))
        if kept is None:
            yield part, np.stack(list(islice(drawn, part.stop - start)))
        else:
            yield part, kept[part].astype(np.float64)


@lru_cache(maxsize=2)
def _draw_counts(n_units: int, n_bootstrap: int, seed: Seed) -> NDArray[np.uint8]:
    """Return the weights of all replicates, (n_bootstrap, n_units), in an eighth of the memory."""
    # One byte is enough: the probability of drawing a unit 256 times is below 1e-500.
    counts = np.empty((n_bootstrap, n_units), dtype=np.uint8)
    for row, weights in zip(counts, draw_weights(n_units, seed), strict=False):
        row[:] = weights
    return counts


def resample_sums(values: FloatArray | csr_array, n_bootstrap: int, seed: Seed) -> FloatArray:
    """Return sums over the units of each replicate, from which rates, counts and κ are computed.

    Args:
        values: The contribution of each unit, (n_units, n_columns), dense or sparse.
        n_bootstrap: The number of replicates.
        seed: The random seed.

    Returns:
        The sums, (n_bootstrap, n_columns).

    Example:
        >>> resample_sums(np.ones((4, 1)), n_bootstrap=2, seed=0)
        array([[4.],
               [4.]])
    """
    n_units, n_columns = values.shape
    sums = np.empty((n_bootstrap, n_columns))
    # a sparse matrix must be the left factor, so both sides are transposed
    columns = values.T.tocsr() if isinstance(values, csr_array) else values.T
    for part, weights in weight_blocks(n_units, n_bootstrap, seed):
        sums[part] = (columns @ weights.T).T
    return sums


def resample_means(
    totals: ArrayLike, counts: ArrayLike, n_bootstrap: int, seed: Seed
) -> FloatArray:
    """Return the mean in each replicate, Σ totals / Σ counts over its units.

    Args:
        totals: The sum over the observations of each unit, (n_units,).
        counts: The number of observations of each unit, which may be 0.
        n_bootstrap: The number of replicates.
        seed: The random seed.

    Returns:
        The means (n_bootstrap,); a replicate without any observation has the mean of all units.

    Example:
        >>> resample_means([1, 0, 3], [1, 1, 3], n_bootstrap=3, seed=0)
        array([0.6, 1. , 1. ])
    """
    unit_sums = np.array([totals, counts], dtype=np.float64).T
    sums, (total, count) = resample_sums(unit_sums, n_bootstrap, seed), unit_sums.sum(axis=0)
    means = np.full(n_bootstrap, total / count)
    # a replicate may miss every unit that has observations
    np.divide(sums[:, 0], sums[:, 1], out=means, where=sums[:, 1] > 0)
    return means


def draw_cell_counts(counts: IntArray, n_bootstrap: int, seed: Seed) -> IntArray:
    """Return how many units of each replicate fall into each cell, (n_bootstrap, n_cells).

    If only the cell of each unit matters, this is equivalent to weighting the units, but faster.

    Example:
        >>> draw_cell_counts(np.array([5, 0, 5]), n_bootstrap=2, seed=0)
        array([[6, 0, 4],
               [4, 0, 6]])
    """
    total = int(counts.sum())
    return np.random.default_rng(seed).multinomial(total, counts / total, n_bootstrap)


def draw_units(n_units: int, n_taken: int, n_bootstrap: int, seed: Seed) -> IntArray:
    """Return the indices of the units that each replicate contains, (n_bootstrap, n_taken).

    Drawing S − 1 of S trainings makes the variance of their mean unbiased.

    Example:
        >>> draw_units(3, 2, n_bootstrap=2, seed=0)
        array([[2, 1],
               [1, 0]])
    """
    return np.random.default_rng(seed).integers(0, n_units, (n_bootstrap, n_taken))


def shuffle_replicates(n_bootstrap: int, seed: Seed, n_orders: int = 1) -> list[IntArray]:
    """Return permutations that make two scores' replicates independent of each other.

    These are for scores that were resampled with the same random numbers but must not be paired.

    Example:
        >>> shuffle_replicates(4, seed=0)
        [array([2, 0, 1, 3])]
    """
    numbers = np.random.default_rng(seed)
    return [numbers.permutation(n_bootstrap) for _ in range(n_orders)]
