"""Answers as given to `fit_curve`: checked, and without those that have no visual change."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import brief
from eyechart.core.errors import UsageError
from eyechart.curves.bins import Numbers


@dataclass(frozen=True, eq=False)
class Answers:
    """Visual change and hit of each answer, and its cluster, if there are clusters.

    `fixed`: the left and the right anchor, where it is a number. `anchors`: where it is one value
    per answer. `left_out`: how many answers had no visual change. `weights`: how many answers each
    stands for, 1 on average; None: one each. `names`: of all clusters, sorted.
    """

    delta_v: Numbers
    hits: Numbers
    clusters: NDArray[Any] | None
    fixed: tuple[float | None, float | None]
    anchors: tuple[Numbers | None, Numbers | None]
    left_out: int
    weights: Numbers | None = None
    names: NDArray[Any] | None = None


def read_answers(
    delta_v: Any,
    hits: Any,
    anchor: Any,
    right_anchor: Any,
    clusters: Any,
    weights: Any = None,
    all_clusters: Any = None,
) -> Answers:
    """Return the answers with a visual change; refuse what is not one value in 0…1 for each."""
    change, right = _numbers("delta_v", delta_v), _numbers("hits", hits)
    clean, destroyed = _anchor("anchor", anchor), _anchor("right_anchor", right_anchor)
    groups = None if clusters is None else _labels("clusters", clusters)
    counted = None if weights is None else _numbers("weights", weights)
    for name, given in (
        ("hits", right), ("anchor", clean), ("right_anchor", destroyed), ("clusters", groups),
        ("weights", counted),
    ):  # fmt: skip
        if given is not None and given.ndim > 1:
            raise UsageError(f"{name} must be one value per answer, got shape {given.shape}.")
        if given is not None and given.ndim and len(given) != len(change):
            raise UsageError(
                f"{name} must have one value per answer: {len(change)}, got {len(given)}."
            )
    seen = ~np.isnan(change)
    _check_range("delta_v", change[seen])
    _check_range("hits", right)
    return Answers(
        change[seen],
        right[seen],
        None if groups is None else groups[seen],
        (_fixed(clean), _fixed(destroyed)),
        (_seen(clean, seen), _seen(destroyed, seen)),
        int((~seen).sum()),
        _weights(counted, seen),
        _names(None if groups is None else groups[seen], all_clusters),
    )


def _names(clusters: NDArray[Any] | None, every: Any) -> NDArray[Any] | None:
    """Return the names of all clusters, of those with answers if nobody says."""
    if clusters is None:
        return None
    own = np.unique(clusters)
    if every is None:
        return own
    names = np.unique(_labels("all_clusters", every))
    if names.dtype.kind != own.dtype.kind and {names.dtype.kind, own.dtype.kind} - set("iuf"):
        raise UsageError("all_clusters must be names of the same kind as clusters.")
    if not np.isin(own, names).all():
        raise UsageError("all_clusters must hold every one of clusters.")
    return names


def _weights(values: Numbers | None, seen: NDArray[np.bool_]) -> Numbers | None:
    if values is None:
        return None
    own = values[seen]
    if not (np.isfinite(own).all() and (own >= 0).all() and own.sum() > 0):
        raise UsageError("weights must be numbers from 0 up, not all of them 0.")
    return np.asarray(own * (len(own) / own.sum()))


def _anchor(name: str, given: Any) -> Numbers | None:
    if given is None:
        return None
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(f"{name} must be a number, or one per answer.") from None
    _check_range(name, values)
    return values


def _labels(name: str, given: Any) -> NDArray[Any]:
    """Return names of clusters as an array of one dimension that can be sorted."""
    try:
        labels = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"{name} must be a list of names or numbers.") from None
    if labels.ndim != 1 or labels.dtype.kind not in "biufUS":
        raise UsageError(f"{name} must be a list of names or numbers, got {brief(given)}.")
    return labels


def _fixed(values: Numbers | None) -> float | None:
    return float(values) if values is not None and not values.ndim else None


def _seen(values: Numbers | None, seen: NDArray[np.bool_]) -> Numbers | None:
    return values[seen] if values is not None and values.ndim else None


def _numbers(name: str, values: Any) -> Numbers:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(f"{name} must be numbers.") from None
    if numbers.ndim != 1 or not len(numbers):
        raise UsageError(f"{name} must be a list of numbers, one per answer.")
    return numbers


def _check_range(name: str, values: Numbers) -> None:
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise UsageError(f"{name} must lie in [0, 1].")
