"""The samples of `fit_curve`, validated, without samples whose visual change is undefined.

The module `bins` counts the samples, and `replicates` resamples them.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.core.arguments import brief
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError

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
    """Return the samples with a defined visual change; raise a UsageError for invalid values."""
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
        raise UsageError(f"{name} must be a list of names or numbers, got {brief(values)}.")
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
