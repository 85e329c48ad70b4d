"""The samples of `fit_curve`, validated, their anchors, and their bootstrap replicates.

The weights of replicates come from `bootstrap`; images or participants are resampled, never bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from eyechart.core.arguments import as_within, short_repr
from eyechart.core.arrays import FloatArray, IntArray, places_in
from eyechart.core.errors import UsageError
from eyechart.stats.bins import Bins, bin_index
from eyechart.stats.bootstrap import (
    CACHED_WEIGHTS,
    MAX_BLOCK,
    are_exact,
    draw_cell_counts,
    resample_cells,
    resample_sums,
    weight_blocks,
)
from eyechart.stats.curve_settings import RIGHT_ANCHORS

Names: TypeAlias = NDArray[np.generic]
"""Names of clusters: strings or numbers."""

Anchor: TypeAlias = ArrayLike | None
"""A rate at one end of the curve, or whether each sample is a hit there; None if unknown."""


@dataclass(frozen=True, eq=False)
class CurveSamples:
    """The visual change, hit and (optional) cluster of each sample.

    Attributes:
        fixed: the left and right anchors that are numbers; None for the others.
        anchors: the left and right anchors that have one value per sample; None for the others.
        left_out: the number of samples whose visual change is undefined.
        weights: the weight of each sample, 1 on average; None if all are equal.
        names: the names of all clusters, sorted.
    """

    delta_v: FloatArray
    hits: FloatArray
    clusters: Names | None
    fixed: tuple[float | None, float | None]
    anchors: tuple[FloatArray | None, FloatArray | None]
    left_out: int
    weights: FloatArray | None = None
    names: Names | None = None


def read_samples(
    delta_v: ArrayLike,
    hits: ArrayLike,
    *,
    anchors: tuple[Anchor, Anchor] = (None, None),
    clusters: ArrayLike | None = None,
    all_clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> CurveSamples:
    """Return the samples with a defined visual change; raise a UsageError for invalid values.

    Example:
        >>> samples = read_samples([0.1, float("nan")], [1, 0])
        >>> samples.hits.tolist(), samples.left_out
        ([1.0], 1)
    """
    change, is_hit = _numbers("delta_v", delta_v), _numbers("hits", hits)
    clean, destroyed = _anchor("anchor", anchors[0]), _anchor("right_anchor", anchors[1])
    groups = None if clusters is None else _labels("clusters", clusters)
    counted = None if weights is None else _numbers("weights", weights)
    columns: dict[str, NDArray[np.generic] | None] = {
        "hits": is_hit,
        "anchor": clean,
        "right_anchor": destroyed,
        "clusters": groups,
        "weights": counted,
    }
    for name, column in columns.items():
        if column is not None and column.ndim > 1:
            raise UsageError(
                f"{name} must be a list with one value per sample, got shape {column.shape}."
            )
        if column is not None and column.ndim and len(column) != len(change):
            raise UsageError(
                f"{name} must have one value per sample ({len(change)}), got {len(column)}."
            )
    # images whose Δv is undefined are counted, but cannot be binned
    seen = ~np.isnan(change)
    _check_range("delta_v", change[seen])
    _check_range("hits", is_hit)
    kept = None if groups is None else groups[seen]
    return CurveSamples(
        delta_v=change[seen],
        hits=is_hit[seen],
        clusters=kept,
        fixed=(_fixed(clean), _fixed(destroyed)),
        anchors=(_seen(clean, seen), _seen(destroyed, seen)),
        left_out=int((~seen).sum()),
        weights=_weights(counted, seen),
        names=_names(kept, all_clusters),
    )


def _names(clusters: Names | None, all_clusters: ArrayLike | None) -> Names | None:
    """Return the sorted names of all clusters, by default the names in `clusters`."""
    if clusters is None:
        return None
    if all_clusters is None:
        return np.unique(clusters)
    names = _labels("all_clusters", all_clusters)
    # usually sorted already, by the first of many curves with the same clusters
    if not np.greater(names[1:], names[:-1]).all():
        names = np.unique(names)
    kinds = {names.dtype.kind, clusters.dtype.kind}
    # integers and floats can be compared, text and numbers cannot
    if len(kinds) > 1 and kinds - set("iuf"):
        raise UsageError("all_clusters must have the same type as clusters.")
    if not np.isin(clusters, names).all():
        raise UsageError("all_clusters must contain every cluster in clusters.")
    return names


def _weights(values: FloatArray | None, seen: NDArray[np.bool_]) -> FloatArray | None:
    if values is None:
        return None
    kept = values[seen]
    if not (np.isfinite(kept).all() and (kept >= 0).all() and kept.sum() > 0):
        raise UsageError("weights must be non-negative numbers, not all 0.")
    # scaled to a mean of 1, so that minimum counts keep their meaning
    return np.asarray(kept * (len(kept) / kept.sum()))


def _anchor(name: str, anchor: Anchor) -> FloatArray | None:
    if anchor is None:
        return None
    try:
        values = np.asarray(anchor, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(f"{name} must be a number or a list with one number per sample.") from None
    _check_range(name, values)
    return values


def _labels(name: str, values: ArrayLike) -> Names:
    """Return the names of clusters as a one-dimensional array that can be sorted."""
    try:
        labels: Names = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"{name} must be a list of names or numbers.") from None
    if labels.ndim != 1 or labels.dtype.kind not in "biufUS":
        raise UsageError(f"{name} must be a list of names or numbers, got {short_repr(values)}.")
    return labels


def _fixed(values: FloatArray | None) -> float | None:
    return float(values) if values is not None and not values.ndim else None


def _seen(values: FloatArray | None, seen: NDArray[np.bool_]) -> FloatArray | None:
    return values[seen] if values is not None and values.ndim else None


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(f"{name} must be numbers.") from None
    if numbers.ndim != 1 or not len(numbers):
        raise UsageError(f"{name} must be a list of numbers, one per sample.")
    return numbers


def _check_range(name: str, values: FloatArray) -> None:
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise UsageError(f"{name} must be in [0, 1].")


_DIGESTING = Lock()

MIN_BLOCK = 10
"""Minimum number of replicates that are counted together."""


@dataclass(frozen=True)
class Draws:
    """Key that determines the bootstrap weights; `clusters` is a digest of the clusters' names.

    Replicate i of two curves has the same weight for each cluster if their keys are equal and
    `clusters` is not None, even if their samples differ.
    """

    seed: int
    n_bootstrap: int
    clusters: str | None

    def pairs_with(self, other: "Draws") -> bool:
        """Return whether two curves with these keys were resampled with the same weights."""
        # Without clusters, a weight belongs to a sample, and two curves have different samples.
        return self.clusters is not None and self == other


ReplicateBins: TypeAlias = tuple[
    Bins, tuple[float | None, float | None], tuple[FloatArray | None, FloatArray | None]
]
"""The counts of the replicates, one row each, and the anchors of the samples and replicates.

