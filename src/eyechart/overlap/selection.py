"""Which corruptions make a benchmark without overlaps: for a threshold, or for every threshold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.core.arguments import as_number
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.overlap.clique import cheapest_largest
from eyechart.overlap.matrix import OverlapMatrix

Name = TypeVar("Name", str, int)
"""What a corruption is called: by its name, or by its place 0, 1, … in an array without names."""

SYMMETRIC = 1e-9
"""By how much a score may differ from that of the same two the other way round."""


@dataclass(frozen=True)
class Selection(Generic[Name]):
    """The largest set of corruptions of which no two overlap by more than `threshold`.

    Corruptions are names, or indices from 0 if the scores came as an array without names.
    Among the largest it has the lowest mean overlap over its pairs, `mean_overlap`. `ties`: the
    other sets that are as large and overlap as little; `more_ties`: whether there are too many to
    list them all. `left_out`: corruptions that only undetermined scores keep out of `members`.
    """

    members: tuple[Name, ...]
    mean_overlap: float
    ties: tuple[tuple[Name, ...], ...]
    threshold: float
    left_out: tuple[Name, ...] = ()
    more_ties: bool = False

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class ThresholdRange(Generic[Name]):
    """A selection and the thresholds t for which it holds, low ≤ t < high; high may be infinite."""

    selection: Selection[Name]
    low: float
    high: float


@overload
def select_non_overlapping(matrix: OverlapMatrix, threshold: float) -> Selection[str]: ...
@overload
def select_non_overlapping(matrix: ArrayLike, threshold: float) -> Selection[int]: ...
def select_non_overlapping(
    matrix: OverlapMatrix | ArrayLike, threshold: float
) -> Selection[str] | Selection[int]:
    """Return the largest set of corruptions of which every two overlap by `threshold` or less.

    Exact: a maximum clique, by branch and bound. `matrix`: of overlap scores, symmetric; NaN for
    undetermined pairs, which never stand together. Of an `OverlapMatrix` the members are names, of
    an array indices from 0.
    """
    scores = as_matrix(matrix)
    limit = as_number(threshold, "threshold")
    if not limit >= 0:
        raise UsageError(f"The threshold must be 0 or more, got {limit:g}.")
    selection = _select_at(scores, limit)
    return selection if isinstance(matrix, OverlapMatrix) else _by_index(scores, selection)


def _by_index(matrix: OverlapMatrix, selection: Selection[str]) -> Selection[int]:
    def places(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(matrix.place(name) for name in names)

    return Selection(
        places(selection.members),
        selection.mean_overlap,
        tuple(map(places, selection.ties)),
        selection.threshold,
        places(selection.left_out),
        selection.more_ties,
    )


def _select_at(matrix: OverlapMatrix, threshold: float) -> Selection[str]:
    lowest = _lowest(matrix)
    if threshold < lowest[0]:
        raise UsageError(
            f"No two corruptions overlap by {threshold:g} or less: the lowest score is"
            f" {lowest[0]:.4g}, of {lowest[1]} and {lowest[2]}; choose a threshold of at least"
            f" {_up(lowest[0])}."
        )
    return _select(matrix, threshold)


@overload
def select_at_every_threshold(matrix: OverlapMatrix) -> tuple[ThresholdRange[str], ...]: ...
@overload
def select_at_every_threshold(matrix: ArrayLike) -> tuple[ThresholdRange[int], ...]: ...
def select_at_every_threshold(
    matrix: OverlapMatrix | ArrayLike,
) -> tuple[ThresholdRange[str], ...] | tuple[ThresholdRange[int], ...]:
    """Return all selections that there are, each with its range of thresholds, lowest first.

    Below the first of them no two corruptions may stand together.
    """
    scores = as_matrix(matrix)
    steps = _all_steps(scores)
    if isinstance(matrix, OverlapMatrix):
        return steps
    return tuple(
        ThresholdRange(_by_index(scores, step.selection), step.low, step.high) for step in steps
    )


def _all_steps(matrix: OverlapMatrix) -> tuple[ThresholdRange[str], ...]:
    lowest, high = _lowest(matrix)[0], inf
    known = np.unique([score for score, _, _ in matrix.pairs() if not np.isnan(score)])
    threshold, size = float(known[-1]), len(matrix)
    steps = []
    while True:
        selection = _select(matrix, threshold, at_most=size)
        # it stays the best until one of its own pairs, or of a tie's, is no longer allowed
        low = max(_highest(matrix, members) for members in (selection.members, *selection.ties))
        steps.append(ThresholdRange(_at(matrix, selection, low), low, high))
        if low <= lowest:
            return tuple(reversed(steps))
        high, size = low, len(selection)
        threshold = float(known[known < low][-1])


def as_matrix(matrix: OverlapMatrix | ArrayLike) -> OverlapMatrix:
    """Return the matrix itself, or one made of an array of scores; refuse what is none."""
    checked = matrix if isinstance(matrix, OverlapMatrix) else _named(matrix)
    check_scores(checked.scores, checked.names, "matrix")
    return checked


def check_scores(scores: FloatArray, names: Sequence[str], source: str) -> None:
    """Refuse scores that are negative, infinite, not symmetric, or not 1 with themselves."""
    known = np.where(np.isnan(scores), 0.0, scores)
    for pair in np.argwhere((known < 0) | np.isinf(known)):
        raise UsageError(
            f"{source} must hold overlap scores of 0 or more, got {scores[tuple(pair)]:g} for"
            f" {names[pair[0]]} and {names[pair[1]]}."
        )
    for one, two in np.argwhere(
        (np.abs(known - known.T) > SYMMETRIC) | (np.isnan(scores) != np.isnan(scores.T))
    ):
        raise UsageError(
            f"{source} must be symmetric, got {scores[one, two]:g} for {names[one]} and"
            f" {names[two]} and {scores[two, one]:g} the other way round."
        )
    diagonal = np.diag(scores)
    for (number,) in np.argwhere(np.abs(diagonal - 1) > SYMMETRIC):
        raise UsageError(
            f"{source} must hold 1 for a corruption with itself, got {diagonal[number]:g} for"
            f" {names[number]}."
        )


def _named(matrix: ArrayLike) -> OverlapMatrix:
    try:
        scores: FloatArray = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError("matrix must be a square table of numbers.") from None
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise UsageError(f"matrix must be square, got shape {scores.shape}.")
    return OverlapMatrix(tuple(map(str, range(len(scores)))), scores)


def _lowest(matrix: OverlapMatrix) -> tuple[float, str, str]:
    known = [pair for pair in matrix.pairs() if not np.isnan(pair[0])]
    if not known:
        raise UsageError(
            "A selection needs at least two corruptions whose overlap is determined, got none"
            f" among {len(matrix)}."
        )
    return min(known)


def _up(score: float) -> str:
    """Return a score in few digits, rounded up, so that it can be given as a threshold."""
    return f"{np.ceil(score * 1000) / 1000:g}"


def _select(matrix: OverlapMatrix, threshold: float, at_most: int | None = None) -> Selection[str]:
    together = _together(matrix, threshold)
    allowed = [sum(1 << int(column) for column in np.flatnonzero(row)) for row in together]
    cheapest = cheapest_largest(allowed, np.nan_to_num(matrix.scores), at_most)
    first, *ties = cheapest.sets
    return Selection(
        _names(matrix, first),
        _mean(matrix, first),
        tuple(_names(matrix, tie) for tie in ties),
        threshold,
        _left_out(matrix, first, threshold),
        cheapest.more,
    )


def _together(matrix: OverlapMatrix, threshold: float) -> NDArray[np.bool_]:
    """Return which two may stand together; NaN is not below anything."""
    together: NDArray[np.bool_] = matrix.scores <= threshold
    return together & ~np.eye(len(matrix), dtype=bool)


def _names(matrix: OverlapMatrix, places: Sequence[int]) -> tuple[str, ...]:
    return tuple(matrix.names[number] for number in places)


def _mean(matrix: OverlapMatrix, places: Sequence[int]) -> float:
    above = np.triu_indices(len(places), 1)
    return float(matrix.scores[np.ix_(places, places)][above].mean())


def _left_out(matrix: OverlapMatrix, members: Sequence[int], threshold: float) -> tuple[str, ...]:
    unknown = np.isnan(matrix.scores[:, members])
    unsure = unknown | (matrix.scores[:, members] <= threshold)
    return tuple(
        name
        for number, name in enumerate(matrix.names)
        if number not in members and unsure[number].all() and unknown[number].any()
    )


def _highest(matrix: OverlapMatrix, members: Sequence[str]) -> float:
    scores = matrix.only(members).scores
    return float(scores[np.triu_indices(len(members), 1)].max())


def _at(matrix: OverlapMatrix, selection: Selection[str], threshold: float) -> Selection[str]:
    """Return a selection as that of another threshold for which it holds."""
    places = [matrix.place(name) for name in selection.members]
    left_out = _left_out(matrix, places, threshold)
    return replace(selection, threshold=threshold, left_out=left_out)
