"""Isotonic curves: the non-increasing rates closest to the bins' rates, joined by straight lines.

Samples in sparsely filled bins are used too. Flipping one sample from a miss to a hit never lowers
the curve anywhere, because isotonic regression preserves the order of its inputs.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray
from eyechart.stats.bins import Bins


def isotonic_curves(
    bins: Bins, is_used: NDArray[np.bool_], left: FloatArray | None, right: FloatArray | None
) -> PPoly:
    """Return the isotonic curves of many sets of bins, stacked along the last axis.

    The left anchor counts as much as an average bin: a curve starts there unless the first bins
    have higher rates. Curves are straight lines between the centers of bins, and from the last bin
    in use to the right anchor (to 0 without a right anchor). The area under this last line is
    midway between the smallest and the largest possible area.

    Args:
        bins: The samples, one set of counts per row.
        is_used: Bins that have samples in the data; in a replicate, some of them may be empty.
        left: The anchor of each curve at Δv = 0; None for no anchor.
        right: The anchor of each curve at Δv = 1, below which rates never fall; None for no anchor.
    """
    weights, sums = bins.counts * is_used, bins.hits * is_used
    if left is not None:
        # A larger weight would turn the noise of the anchor into a bias: rates above it would be
        # pulled down, those below it would not be pulled up.
        weight = weights.sum(axis=-1, keepdims=True) / len(is_used)
        weights = np.column_stack([weight, weights])
        sums = np.column_stack([weight * left[:, None], sums])
    rates = _regress(weights, sums)
    if right is not None:
        # Bins can lie below the anchor by chance, but a curve cannot rise to reach it.
        rates = np.maximum(rates, right[:, None])
    last_bin = int(np.flatnonzero(is_used)[-1])
    inner = rates[:, rates.shape[1] - len(is_used) :][:, : last_bin + 1]
    start = rates[:, 0] if left is not None else inner[:, 0]
    places = np.concatenate([[0.0], bins.centers[: last_bin + 1]])
    values = np.column_stack([start, inner])
    end_of_range = bins.edges[last_bin + 1]
    if end_of_range < 1:
        # The last bin was observed up to its edge, so that the extrapolated fall starts only there.
        places = np.append(places, end_of_range)
        values = np.column_stack([values, inner[:, -1]])
    # without an anchor 0 is the smallest possible rate beyond the observed range
    final = inner[:, -1] if end_of_range == 1 else np.zeros(len(rates))
    places = np.append(places, 1.0)
    values = np.column_stack([values, final if right is None else right])
    slopes = np.diff(values, axis=1) / np.diff(places)
    return PPoly(np.stack([slopes.T, values[:, :-1].T]), places)


def _regress(weights: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the non-increasing weighted least-squares rates of each row (min–max formula).

    The rate of cell j is the minimum over i ≤ j of the maximum over k ≥ j of the mean of the cells
    i to k. The rates of cells without weight are interpolated between their neighbors.
    """
    n_rows, n_cells = weights.shape
    # One row per cell, so that each step is one operation on all curves.
    total, hit = (np.zeros((n_cells + 1, n_rows)) for _ in range(2))
    np.cumsum(weights.T, axis=0, out=total[1:])
    np.cumsum(sums.T, axis=0, out=hit[1:])
    rates = np.full((n_cells, n_rows), np.inf)
    for first in range(n_cells):
        size = total[first + 1 :] - total[first]
        # Ranges without samples must not win the maximum; the minimum below leaves them out too.
        means = np.full(size.shape, -np.inf)
        np.divide(hit[first + 1 :] - hit[first], size, out=means, where=size > 0)
        backwards = means[::-1]
        np.maximum.accumulate(backwards, axis=0, out=backwards)
        means[means == -np.inf] = np.inf
        np.minimum(rates[first:], means, out=rates[first:])
    return _filled(np.ascontiguousarray(rates.T), weights > 0)


def _filled(rates: FloatArray, is_known: NDArray[np.bool_]) -> FloatArray:
    """Interpolate unknown rates linearly; extend the first and last known rates to the ends."""
    if is_known.all():
        return rates
    n_cells = rates.shape[1]
    cells = np.arange(n_cells)
    before = np.maximum.accumulate(np.where(is_known, cells, -1), axis=1)
    after = np.minimum.accumulate(np.where(is_known, cells, n_cells)[:, ::-1], axis=1)[:, ::-1]
    before = np.where(before < 0, after, before)
    after = np.where(after == n_cells, before, after)
    low, high = (np.take_along_axis(rates, index, axis=1) for index in (before, after))
    # 0 where a rate is known, because both neighbors are then the cell itself
    share = (cells - before) / np.maximum(after - before, 1)
    return np.asarray(low + share * (high - low))