An anchor is a mean over the samples; it is None if no values were given for it.
"""


def draws_of(names: Names | None, n_bootstrap: int, seed: int) -> Draws:
    """Return the key that determines the bootstrap weights, for clusters with these names.

    Example:
        >>> names, others = np.array(["a", "b"]), np.array(["a", "c"])
        >>> draws_of(names, 100, seed=0).pairs_with(draws_of(others, 100, seed=0))
        False
    """
    if names is None:
        return Draws(seed, n_bootstrap, None)
    # One thread computes the digest, which all of them need.
    with _DIGESTING:
        return Draws(seed, n_bootstrap, _digest(names.dtype.str, names.tobytes()))


# Cached, because all curves of a run have the same clusters.
@lru_cache(maxsize=8)
def _digest(dtype: str, names: bytes) -> str:
    """Return a digest of the names of clusters, given as the bytes of an array."""
    array = np.frombuffer(names, dtype)
    # the kind of name counts: "1" and 1 are different clusters
    text = "\0".join([array.dtype.kind, *map(str, array.tolist())])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def resample_bins(
    samples: CurveSamples, edges: FloatArray, n_bootstrap: int, seed: int
) -> ReplicateBins:
    """Return the bins of `n_bootstrap` bootstrap replicates of the samples.

    Samples of one cluster are drawn together; without clusters each sample is its own cluster. How
    often a cluster is drawn depends only on the seed and on its position among all clusters,
    including clusters without a sample here, so that replicates of different corruptions can be
    paired.

    Example:
        >>> samples = read_samples([0.1, 0.2, 0.9], [1, 0, 1])
        >>> resample_bins(samples, np.array([0.0, 0.5, 1.0]), 2, seed=0)[0].counts.sum(axis=1)
        array([3., 3.])
    """
    # without clusters and weights only counts per cell matter
    binary = all(_is_binary(values) for values in (samples.hits, *samples.anchors))
    if samples.clusters is None and binary and samples.weights is None:
        return _by_cells(samples, edges, n_bootstrap, seed)
    n_bins, n_samples = len(edges) - 1, len(samples.delta_v)
    bin_of = bin_index(samples.delta_v, edges)
    if samples.clusters is None or samples.names is None:
        unit, n_units = np.arange(n_samples), n_samples
    else:
        # all clusters of the run are drawn, also those without a sample of this corruption
        unit, n_units = places_in(samples.names, samples.clusters), len(samples.names)
    weights = np.ones(n_samples) if samples.weights is None else samples.weights
    sizes: FloatArray = np.bincount(unit, weights, n_units).astype(np.float64)
    anchor_sums: list[FloatArray | None] = [
        None if end is None else np.bincount(unit, end * weights, n_units).astype(np.float64)
        for end in samples.anchors
    ]
    units = _Units(unit, sizes, anchor_sums, n_bootstrap, seed)
    if samples.weights is None and _is_binary(samples.hits):
        counts, ends = _resample_whole(units, bin_of + n_bins * (samples.hits == 1), n_bins)
    else:
        counts, ends = _resample_weighted(units, weights, samples.hits, bin_of, n_bins)
    left, right = anchor_sums
    return (
        Bins(edges, counts[:, :n_bins], counts[:, n_bins:]),
        (_share(left, sizes), _share(right, sizes)),
        (None if left is None else ends[0], None if right is None else ends[1]),
    )


@dataclass(frozen=True, eq=False)
class _Units:
    """The clusters that are resampled.

    Attributes:
        unit: the cluster of each sample.
        sizes: the sum of weights of each cluster.
        anchor_sums: the weighted sum of the anchors of each cluster; None for no anchor.
        n_bootstrap: the number of replicates.
        seed: the random seed.
    """

    unit: IntArray
    sizes: FloatArray
    anchor_sums: Sequence[FloatArray | None]
    n_bootstrap: int
    seed: int


def _resample_whole(units: _Units, cell: IntArray, n_bins: int) -> tuple[FloatArray, FloatArray]:
    """Return counts and hits (n_bootstrap, 2 n_bins) and anchors (2, n_bootstrap) of replicates.

    `cell` is the bin of a miss, and the bin plus `n_bins` of a hit. All sums of counts are exact.
    """
    n_units, n_bootstrap, seed = len(units.sizes), units.n_bootstrap, units.seed
    counts = resample_cells(units.unit, cell, (n_units, 2 * n_bins), n_bootstrap, seed)
    totals = counts.sum(axis=1)
    counts[:, :n_bins] += counts[:, n_bins:]
    ends = np.zeros((2, n_bootstrap))
    # the size of a block determines how sums are rounded that are not exact
    n_rows = max(MIN_BLOCK, min(MAX_BLOCK, CACHED_WEIGHTS // n_units))
    for side, sums in enumerate(units.anchor_sums):
        if sums is None:
            continue
        if are_exact(sums, n_units):
            ends[side] = resample_sums(sums[:, None], n_bootstrap, seed)[:, 0]
        else:
            for part, drawn in weight_blocks(n_units, n_bootstrap, seed, n_rows):
                # unlike the operator @, `dot` lets other threads run meanwhile
                ends[side, part] = np.dot(drawn, sums)
    # a replicate may draw only clusters without samples here
    return counts, ends / np.maximum(totals, 1e-12)


def _resample_weighted(
    units: _Units, weights: FloatArray, hits: FloatArray, bin_of: IntArray, n_bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return the same as `_resample_whole` for samples with weights, or hits between 0 and 1."""
    n_units, n_bootstrap, seed = len(units.sizes), units.n_bootstrap, units.seed
    values = np.concatenate([weights, hits * weights])
    place = (np.tile(units.unit, 2), np.r_[bin_of, bin_of + n_bins])
    cells = csr_array((values, place), shape=(n_units, 2 * n_bins))
    counts = resample_sums(cells, n_bootstrap, seed)
    ends = np.empty((2, n_bootstrap))
    for part, drawn in weight_blocks(n_units, n_bootstrap, seed):
        # a replicate may draw only clusters without samples here
        sizes = np.maximum(np.dot(drawn, units.sizes), 1e-12)
        for side, sums in enumerate(units.anchor_sums):
            if sums is not None:
                ends[side, part] = np.dot(drawn, sums) / sizes
    return counts, ends


