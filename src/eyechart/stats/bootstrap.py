"""Bootstrap resampling: how often each replicate contains each unit, and sums over the units.

The caller chooses the units (images, subclasses, images × seeds, participants). All scores with the
same units and seed are resampled identically, because all resampling is done here.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import islice, pairwise
from math import frexp, isfinite
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from eyechart.core.arguments import as_int
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

MAX_SMALL = 1_000_000
"""Maximum number of weights that are drawn so fast that threads need not wait for each other."""

MAX_DRAWN = 800_000
"""Maximum number of units that are drawn before they are counted (6 MB)."""

CACHED_WEIGHTS = 500_000
"""Number of weights of a block that fits into a core's cache (0.5 MB as bytes, 4 MB as floats)."""

MAX_WEIGHT = 64
"""Maximum weight of a unit: the probability of drawing a unit more often is below 1e-89."""

DIGITS = 53
"""Number of binary digits of a float."""

Seed = int | tuple[int, ...]
"""The seed of a run, or a tuple that starts with it, which yields independent random numbers.

A trailing 0 has no effect: (3, 0) is equivalent to 3."""

_DRAWING: dict[tuple[int, int, Seed], Lock] = {}
"""One lock for each table of weights, so that drawing one does not delay the use of another."""


def check_bootstrap(n_bootstrap: object, seed: object = 0, low: int = 1) -> tuple[int, int]:
    """Return the number of replicates and the seed as ints; raise a UsageError if one is invalid.

    Example:
        >>> check_bootstrap(1000, seed=3)
        (1000, 3)
    """
    number = as_int(n_bootstrap, "n_bootstrap", low, MAX_BOOTSTRAP)
    return number, as_int(seed, "seed", 0, MAX_SEED)


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
        counts = np.bincount(numbers.integers(0, n_units, n_units), minlength=n_units)
        yield counts.astype(np.float64)


