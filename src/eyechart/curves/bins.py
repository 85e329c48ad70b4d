"""Answers by visual change: how many fell into each bin, and how many of them were right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import as_text, as_whole, brief
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.curves.curve_settings import BINNINGS

MAX_BINS = 1000
"""More than any number of responses can fill: 50,000 samples are 50 to a bin."""


@dataclass(frozen=True)
class Bins:
    """Counts between `edges` (M + 1 of them): all answers, and those for which the property holds.

    Counts are floats, so that sets can be weighted. Many sets between the same edges can be held at
    once, a row each.
    """

    edges: FloatArray
    counts: FloatArray
    hits: FloatArray

    @property
    def centres(self) -> FloatArray:
        """The middle of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def rates(self) -> FloatArray:
        """The share of hits in each bin; NaN in an empty one."""
        with np.errstate(invalid="ignore"):
            return self.hits / self.counts

    def usable(self, least: float) -> NDArray[np.bool_]:
        """Which bins hold at least so many answers."""
        return self.counts >= max(least, np.finfo(float).tiny)

    def rows(self) -> "tuple[Bins, ...]":
        """Return the sets one by one, where there are many."""
        both = zip(self.counts, self.hits, strict=True)
        return tuple(Bins(self.edges, counts, hits) for counts, hits in both)

    def only(self, kept: NDArray[np.bool_]) -> "Bins":
        """Return the same bins, empty but for those kept."""
        return Bins(self.edges, self.counts * kept, self.hits * kept)

    def coverage(self, least: float) -> float:
        """Return the share of bins that hold at least so many answers."""
        return float(self.usable(least).mean())


def bin_edges(binning: str, bins: int) -> FloatArray:
    """Return the edges of the bins over 0…1.

    "equal": as many bins as said. "paper": one less, for the published index ⌊v (M − 1)⌋ leaves the
    last of M bins to v = 1 alone, which no picture reaches.
    """
    if as_text(binning, "binning") not in BINNINGS:
        raise UsageError(f"binning must be paper or equal, got {brief(binning)}.")
    count = as_whole(bins, "bins", 2, MAX_BINS)
    return np.linspace(0, 1, count if binning == "paper" else count + 1)


def bin_index(delta_v: FloatArray, edges: FloatArray) -> NDArray[np.int64]:
    """Return the bin of each Δv in 0…1: lower edges belong to a bin, and 1 to the last."""
    bins = len(edges) - 1
    return np.minimum((delta_v * bins).astype(np.int64), bins - 1)


def count_bins(
    delta_v: FloatArray, hits: FloatArray, edges: FloatArray, weights: FloatArray | None = None
) -> Bins:
    """Return the counts of answers with Δv in 0…1 and hits in 0…1, weighted if asked."""
    counted = np.ones(len(delta_v)) if weights is None else weights
    bin_of, n_bins = bin_index(delta_v, edges), len(edges) - 1
    counts = np.bincount(bin_of, counted, minlength=n_bins).astype(np.float64)
    hit_counts = np.bincount(bin_of, hits * counted, minlength=n_bins).astype(np.float64)
    return Bins(edges, counts, hit_counts)
