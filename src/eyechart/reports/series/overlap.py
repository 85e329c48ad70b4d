"""The overlap of a benchmark's corruptions, the selected corruptions, and their order.

The matrix is read from a file or a study; other modules draw it as a heat map.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from eyechart.core.phrases import listed
from eyechart.overlap.matrix import OverlapMatrix, cluster_order
from eyechart.overlap.matrix_file import read_matrix
from eyechart.reports.titles import corruption_title, corruption_words


@dataclass(frozen=True)
class OverlapPanel:
    """Overlap scores of all pairs: `scores[i][j]` is the score of `names[i]` and `names[j]`.

    Scores are at least 0, occasionally above 1, and NaN if undetermined. `selected`: the
    corruptions of the non-overlapping benchmark. `threshold`: two corruptions with a higher score
    are not both selected; None if unknown.
    """

    names: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    selected: tuple[str, ...] = ()
    threshold: float | None = None

    @property
    def has_undetermined(self) -> bool:
        """Whether any score is undetermined."""
        return any(math.isnan(score) for row in self.scores for score in row)


def read_overlap(path: Path) -> OverlapPanel:
    """Return the scores in a CSV file, which has names in its first row and first column.

    An empty cell is an undetermined score. An optional last column `selected` has yes or no for
    each corruption.
    """
    return as_overlap(*read_matrix(path))


def as_overlap(
    matrix: OverlapMatrix, selected: Sequence[str] = (), threshold: float | None = None
) -> OverlapPanel:
    """Return an overlap matrix in the form that charts and figures draw."""
    scores = tuple(tuple(map(float, row)) for row in matrix.scores)
    return OverlapPanel(matrix.names, scores, tuple(selected), threshold)


def clustered(overlap: OverlapPanel) -> OverlapPanel:
    """Return the same scores in an order in which overlapping corruptions are adjacent."""
    order = cluster_order(np.array(overlap.scores))
    return in_order(overlap, [overlap.names[index] for index in order])


def in_order(overlap: OverlapPanel, names: Sequence[str]) -> OverlapPanel:
    """Return the scores of only these corruptions, in this order; all must have scores."""
    at = {name: index for index, name in enumerate(overlap.names)}
    order = [at[name] for name in names]
    return replace(
        overlap,
        names=tuple(names),
        scores=tuple(tuple(overlap.scores[one][two] for two in order) for one in order),
        selected=tuple(name for name in overlap.selected if name in names),
    )


def overlap_titles(names: Sequence[str]) -> list[str]:
    """Return the titles of corruptions; ambiguous titles include the suite."""
    titles = [corruption_title(name) for name in names]
    return [
        f"{title} ({name.rpartition('/')[0].upper()})"
        if titles.count(title) > 1 and "/" in name
        else title
        for name, title in zip(names, titles, strict=True)
    ]


def overlap_labels(names: Sequence[str]) -> list[str]:
    """Return names of corruptions for use in sentences; full names if short names are ambiguous."""
    # The shortest form in which all names differ is used.
    labels = [corruption_words(name) for name in names]
    if len(set(labels)) < len(labels):
        labels = overlap_titles(names)
    return labels if len(set(labels)) == len(labels) else list(names)


def overlap_in_words(overlap: OverlapPanel) -> str:
    """Return a sentence on which corruptions overlap most and how much selected ones overlap."""
    highest = _highest(overlap, overlap.names)
    if highest is None:
        text = "all scores are undetermined"
    else:
        score, one, two = highest
        text = f"{corruption_words(one)} and {corruption_words(two)} overlap most, {score:.2f}"
    if overlap.selected:
        titles = listed([corruption_words(name) for name in overlap.selected])
        text += f"; the selected ones are {titles}"
    among = _highest(overlap, overlap.selected)
    if among is not None:
        text += f", which overlap by at most {among[0]:.2f}"
    if overlap.threshold is not None:
        text += f" (threshold {overlap.threshold:g})"
    if overlap.has_undetermined and highest is not None:
        text += "; gray cells are undetermined"
    return f"Overlap scores of {len(overlap.names)} corruptions: {text}."


def _highest(overlap: OverlapPanel, names: Sequence[str]) -> tuple[float, str, str] | None:
    """Return the highest score and its two corruptions; None if all scores are undetermined."""
    at = {name: index for index, name in enumerate(overlap.names)}
    known = []
    for one, two in combinations(names, 2):
        # A file need not be symmetric.
        both = (overlap.scores[at[one]][at[two]], overlap.scores[at[two]][at[one]])
        known += [(score, one, two) for score in both if not math.isnan(score)]
    return max(known, default=None)