def _by_cells(
    samples: CurveSamples, edges: FloatArray, n_bootstrap: int, seed: int
) -> ReplicateBins:
    """Resample like `resample_bins`, but faster, using counts of samples with equal values."""
    n_bins, n_samples = len(edges) - 1, len(samples.delta_v)
    left, right = samples.anchors
    cell = bin_index(samples.delta_v, edges) * 4 + 2 * samples.hits + (0 if left is None else left)
    # split by the right anchor only if there is one: empty cells consume random numbers too
    if right is not None:
        cell = cell * 2 + right
    last = 1 if right is None else 2
    counts = np.bincount(cell.astype(np.int64), minlength=4 * last * n_bins)
    drawn = draw_cell_counts(counts, n_bootstrap, seed)
    table = drawn.reshape(n_bootstrap, n_bins, 2, 2, last).astype(np.float64)
    bins = Bins(edges, table.sum(axis=(2, 3, 4)), table[:, :, 1].sum(axis=(2, 3)))
    lefts = table[:, :, :, 1].sum(axis=(1, 2, 3)) / n_samples
    rights = table[..., last - 1].sum(axis=(1, 2, 3)) / n_samples
    return (
        bins,
        (_mean(left), _mean(right)),
        (None if left is None else lefts, None if right is None else rights),
    )


