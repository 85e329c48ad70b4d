"""Compute robustness and overlap scores, with notes on their validity.

Accuracies are read by `accuracy_table`; `selection` selects corruptions by their scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from eyechart.core.arguments import as_number, as_text, as_texts, digits
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.overlap.overlap_settings import MIN_GAIN

Hits = NDArray[np.bool_]
"""Whether each prediction is correct; shape ([seeds,] models, tests, images)."""

MIN_CLEAN = 0.5
"""Clean accuracy, corrected for chance, below which robustness scores are not meaningful."""

GAIN_NOTE = "Training on {} improves"
"""Beginning of a note on a corruption, by which `OverlapMatrix.only` finds the note."""


@dataclass(frozen=True, eq=False)
class OverlapMatrix:
    """Overlaps of all pairs of corruptions.

    `matrix["fog", "snow"]` is the overlap of two corruptions. 0 means no overlap, and every
    corruption overlaps itself by 1. Values may exceed 1.

    Attributes:
        names: Names of the corruptions.
        scores: Overlaps (n, n); NaN if undetermined.
        gains: Gain in robustness to each corruption from training on it; None if unknown.
        min_gain: Minimum gain for overlaps to be determined.
        notes: Notes for the reader, one sentence each.

    Example:
        >>> import eyechart as ec
        >>> import numpy as np
        >>> matrix = ec.OverlapMatrix(("fog", "snow"), np.array([[1.0, 0.4], [0.4, 1.0]]))
        >>> float(matrix["fog", "snow"])
        0.4
        >>> list(matrix.pairs())
        [(0.4, 'fog', 'snow')]
    """

    names: tuple[str, ...]
    scores: FloatArray
    gains: FloatArray | None = None
    min_gain: float = MIN_GAIN
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        """Return the overlap of two named corruptions, or the array's element at an index."""
        if isinstance(key, tuple) and all(isinstance(name, str) for name in key):
            key = tuple(self.place(name) for name in key)
        return self.scores[key]

    def place(self, name: str) -> int:
        """Return the row and column index of a corruption."""
        if as_text(name, "name") not in self.names:
            raise unknown_name("corruption in the matrix:", name, self.names)
        return self.names.index(name)

    def pairs(self) -> Iterator[tuple[float, str, str]]:
        """Yield the overlap (NaN if undetermined) and the names of each pair of corruptions."""
        for one, two in combinations(range(len(self)), 2):
            yield float(self.scores[one, two]), self.names[one], self.names[two]

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Corruptions whose overlap with every other corruption is undetermined."""
        known = ~np.isnan(self.scores)
        # A corruption's overlap with itself is 1 by definition and says nothing about others.
        if len(self) > 1:
            known &= ~np.eye(len(self), dtype=bool)
        return tuple(name for name, row in zip(self.names, known, strict=True) if not row.any())

    def only(self, names: Sequence[str]) -> "OverlapMatrix":
        """Return the matrix restricted to these corruptions, in this order."""
        names = as_texts(names, "names")
        kept = [self.place(name) for name in names]
        # Also leave out notes on corruptions that are left out.
        gone = [GAIN_NOTE.format(name) for name in self.names if name not in names]
        notes = tuple(note for note in self.notes if not note.startswith(tuple(gone)))
        gains = None if self.gains is None else self.gains[kept]
        return OverlapMatrix(
            tuple(names), self.scores[np.ix_(kept, kept)], gains, self.min_gain, notes
        )


def robustness_scores(accuracies: ArrayLike, clean: ArrayLike) -> FloatArray:
    """Return R = A_c / A_clean, given accuracies in [0, 1] with the shape (…, models, tests).

    `clean` has the shape (…, models). R is NaN for a model with a clean accuracy of 0.
    """
    corrupted = np.asarray(accuracies, dtype=np.float64)
    start = np.asarray(clean, dtype=np.float64)[..., None]
    scores: FloatArray = np.full(corrupted.shape, np.nan)
    np.divide(corrupted, start, out=scores, where=start > 0)
    return scores


def overlap_scores(robustness: FloatArray, min_gain: float = MIN_GAIN) -> FloatArray:
    """Return overlaps (…, n, n) from robustness scores (…, 1 + n, n), standard model first.

    O(a, b) = max(0, ½ (g(a, b) / g(b, b) + g(b, a) / g(a, a))), where g(a, b) is the gain in
    robustness to b from training on a. O(a, b) is NaN if g(a, a) or g(b, b) does not exceed
    `min_gain`.
    """
    added = robustness[..., 1:, :] - robustness[..., :1, :]
    gains = np.diagonal(added, axis1=-2, axis2=-1)
    shares = np.full(added.shape, np.nan)
    # Comparisons with NaN are false, so unknown gains give NaN.
    np.divide(added, gains[..., None, :], out=shares, where=(gains > min_gain)[..., None, :])
    return np.maximum(0.0, (shares + np.swapaxes(shares, -1, -2)) / 2)


def overlap_matrix(
    robustness: ArrayLike, names: Sequence[str] | None = None, min_gain: float = MIN_GAIN
) -> OverlapMatrix:
    """Return the overlaps of all pairs of corruptions, from robustness scores R = A_c / A_clean.

    O(a, b) = max(0, ½ (g(a, b) / g(b, b) + g(b, a) / g(a, a))), where g(a, b) is the gain in
    robustness to b from training on a (as in the paper on ImageNet-NOC).

    Args:
        robustness: One row per model and one column per corruption on which models were tested.
            The first row is the standard model; the others are the models trained on each
            corruption, in the order of the columns.
        names: Names of the corruptions; "0", "1", … by default.
        min_gain: Minimum gain g(a, a) for overlaps with a to be determined.

    Returns:
        The matrix, with NaN for undetermined pairs.

    Example:
        >>> import eyechart as ec
        >>> robustness = [[0.5, 0.4], [0.9, 0.6], [0.6, 0.8]]
        >>> round(float(ec.overlap_matrix(robustness, ["fog", "snow"])["fog", "snow"]), 3)
        0.375
    """
    if not 0 <= as_number(min_gain, "min_gain") < 1:
        raise UsageError(f"min_gain must be in [0, 1), such as 0.02, got {digits(min_gain)}.")
    scores_by_model = _checked(robustness)
    count = scores_by_model.shape[1]
    titles = tuple(map(str, range(count))) if names is None else as_texts(names, "names")
    if len(titles) != count or len(set(titles)) != count:
        raise UsageError(
            f"names must be {count} different names, one for each column, got {len(set(titles))}."
        )
    # Row 0 is the standard model.
    gains: FloatArray = np.diagonal(scores_by_model[1:]) - scores_by_model[0]
    scores = overlap_scores(scores_by_model, min_gain)
    # The matrix is a frozen record; its array must not change either.
    scores.setflags(write=False)
    return OverlapMatrix(titles, scores, gains, min_gain, gain_notes(titles, gains, min_gain))


def cluster_order(scores: FloatArray) -> list[int]:
    """Return an order in which similar corruptions are neighbors (average linkage of 1 − overlap).

    Undetermined overlaps count as 0; corruptions without any overlap come last.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    apart = ~np.eye(len(matrix), dtype=bool)
    known = (~np.isnan(matrix) & apart).any(axis=1)
    kept = np.flatnonzero(known)
    lost = [int(row) for row in np.flatnonzero(~known)]
    if len(kept) < 3:
        return [*map(int, kept), *lost]
    # Overlaps above 1 would give negative distances.
    near = np.nan_to_num(matrix[np.ix_(kept, kept)]).clip(0, 1)
    distance = 1 - (near + near.T) / 2
    np.fill_diagonal(distance, 0)
    # Optimal leaf ordering puts similar corruptions of neighboring clusters side by side.
    tree = linkage(squareform(distance), "average", optimal_ordering=True)
    return [*(int(kept[leaf]) for leaf in leaves_list(tree)), *lost]


