"""Robustness and overlap scores: numbers in, numbers out, and what must be known beside them.

Where accuracies come from is for `accuracy_table`; what is chosen by the scores is for `selection`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from eyechart.core.arguments import as_number, as_text, as_texts
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.overlap.overlap_settings import LEAST_GAIN

Hits = NDArray[np.bool_]
"""Whether each prediction is correct: (models, tests, images), perhaps with seeds before them."""

LEAST_CLEAN = 0.5
"""Clean accuracy, corrected for chance, below which a robustness score says little."""


@dataclass(frozen=True, eq=False)
class OverlapMatrix:
    """The overlap of every two corruptions: 1 with itself, 0 for none; it may exceed 1.

    `scores[i, j]`: of the names i and j; NaN: undetermined. `gains`: by how much training on each
    corruption raises the robustness to it, None where only the scores are known. `least_gain`:
    what that must exceed. `notes`: a sentence for each thing that a reader must know.
    """

    names: tuple[str, ...]
    scores: FloatArray
    gains: FloatArray | None = None
    least_gain: float = LEAST_GAIN
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        """Return the score of two names, or what an array has at that index."""
        if isinstance(key, tuple) and all(isinstance(name, str) for name in key):
            key = tuple(self.place(name) for name in key)
        return self.scores[key]

    def place(self, name: str) -> int:
        """Return which row and column is a corruption's."""
        if as_text(name, "name") not in self.names:
            raise unknown_name("corruption in the matrix:", name, self.names)
        return self.names.index(name)

    def pairs(self) -> Iterator[tuple[float, str, str]]:
        """Yield the score of every two different corruptions, NaN where it is undetermined."""
        for one, two in combinations(range(len(self)), 2):
            yield float(self.scores[one, two]), self.names[one], self.names[two]

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The corruptions without a single score with another one."""
        known = ~np.isnan(self.scores)
        if len(self) > 1:
            known &= ~np.eye(len(self), dtype=bool)
        return tuple(name for name, row in zip(self.names, known, strict=True) if not row.any())

    def only(self, names: Sequence[str]) -> "OverlapMatrix":
        """Return the matrix of these corruptions alone, in this order."""
        names = as_texts(names, "names")
        kept = [self.place(name) for name in names]
        gone = [f"Training on {name} adds" for name in self.names if name not in names]
        notes = tuple(note for note in self.notes if not note.startswith(tuple(gone)))
        gains = None if self.gains is None else self.gains[kept]
        return OverlapMatrix(
            tuple(names), self.scores[np.ix_(kept, kept)], gains, self.least_gain, notes
        )


def robustness_scores(accuracies: ArrayLike, clean: ArrayLike) -> FloatArray:
    """Return R = A_c / A_clean: of arrays (…, models, tests) and (…, models), shares 0…1.

    NaN for a model that gets no clean picture right.
    """
    corrupted = np.asarray(accuracies, dtype=np.float64)
    start = np.asarray(clean, dtype=np.float64)[..., None]
    scores: FloatArray = np.full(corrupted.shape, np.nan)
    np.divide(corrupted, start, out=scores, where=start > 0)
    return scores


def overlap_scores(robustness: FloatArray, least_gain: float = LEAST_GAIN) -> FloatArray:
    """Return the overlaps (…, n, n) of robustness scores (…, 1 + n, n), the standard model's first.

    O(a, b) = max(0, ½ (g(a, b) / g(b, b) + g(b, a) / g(a, a))), with g(a, b) what training on a
    adds to the robustness to b. NaN where g(a, a) or g(b, b) does not exceed `least_gain`.
    """
    added = robustness[..., 1:, :] - robustness[..., :1, :]
    gains = np.diagonal(added, axis1=-2, axis2=-1)
    shares = np.full(added.shape, np.nan)
    # NaN is not more than anything, so what is not known stays so
    np.divide(added, gains[..., None, :], out=shares, where=(gains > least_gain)[..., None, :])
    return np.maximum(0.0, (shares + np.swapaxes(shares, -1, -2)) / 2)


def seed_deviation(robustness: FloatArray, least_gain: float = LEAST_GAIN) -> FloatArray:
    """Return how far overlaps of several seeds are apart: (seeds, 1 + n, n) in, (n, n) out."""
    deviation: FloatArray = overlap_scores(robustness, least_gain).std(axis=0, ddof=1)
    return deviation


def overlap_matrix(
    robustness: ArrayLike, names: Sequence[str] | None = None, least_gain: float = LEAST_GAIN
) -> OverlapMatrix:
    """Return the overlap of every two corruptions, from robustness scores R = A_c / A_clean.

    `robustness`: rows trained on, columns tested on; the first row is the standard model's, the
    others in the order of the columns. `names`: of the corruptions; "0", "1", … without.
    """
    check_least_gain(least_gain)
    scores_by_model = _checked(robustness)
    count = scores_by_model.shape[1]
    titles = tuple(map(str, range(count))) if names is None else as_texts(names, "names")
    if len(titles) != count or len(set(titles)) != count:
        raise UsageError(
            f"names must be {count} different ones, one for each column, got {len(set(titles))}."
        )
    gains: FloatArray = np.diagonal(scores_by_model[1:]) - scores_by_model[0]
    scores = overlap_scores(scores_by_model, least_gain)
    scores.setflags(write=False)
    return OverlapMatrix(titles, scores, gains, least_gain, gain_notes(titles, gains, least_gain))


def cluster_order(scores: FloatArray) -> list[int]:
    """Return places so that similar ones are neighbours: average linkage of 1 − overlap.

    Undetermined scores count as no overlap; corruptions without any score come last.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    apart = ~np.eye(len(matrix), dtype=bool)
    known = (~np.isnan(matrix) & apart).any(axis=1)
    kept = np.flatnonzero(known)
    lost = [int(row) for row in np.flatnonzero(~known)]
    if len(kept) < 3:
        return [*map(int, kept), *lost]
    near = np.nan_to_num(matrix[np.ix_(kept, kept)]).clip(0, 1)
    distance = 1 - (near + near.T) / 2
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance), "average", optimal_ordering=True)
    return [*(int(kept[leaf]) for leaf in leaves_list(tree)), *lost]