def _share(sums: FloatArray | None, sizes: FloatArray) -> float | None:
    return None if sums is None else float(sums.sum() / sizes.sum())


def _mean(values: FloatArray | None) -> float | None:
    return None if values is None else float(values.mean())


def _is_binary(values: FloatArray | None) -> bool:
    return values is None or bool(np.isin(values, (0, 1)).all())


def check_right_anchor(anchor: str | float) -> None:
    """Raise a UsageError unless this is a valid right anchor.

    Example:
        >>> check_right_anchor("chance")
    """
    if isinstance(anchor, str) and anchor not in RIGHT_ANCHORS:
        raise UsageError(
            f"right_anchor must be {', '.join(RIGHT_ANCHORS)} or a number in [0, 1], got"
            f" {short_repr(anchor)}."
        )
    if not isinstance(anchor, str):
        as_within(anchor, "right_anchor", 0, 1)


def right_end(
    anchor: str | float,
    start: float | None,
    chance: float,
    measured: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> float | FloatArray | None:
    """Return the right anchor for `fit_curve`, or None if `anchor` is "none".

    Args:
        anchor: One of RIGHT_ANCHORS, or a rate in [0, 1].
        start: The rate at Δv = 0, which a falling curve cannot exceed; None if unknown.
        chance: The hit rate of random guessing.
        measured: Whether the prediction for each destroyed image is a hit. If None, "measured"
            means chance.
        weights: The weight of each value of `measured`.

    Returns:
        A rate, or one value per image; None if curves have no right anchor.

    Example:
        >>> right_end("chance", start=0.9, chance=0.0625)
        0.0625
    """
    check_right_anchor(anchor)
    if anchor == "none":
        return None
    if anchor == "measured" and measured is not None:
        # a curve cannot rise: above its start, the start itself is the anchor
        is_falling = start is None or np.average(measured, weights=weights) <= start
        return measured if is_falling else start
    # "measured" without measurements means chance, as for humans, who were not shown destroyed
    # images
    end = chance if isinstance(anchor, str) else float(anchor)
    return end if start is None else min(start, end)
