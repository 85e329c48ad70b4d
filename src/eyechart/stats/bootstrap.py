"""Bootstrap resampling: how often each replicate contains each unit, and sums over the units.

The caller chooses the units (images, subclasses, images × seeds, participants). All scores with the
same units and seed are resampled identically, because all resampling is done here.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Any

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
"""Maximum number of weights that are kept for the next score of the same units (256 MB, and as much
again ordered by unit)."""

CACHED_WEIGHTS = 500_000
"""Number of weights of a block that fits into a core's cache (2 MB in single precision)."""

MAX_EXACT = 2**24
"""Whole numbers up to this one are exact in single precision."""

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
    n_units: int,
    n_bootstrap: int,
    seed: Seed,
    max_block: int = MAX_BLOCK,
    dtype: type[np.floating[Any]] = np.float64,
) -> Iterator[tuple[slice, NDArray[np.floating[Any]]]]:
    """Yield the weights of `n_bootstrap` replicates in blocks, with the slice of each block.

    A table of all weights would not fit into memory for many units.

    Args:
        n_units: The number of units.
        n_bootstrap: The number of replicates.
        seed: The random seed.
        max_block: The maximum number of replicates in a block.
        dtype: The type of the weights, which are whole numbers.

    Yields:
        The slice of the block's replicates, and their weights (rows, n_units).

    Example:
        >>> [block.shape for _, block in weight_blocks(4, n_bootstrap=3, seed=0, max_block=2)]
        [(2, 4), (1, 4)]
    """
    # replicates are drawn in order, so the size of a block does not change them
    rows = max(1, min(max_block, MAX_WEIGHTS // max(1, n_units)))
    drawn = draw_weights(n_units, seed)
    kept = _kept_counts(n_units, n_bootstrap, seed)
    for start in range(0, n_bootstrap, rows):
        part = slice(start, min(start + rows, n_bootstrap))
        if kept is None:
            yield part, np.stack(list(islice(drawn, part.stop - start))).astype(dtype, copy=False)
        else:
            yield part, kept[part].astype(dtype)


def _kept_counts(n_units: int, n_bootstrap: int, seed: Seed) -> NDArray[np.uint8] | None:
    """Return the weights of all replicates, (n_bootstrap, n_units); None if they are too many."""
    if n_units * n_bootstrap > MAX_KEPT:
        return None
    # All scores of a run resample the same images: one thread draws, the others wait for it.
    with _DRAWING:
        return _draw_counts(n_units, n_bootstrap, seed)


@lru_cache(maxsize=2)
def _draw_counts(n_units: int, n_bootstrap: int, seed: Seed) -> NDArray[np.uint8]:
    """Return the weights of all replicates, (n_bootstrap, n_units), in an eighth of the memory."""
    # One byte is enough: the probability of drawing a unit 256 times is below 1e-500.
    counts = np.empty((n_bootstrap, n_units), dtype=np.uint8)
    for row, weights in zip(counts, draw_weights(n_units, seed), strict=False):
        row[:] = weights
    return counts


@lru_cache(maxsize=2)
def _counts_by_unit(n_units: int, n_bootstrap: int, seed: Seed) -> NDArray[np.uint8]:
    """Return the weights of all replicates, (n_units, n_bootstrap)."""
    return np.ascontiguousarray(_draw_counts(n_units, n_bootstrap, seed).T)


def resample_cells(
    unit: IntArray, cell: IntArray, shape: tuple[int, int], n_bootstrap: int, seed: Seed
) -> FloatArray:
    """Return how many samples of each replicate fall into each cell.

    Args:
        unit: The unit of each sample; its samples are drawn together.
        cell: The cell of each sample.
        shape: The number of units and the number of cells.
        n_bootstrap: The number of replicates.
        seed: The random seed.

    Returns:
        The numbers of samples, (n_bootstrap, n_cells).

    Example:
        >>> unit, cell = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1])
        >>> resample_cells(unit, cell, (4, 2), n_bootstrap=1, seed=0)  # weights 0, 1, 2, 1
        array([[1., 3.]])
    """
    n_units, n_cells = shape
    if n_units * n_bootstrap > MAX_KEPT:
        ones = csr_array((np.ones(len(unit)), (unit, cell)), shape=shape)
        return resample_sums(ones, n_bootstrap, seed)
    with _DRAWING:
        weights = _counts_by_unit(n_units, n_bootstrap, seed)
    sums = np.empty((n_cells, n_bootstrap))
    ends = np.cumsum(np.bincount(cell, minlength=n_cells))
    units_by_cell = np.split(unit[np.argsort(cell, kind="stable")], ends[:-1])
    # Adding up rows of bytes is several times as fast as a sparse product.
    for number, members in enumerate(units_by_cell):
        # the smallest type that cannot overflow
        total = np.min_scalar_type(np.iinfo(np.uint8).max * len(members))
        sums[number] = weights.take(members, axis=0).sum(axis=0, dtype=total)
    return np.ascontiguousarray(sums.T)


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
    if isinstance(values, csr_array) or not are_exact(values):
        for part, weights in weight_blocks(n_units, n_bootstrap, seed):
            sums[part] = (columns @ weights.T).T
        return sums
    # Sums of whole numbers are the same in half the memory and in any order. One product per
    # column reads the weights where they are; a product of matrices would copy them.
    exact = np.ascontiguousarray(columns, dtype=np.float32)
    max_block = max(1, CACHED_WEIGHTS // max(1, n_units))
    for part, weights in weight_blocks(n_units, n_bootstrap, seed, max_block, np.float32):
        for number, column in enumerate(exact):
            sums[part, number] = weights @ column
    return sums


def are_exact(values: FloatArray) -> bool:
    """Return whether weighted sums of these values are exact in single precision.

    Example:
        >>> are_exact(np.array([0.0, 3.0])), are_exact(np.array([0.5, 3.0]))
        (True, False)
    """
    # the weights of a replicate add up to the number of units
    if not values.size or values.min() < 0 or len(values) * values.max() >= MAX_EXACT:
        return False
    return bool((values == np.rint(values)).all())


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