def check_least_gain(least_gain: float) -> None:
    """Refuse a gain at which scores could be divided by 0 or less."""
    if not 0 <= as_number(least_gain, "least_gain") < 1:
        raise UsageError(f"The least gain must be in [0, 1), such as 0.02, got {least_gain:g}.")


def gain_notes(names: Sequence[str], gains: FloatArray, least_gain: float) -> tuple[str, ...]:
    """Return a sentence for each corruption on which training gains too little."""
    return tuple(
        f"Training on {name} adds {gain:.3f} to the robustness to it, not more than"
        f" {least_gain:g}: its overlaps are undetermined."
        for name, gain in zip(names, gains, strict=True)
        if not gain > least_gain
    )


def clean_notes(
    models: Sequence[str], clean: Sequence[float] | FloatArray, classes: int | None = None
) -> tuple[str, ...]:
    """Return a sentence if models know too little of clean pictures for a robustness score.

    A model that guesses is as good on corrupted pictures as on clean ones, and R calls it robust.
    Too little: an accuracy that, corrected for chance (A − 1/K) / (1 − 1/K) where the number of
    classes K is known, is below 0.5.
    """
    chance = 0.0 if classes is None else 1 / classes
    limit = chance + LEAST_CLEAN * (1 - chance)
    low = [
        (float(accuracy), name)
        for name, accuracy in zip(models, clean, strict=True)
        if accuracy < limit
    ]
    if not low:
        return ()
    worst, name = min(low)
    subject = "1 model is" if len(low) == 1 else f"{len(low)} of {len(models)} models are"
    return (
        f"{subject} right on less than {limit:.2g} of the clean pictures ({name}: {worst:.3f}):"
        " robustness scores and overlaps say little there, train longer.",
    )


def _checked(robustness: ArrayLike) -> FloatArray:
    try:
        table: FloatArray = np.asarray(robustness, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError("robustness must be a table of numbers, all rows as long.") from None
    if table.ndim != 2 or table.shape[1] < 1 or table.shape[0] != table.shape[1] + 1:
        raise UsageError(
            "robustness must have one row more than columns, the standard model's first, got shape"
            f" {table.shape}."
        )
    if not (np.isfinite(table) & (table >= 0)).all():
        raise UsageError(
            "robustness must hold scores A_c / A_clean of 0 or more, got"
            f" {table[~(np.isfinite(table) & (table >= 0))][0]:g}."
        )
    return table