def gain_notes(names: Sequence[str], gains: FloatArray, min_gain: float) -> tuple[str, ...]:
    """Return one sentence for each corruption with too small a gain from training on it."""
    return tuple(
        f"{GAIN_NOTE.format(name)} the robustness to it by {gain:.3f}, which does not "
        f"exceed {min_gain:g}, so its overlaps are undetermined."
        for name, gain in zip(names, gains, strict=True)
        if not gain > min_gain
    )


def clean_notes(
    models: Sequence[str], clean: Sequence[float] | FloatArray, classes: int | None = None
) -> tuple[str, ...]:
    """Return a sentence if any model's clean accuracy is too low for robustness scores.

    A model that guesses is as accurate on corrupted images as on clean images, so R would be 1
    without any robustness. The limit is 0.5 after correction for chance, (A − 1/K) / (1 − 1/K), if
    the number of classes K is known.
    """
    chance = 0.0 if classes is None else 1 / classes
    # Inverse of the correction for chance, to print the limit as a plain accuracy.
    limit = chance + MIN_CLEAN * (1 - chance)
    low = [
        (float(accuracy), name)
        for name, accuracy in zip(models, clean, strict=True)
        if accuracy < limit
    ]
    if not low:
        return ()
    worst, name = min(low)
    subject = "1 model has" if len(low) == 1 else f"{len(low)} of {len(models)} models have"
    return (
        f"{subject} a clean accuracy below {limit:.2g} ({name}: {worst:.3f}), so robustness scores"
        " and overlaps are not meaningful: train longer.",
    )


def _checked(robustness: ArrayLike) -> FloatArray:
    try:
        table: FloatArray = np.asarray(robustness, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(
            "robustness must be a table of numbers with rows of equal length."
        ) from None
    if table.ndim != 2 or table.shape[1] < 1 or table.shape[0] != table.shape[1] + 1:
        raise UsageError(
            "robustness must have one more row than columns, starting with the standard model, got"
            f" shape {table.shape}."
        )
    if not (np.isfinite(table) & (table >= 0)).all():
        raise UsageError(
            f"robustness must contain scores A_c / A_clean of at least 0, got "
            f"{table[~(np.isfinite(table) & (table >= 0))][0]:g}."
        )
    return table
