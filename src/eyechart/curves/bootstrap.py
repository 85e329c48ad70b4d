"""Resampling answers: by picture or participant, never by bin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from eyechart.curves.bins import Bins, Numbers, bin_index

AT_ONCE = 50
"""How many replicates of cluster weights are held at once."""


@dataclass(frozen=True)
class Drawn:
    """Resampled counts, and the left anchor of the answers and of each replicate, if there is one.

    The anchor is the mean over clusters, not answers, of whether the clean picture was a hit.
    """

    bins: list[Bins]
    anchor: float | None
    anchors: list[float | None]


def resampled(
    delta_v: Numbers,
    hits: Numbers,
    edges: Numbers,
    clean: Numbers | None,
    clusters: NDArray[Any] | None,
    replicates: int,
    seed: int,
) -> Drawn:
    """Return the counts of `replicates` sets drawn from the answers with replacement.

    `clean`: whether each answer's clean picture was a hit. `clusters`: which answers are drawn
    together; without them each stands for itself.
    """
    bins = len(edges) - 1
    place = bin_index(delta_v, edges)
    numbers = np.random.default_rng(seed)
    if clusters is None and np.isin(hits, (0, 1)).all() and _is_binary(clean):
        return _by_cells(place, hits, edges, clean, replicates, numbers)
    count = len(place)
    group = np.arange(count) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    groups = int(group.max()) + 1
    cells = csr_matrix(
        (np.concatenate([np.ones(count), hits]), (np.tile(group, 2), np.r_[place, place + bins])),
        shape=(groups, 2 * bins),
    )
    own = None if clean is None else np.bincount(group, clean) / np.bincount(group)
    drawn: list[Bins] = []
    anchors: list[float | None] = []
    for start in range(0, replicates, AT_ONCE):
        size = min(AT_ONCE, replicates - start)
        weights = numbers.multinomial(groups, np.full(groups, 1 / groups), size).astype(np.float64)
        counts = np.asarray((cells.T @ weights.T).T)
        drawn += [Bins(edges, row[:bins], row[bins:]) for row in counts]
        anchors += [None] * size if own is None else list(weights @ own / groups)
    return Drawn(drawn, None if own is None else float(own.mean()), anchors)


def _by_cells(
    place: NDArray[np.int64],
    hits: Numbers,
    edges: Numbers,
    clean: Numbers | None,
    replicates: int,
    numbers: np.random.Generator,
) -> Drawn:
    """Draw how many answers fall into each cell (bin, hit, clean hit): the same, far quicker."""
    bins = len(edges) - 1
    second = np.zeros_like(hits) if clean is None else clean
    cell = (place * 4 + 2 * hits + second).astype(np.int64)
    counts = np.bincount(cell, minlength=4 * bins)
    drawn = numbers.multinomial(len(place), counts / len(place), replicates)
    table = drawn.reshape(replicates, bins, 2, 2).astype(np.float64)
    own = [Bins(edges, each.sum(axis=(1, 2)), each[:, 1].sum(axis=1)) for each in table]
    if clean is None:
        return Drawn(own, None, [None] * replicates)
    shares = table[..., 1].sum(axis=(1, 2)) / len(place)
    return Drawn(own, float(clean.mean()), list(shares))


def _is_binary(values: Numbers | None) -> bool:
    return values is None or bool(np.isin(values, (0, 1)).all())
