"""Corruptions in an order in which those that overlap stand beside each other."""

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from eyechart.curves.bins import Numbers


def cluster_order(scores: Numbers) -> list[int]:
    """Return places so that similar ones are neighbours: average linkage of 1 − overlap.

    Undetermined scores count as no overlap; corruptions without any score come last.
    """
    own = np.asarray(scores, dtype=np.float64)
    apart = ~np.eye(len(own), dtype=bool)
    known = (~np.isnan(own) & apart).any(axis=1)
    kept = np.flatnonzero(known)
    lost = [int(place) for place in np.flatnonzero(~known)]
    if len(kept) < 3:
        return [*map(int, kept), *lost]
    near = np.nan_to_num(own[np.ix_(kept, kept)]).clip(0, 1)
    distance = 1 - (near + near.T) / 2
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance), "average", optimal_ordering=True)
    return [*(int(kept[place]) for place in leaves_list(tree)), *lost]