def weight_blocks(
    n_units: int,
    n_bootstrap: int,
    seed: Seed,
    max_block: int = MAX_BLOCK,
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the weights of `n_bootstrap` replicates in blocks, with the slice of each block.

    A table of all weights would not fit into memory for many units.

    Args:
        n_units: The number of units.
        n_bootstrap: The number of replicates.
        seed: The random seed.
        max_block: The maximum number of replicates in a block.

    Yields:
        The slice of the block's replicates, and their weights (rows, n_units).

    Example:
        >>> [block.shape for _, block in weight_blocks(4, n_bootstrap=3, seed=0, max_block=2)]
        [(2, 4), (1, 4)]
    """
    # replicates are drawn in order, so the size of a block does not change them
    rows = max(1, min(max_block, MAX_WEIGHTS // max(1, n_units)))
    drawn = draw_weights(n_units, seed)
    kept = _kept_weights(n_units, n_bootstrap, seed)
    for start in range(0, n_bootstrap, rows):
        part = slice(start, min(start + rows, n_bootstrap))
        if kept is None:
            yield part, np.stack(list(islice(drawn, part.stop - start)))
        else:
            yield part, kept.by_replicate[part].astype(np.float64)


class _Kept(NamedTuple):
    """The weights of all replicates as bytes: one row per replicate, and one row per unit."""

    by_replicate: NDArray[np.uint8]
    by_unit: NDArray[np.uint8]


def draw_ahead(n_units: int, n_bootstrap: int, seed: Seed) -> None:
    """Draw the weights that all scores of these units will need, unless they are too many.

    Example:
        >>> draw_ahead(100, n_bootstrap=50, seed=0)  # what needs these weights finds them drawn
    """
    _kept_weights(n_units, n_bootstrap, seed)


def _kept_weights(n_units: int, n_bootstrap: int, seed: Seed) -> _Kept | None:
    """Return the weights of all replicates; None if they are too many."""
    number = n_units * n_bootstrap
    if number > MAX_KEPT:
        return None
    if number <= MAX_SMALL:
        return _draw_small(n_units, n_bootstrap, seed)
    # All scores of a run resample the same images: one thread draws, the others wait for it.
    with _DRAWING.setdefault((n_units, n_bootstrap, seed), Lock()):
        return _draw_large(n_units, n_bootstrap, seed)


# Few units, such as participants, must not replace the images, which take longer to draw.
@lru_cache(maxsize=16)
def _draw_small(n_units: int, n_bootstrap: int, seed: Seed) -> _Kept:
    kept = _no_weights(n_units, n_bootstrap)
    drawn = np.random.default_rng(seed).integers(0, n_units, (n_bootstrap, n_units))
    _count(kept, 0, drawn)
    return kept


@lru_cache(maxsize=2)
def _draw_large(n_units: int, n_bootstrap: int, seed: Seed) -> _Kept:
    kept = _no_weights(n_units, n_bootstrap)
    numbers = np.random.default_rng(seed)
    rows = max(1, min(MAX_BLOCK, MAX_DRAWN // n_units))
    # Random numbers can only be drawn in order; another thread counts those of the last block.
    with ThreadPoolExecutor(1) as counting:
        counted: Future[None] | None = None
        for start in range(0, n_bootstrap, rows):
            drawn = numbers.integers(0, n_units, (min(rows, n_bootstrap - start), n_units))
            if counted is not None:
                # at most two blocks are in memory
                counted.result()
            counted = counting.submit(_count, kept, start, drawn)
    assert counted is not None
    counted.result()
    return kept


def _no_weights(n_units: int, n_bootstrap: int) -> _Kept:
    # One byte is enough for a weight.
    by_replicate = np.empty((n_bootstrap, n_units), dtype=np.uint8)
    return _Kept(by_replicate, np.empty((n_units, n_bootstrap), dtype=np.uint8))


def _count(kept: _Kept, start: int, drawn: IntArray) -> None:
    """Set the weights of the replicates from `start` on, whose units were `drawn`."""
    part = slice(start, start + len(drawn))
    for row, units in zip(kept.by_replicate[part], drawn, strict=True):
        row[:] = np.bincount(units, minlength=len(row))
    kept.by_unit[:, part] = kept.by_replicate[part].T


def _blocks_by_unit(
    n_units: int, n_bootstrap: int, seed: Seed
) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """Yield the weights with one row per unit, (n_units, rows); all in one block if kept."""
    kept = _kept_weights(n_units, n_bootstrap, seed)
    if kept is not None:
        yield slice(0, n_bootstrap), kept.by_unit
        return
    for part, weights in weight_blocks(n_units, n_bootstrap, seed):
        yield part, np.ascontiguousarray(weights.T, dtype=np.uint8)


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
    sums = np.empty((n_cells, n_bootstrap))
    ends = np.cumsum(np.bincount(cell, minlength=n_cells)).tolist()
    sorted_units = unit[np.argsort(cell, kind="stable")]
    units_by_cell = [sorted_units[slice(*part)] for part in pairwise([0, *ends])]
    for part, weights in _blocks_by_unit(n_units, n_bootstrap, seed):
        for number, members in enumerate(units_by_cell):
            sums[number, part] = _sum_rows(weights, members)
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
    is_exact = are_exact(values.data if isinstance(values, csr_array) else values, n_units)
    if is_exact or isinstance(values, csr_array):
        return _sums_by_column(values, n_bootstrap, seed, is_exact)
    sums = np.empty((n_bootstrap, n_columns))
    for part, weights in weight_blocks(n_units, n_bootstrap, seed):
        # unlike the operator @, `dot` lets other threads run while it multiplies few columns
        sums[part] = np.dot(values.T, weights.T).T
    return sums


def _sums_by_column(
    values: FloatArray | csr_array, n_bootstrap: int, seed: Seed, is_exact: bool
) -> FloatArray:
    """Return the sums of `resample_sums`, over the units that contribute to each column.

    `is_exact`: whether the sums are the same in any order; otherwise they are taken in order.
    """
    n_units, n_columns = values.shape
    sums = np.empty((n_columns, n_bootstrap))
    if isinstance(values, csr_array):
        by_column = values.tocsc()
        by_column.sum_duplicates()
        # half of the entries are misses, which contribute nothing
        by_column.eliminate_zeros()
        parts = [slice(*ends) for ends in pairwise(by_column.indptr.tolist())]
        members = [by_column.indices[part] for part in parts]
        contributions = [by_column.data[part] for part in parts]
    else:
        members = [np.flatnonzero(column) for column in values.T]
        contributions = [column[units] for column, units in zip(values.T, members, strict=True)]
    add = _sum_products if is_exact else _sum_in_order
    for part, weights in _blocks_by_unit(n_units, n_bootstrap, seed):
        for number, (units, given) in enumerate(zip(members, contributions, strict=True)):
            sums[number, part] = add(weights, units, given)
    return np.ascontiguousarray(sums.T)


def _sum_products(weights: NDArray[np.uint8], units: IntArray, values: FloatArray) -> FloatArray:
    """Return Σ value × weight over these units for each replicate; `weights` has a row per unit."""
    sums = np.zeros(weights.shape[1])
    if not len(units):
        return sums
    if (values == values[0]).all():
        if len(units) <= len(weights) / 2:
            return np.asarray(values[0] * _sum_rows(weights, units))
        # a replicate contains as many units as there are: the rest are fewer rows to add up
        is_other = np.ones(len(weights), dtype=np.bool_)
        is_other[units] = False
        n_others = _sum_rows(weights, np.flatnonzero(is_other))
        return np.asarray(values[0] * (len(weights) - n_others))
    for part in _cached_parts(len(units), weights.shape[1], len(units)):
        sums += values[part] @ weights.take(units[part], axis=0).astype(np.float64)
    return sums


def _sum_in_order(weights: NDArray[np.uint8], units: IntArray, values: FloatArray) -> FloatArray:
    """Return the same as `_sum_products`, adding one unit after the other."""
    sums = np.zeros(weights.shape[1])
    for part in _cached_parts(len(units), weights.shape[1], len(units)):
        products = values[part, None] * weights.take(units[part], axis=0)
        products[0] += sums
        # along the first axis NumPy adds row by row, so that all replicates are rounded alike
        sums = products.sum(axis=0)
    return sums


def _sum_rows(weights: NDArray[np.uint8], units: IntArray) -> FloatArray:
    """Return the sum over the rows of these units, which may be repeated."""
    sums = np.zeros(weights.shape[1])
    # Adding up rows of bytes in 16 bits is several times as fast as a product.
    for part in _cached_parts(len(units), weights.shape[1], np.iinfo(np.uint16).max // MAX_WEIGHT):
        sums += weights.take(units[part], axis=0).sum(axis=0, dtype=np.uint16)
    return sums


def _cached_parts(n_rows: int, n_columns: int, max_rows: int) -> Iterator[slice]:
    """Yield slices of at most `max_rows` rows whose weights fit into a core's cache."""
    size = max(1, min(max_rows, CACHED_WEIGHTS // n_columns))
    return (slice(start, start + size) for start in range(0, n_rows, size))


def are_exact(values: FloatArray, n_units: int) -> bool:
    """Return whether sums of these values over a replicate are exact, in whatever order.

    They are if every value is a multiple of some power of 2, and small enough for all sums to have
    no more binary digits than a float.

    Example:
        >>> are_exact(np.array([0.5, -3.0]), n_units=100), are_exact(np.array([0.1, 3.0]), 100)
        (True, False)
    """
    # the weights of a replicate add up to the number of units
    largest = float(n_units * max(values.max(initial=0), -values.min(initial=0)))
    if not isfinite(largest):
        return False
    # all sums are below 2^exponent
    _, exponent = frexp(largest)
    # the power of 2 is kept finite for numbers that are all close to 0
    in_last_digits = values * 2.0 ** min(DIGITS - exponent, 1023)
    return bool((in_last_digits == np.rint(in_last_digits)).all())


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
