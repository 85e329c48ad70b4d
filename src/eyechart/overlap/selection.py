"""Select non-overlapping corruptions for a benchmark, at one threshold or at every threshold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from eyechart.core.arguments import as_number, digits
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.overlap.clique import cheapest_largest
from eyechart.overlap.matrix import OverlapMatrix

Name = TypeVar("Name", str, int)
"""Type that identifies a corruption: its name, or its index in an array without names."""

SYMMETRIC = 1e-9
"""Tolerance when checking that a matrix is symmetric and has a diagonal of 1."""


@dataclass(frozen=True)
class Selection(Generic[Name]):
    """Largest set of corruptions in which no pair overlaps by more than `threshold`.

    Corruptions are names, or indices if the scores were passed as an array.

    Attributes:
        members: Among the largest sets, the one with the lowest mean overlap.
        mean_overlap: Mean overlap over the pairs in `members`.
        ties: Other sets with the same size and mean overlap.
        threshold: Maximum overlap of a pair.
        left_out: Corruptions left out of `members` only because overlaps are undetermined.
        more_ties: Whether there are too many ties to list.

    Example:
        >>> import eyechart as ec
        >>> scores = [[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]
        >>> selection = ec.select_non_overlapping(scores, threshold=0.3)
        >>> selection.members, selection.mean_overlap, len(selection)
        ((0, 2), 0.1, 2)
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
class ThresholdRange:
    """A selection and the thresholds t, low ≤ t < high, that yield it; high may be infinite."""

    selection: Selection[str]
    low: float
    high: float


@overload
def select_non_overlapping(matrix: OverlapMatrix, threshold: float) -> Selection[str]: ...
@overload
def select_non_overlapping(matrix: ArrayLike, threshold: float) -> Selection[int]: ...
def select_non_overlapping(
    matrix: OverlapMatrix | ArrayLike, threshold: float
) -> Selection[str] | Selection[int]:
    """Return the largest set of corruptions in which all pairs overlap by at most `threshold`.

    The result is exact: a maximum clique, found by branch and bound.

    Args:
        matrix: Symmetric overlap scores, with NaN for undetermined pairs, which are never selected
            together.
        threshold: Maximum overlap of a pair.

    Returns:
        The selection, whose members are names for an `OverlapMatrix` and indices for an array.

    Raises:
        UsageError: If no pair is known to overlap by at most `threshold`.

    Example:
        >>> import eyechart as ec
        >>> robustness = [[0.5, 0.5, 0.5], [0.9, 0.9, 0.5], [0.9, 0.9, 0.6], [0.5, 0.5, 0.9]]
        >>> matrix = ec.overlap_matrix(robustness, ["fog", "snow", "blur"])
        >>> ec.select_non_overlapping(matrix, threshold=0.1).members
        ('fog', 'blur')
    """
    scores = matrix if isinstance(matrix, OverlapMatrix) else _named(matrix)
    check_scores(scores.scores, scores.names, "matrix")
    limit = as_number(threshold, "threshold")
    if not limit >= 0:
        raise UsageError(f"The threshold must be at least 0, got {limit:g}.")
    lowest, one, two = _lowest(scores)
    if limit < lowest:
        n_unknown = sum(bool(np.isnan(score)) for score, _, _ in scores.pairs())
        others = f"; the overlap of {count_of(n_unknown, 'other pair')} is undetermined"
        # Rounded up, so that it is valid as a threshold.
        valid = np.ceil(lowest * 1000) / 1000
        raise UsageError(
            f"No two corruptions {'are known to ' if n_unknown else ''}overlap by"
            f" {digits(limit)} or less: the lowest score is {lowest:.4g}, for {one} and {two};"
            f" choose a threshold of at least {valid:g}{others if n_unknown else ''}."
        )
    selection = _select(scores, limit, at_most=len(scores))
    if isinstance(matrix, OverlapMatrix):
        return selection

    def indices(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(scores.place(name) for name in names)

    return Selection(
        indices(selection.members),
        selection.mean_overlap,
        tuple(map(indices, selection.ties)),
        selection.threshold,
        indices(selection.left_out),
        selection.more_ties,
    )


def select_at_every_threshold(matrix: OverlapMatrix) -> tuple[ThresholdRange, ...]:
    """Return all selections with their ranges of thresholds, lowest first.

    At thresholds below the first range, no pair of corruptions is allowed.
    """
    check_scores(matrix.scores, matrix.names, "matrix")
    lowest, high = _lowest(matrix)[0], inf
    known = np.unique([score for score, _, _ in matrix.pairs() if not np.isnan(score)])
    # From the largest threshold down: sizes only decrease, which bounds the next search.
    threshold, size, low = float(known[-1]), len(matrix), inf
    steps = []
    while low > lowest:
        selection = _select(matrix, threshold, at_most=size)
        # The selection stays optimal until one of its pairs, or of a tie's pairs, exceeds the
        # threshold.
        pairs = np.triu_indices(len(selection), 1)
        low = max(
            float(matrix.only(members).scores[pairs].max())
            for members in (selection.members, *selection.ties)
        )
        indices = [matrix.place(name) for name in selection.members]
        left_out = _left_out(matrix, indices, low)
        selection = replace(selection, threshold=low, left_out=left_out)
        steps.append(ThresholdRange(selection, low, high))
        high, size = low, len(selection)
        # Selections change only at values of the scores, so that these are all thresholds to try.
        if low > lowest:
            threshold = float(known[known < low][-1])
    return tuple(reversed(steps))


def check_scores(scores: FloatArray, names: Sequence[str], source: str) -> None:
    """Raise a UsageError if scores are negative, infinite, asymmetric or not 1 on the diagonal."""
    known = np.where(np.isnan(scores), 0.0, scores)
    for pair in np.argwhere((known < 0) | np.isinf(known)):
        raise UsageError(
            f"{source} must contain overlap scores of at least 0, got {scores[tuple(pair)]:g} for "
            f"{names[pair[0]]} and {names[pair[1]]}."
        )
    for one, two in np.argwhere(
        (np.abs(known - known.T) > SYMMETRIC) | (np.isnan(scores) != np.isnan(scores.T))
    ):
        raise UsageError(
            f"{source} must be symmetric, got {digits(scores[one, two])} for {names[one]} and"
            f" {names[two]}, but {digits(scores[two, one])} for {names[two]} and {names[one]}."
        )
    diagonal = np.diag(scores)
    for (number,) in np.argwhere(np.abs(diagonal - 1) > SYMMETRIC):
        raise UsageError(
            f"{source} must be 1 on the diagonal, because a corruption fully overlaps itself, got "
            f"{digits(diagonal[number])} for {names[number]}."
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
            "A selection needs at least two corruptions whose overlap is determined, but all"
            f" overlaps of the {len(matrix)} corruptions are undetermined."
        )
    return min(known)


def _select(matrix: OverlapMatrix, threshold: float, at_most: int) -> Selection[str]:
    # Comparisons with NaN are false: undetermined pairs are never allowed.
    together = (matrix.scores <= threshold) & ~np.eye(len(matrix), dtype=bool)
    # Pairs with NaN are not allowed together, so their cost of 0 is never used.
    sets, has_more = cheapest_largest(together, np.nan_to_num(matrix.scores), at_most)
    # Sets are sorted, so that the choice among ties is reproducible.
    first, *ties = sets
    return Selection(
        tuple(matrix.names[index] for index in first),
        float(matrix.scores[np.ix_(first, first)][np.triu_indices(len(first), 1)].mean()),
        tuple(tuple(matrix.names[index] for index in tie) for tie in ties),
        threshold,
        _left_out(matrix, first, threshold),
        has_more,
    )


def _left_out(matrix: OverlapMatrix, members: Sequence[int], threshold: float) -> tuple[str, ...]:
    unknown = np.isnan(matrix.scores[:, members])
    # These would fit if every undetermined overlap were small enough.
    unsure = unknown | (matrix.scores[:, members] <= threshold)
    return tuple(
        name
        for number, name in enumerate(matrix.names)
        if number not in members and unsure[number].all() and unknown[number].any()
    )
