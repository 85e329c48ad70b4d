"""The bins and anchors of bootstrap replicates: resampled by image or participant, never by bin.

The weights come from `stats.bootstrap`; the curves of replicates are fitted elsewhere.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from eyechart.curves.bins import Bins, Numbers, bin_index
from eyechart.stats.bootstrap import draw_cell_counts, weight_blocks


@dataclass(frozen=True)
class Draws:
    """What the weights of the replicates depend on; `clusters` is a digest of their names.

    Replicate i of two curves has the same weight for each cluster if both have equal draws with
    clusters, whatever their answers are.
    """

    seed: int
    replicates: int
    clusters: str | None

    def pairs_with(self, other: "Draws") -> bool:
        """Return whether replicates of both were drawn with the same weights."""
        return self.clusters is not None and self == other


@dataclass(frozen=True)
class Drawn:
    """Resampled counts, a row for each replicate, and the anchors of the answers and of each.

    An anchor is the mean over answers, as the curve is; None where no values were given for it.
    """

    bins: Bins
    anchors: tuple[float | None, float | None]
    replicate_anchors: tuple[Numbers | None, Numbers | None]


def draws_of(names: NDArray[Any] | None, replicates: int, seed: int) -> Draws:
    """Return the record of what these replicates' weights depend on: the names of all clusters."""
    if names is None:
        return Draws(seed, replicates, None)
    text = "\0".join([names.dtype.kind, *map(str, names.tolist())])
    return Draws(seed, replicates, blake2b(text.encode(), digest_size=16).hexdigest())


def resampled(
    delta_v: Numbers,
    hits: Numbers,
    edges: Numbers,
    anchors: tuple[Numbers | None, Numbers | None],
    clusters: NDArray[Any] | None,
    names: NDArray[Any] | None,
    replicates: int,
    seed: int,
    weights: Numbers | None = None,
) -> Drawn:
    """Return the counts of `replicates` sets drawn from the answers with replacement.

    `anchors`: whether the answers to each one's clean and destroyed picture were hits. `clusters`:
    which answers are drawn together; without them each stands for itself. `names`: of all clusters
    that there are, sorted, also of those without an answer here. How often a cluster is drawn
    depends on nothing but the seed and its place among them.
    `weights`: how many answers each stands for.
    """
    bins = len(edges) - 1
    place = bin_index(delta_v, edges)
    binary = all(_is_binary(each) for each in (hits, *anchors))
    if clusters is None and binary and weights is None:
        return _by_cells(place, hits, edges, anchors, replicates, seed)
    count = len(place)
    if clusters is None or names is None:
        group, groups = np.arange(count), count
    else:
        group, groups = np.searchsorted(names, clusters), len(names)
    each: Numbers = np.ones(count) if weights is None else weights
    cells = csr_matrix(
        (np.concatenate([each, hits * each]), (np.tile(group, 2), np.r_[place, place + bins])),
        shape=(groups, 2 * bins),
    ).T.tocsr()
    sizes: Numbers = np.bincount(group, each, groups).astype(np.float64)
    own: list[Numbers | None] = [
        None if end is None else np.bincount(group, end * each, groups).astype(np.float64)
        for end in anchors
    ]
    counts = np.empty((replicates, 2 * bins))
    ends = np.empty((2, replicates))
    for part, drawn in weight_blocks(groups, replicates, seed):
        counts[part] = (cells @ drawn.T).T
        for side, sums in enumerate(own):
            if sums is not None:
                ends[side, part] = drawn @ sums / np.maximum(drawn @ sizes, 1e-12)
    return Drawn(
        Bins(edges, counts[:, :bins], counts[:, bins:]),
        (_share(own[0], sizes), _share(own[1], sizes)),
        (None if own[0] is None else ends[0], None if own[1] is None else ends[1]),
    )


def _by_cells(
    place: NDArray[np.int64],
    hits: Numbers,
    edges: Numbers,
    anchors: tuple[Numbers | None, Numbers | None],
    replicates: int,
    seed: int,
) -> Drawn:
    """Draw how many answers fall into each cell (bin, hit, both anchors): the same, far quicker."""
    bins, count = len(edges) - 1, len(place)
    left, right = anchors
    cell = place * 4 + 2 * hits + (0 if left is None else left)
    # a third split only where it is needed, for empty cells too use up random numbers
    if right is not None:
        cell = cell * 2 + right
    last = 1 if right is None else 2
    counts = np.bincount(cell.astype(np.int64), minlength=4 * last * bins)
    drawn = draw_cell_counts(counts, replicates, seed)
    table = drawn.reshape(replicates, bins, 2, 2, last).astype(np.float64)
    own = Bins(edges, table.sum(axis=(2, 3, 4)), table[:, :, 1].sum(axis=(2, 3)))
    lefts = table[:, :, :, 1].sum(axis=(1, 2, 3)) / count
    rights = table[..., last - 1].sum(axis=(1, 2, 3)) / count
    return Drawn(
        own,
        (_mean(left), _mean(right)),
        (None if left is None else lefts, None if right is None else rights),
    )


def _share(sums: Numbers | None, sizes: Numbers) -> float | None:
    return None if sums is None else float(sums.sum() / sizes.sum())


def _mean(values: Numbers | None) -> float | None:
    return None if values is None else float(values.mean())


def _is_binary(values: Numbers | None) -> bool:
    return values is None or bool(np.isin(values, (0, 1)).all())
