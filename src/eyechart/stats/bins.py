"""Counts of samples by visual change: how many fall into each bin, and how many are hits."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import as_int, as_text, short_repr
from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.stats.curve_settings import BINNINGS

MAX_BINS = 1000
"""Maximum number of bins: with more, even 50,000 samples would leave fewer than 50 per bin."""


TRUSTED = 10
"""Number of samples needed for a reliable rate at the end of an observed range."""

MAX_HOLE = 0.06
"""Maximum total width, in Δv, of adjacent empty bins that still count as observed."""


@dataclass(frozen=True)
class Bins:
    """The number of samples and the number of hits in each bin; M bins have M + 1 `edges`.

    Counts are floats, because samples can be weighted. `counts` and `hits` can have several rows,
    such as one per bootstrap replicate, with the same edges.
    """

    edges: FloatArray
    counts: FloatArray
    hits: FloatArray

    @property
    def centers(self) -> FloatArray:
        """The center of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def rates(self) -> FloatArray:
        """The fraction of hits in each bin; NaN if the bin is empty."""
        # 0 / 0 in empty bins is NaN on purpose
        with np.errstate(invalid="ignore"):
            return self.hits / self.counts

    def usable(self, min_per_bin: float) -> NDArray[np.bool_]:
        """Return which bins have at least `min_per_bin` samples."""
        # an empty bin is never usable, even if no minimum is asked for
        return self.counts >= max(min_per_bin, np.finfo(float).tiny)

    def rows(self) -> "tuple[Bins, ...]":
        """Return one `Bins` object for each row of counts."""
        return tuple(Bins(self.edges, *both) for both in zip(self.counts, self.hits, strict=True))

    def only(self, kept: NDArray[np.bool_]) -> "Bins":
        """Return a copy in which all bins except `kept` are empty."""
        return Bins(self.edges, self.counts * kept, self.hits * kept)

    def coverage(self, min_per_bin: float) -> float:
        """Return the fraction of bins that have at least `min_per_bin` samples."""
        return float(self.usable(min_per_bin).mean())


def without_holes(usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which bins are usable, or lie in a gap of at most `MAX_HOLE` between usable bins.

    With few samples, bins may be empty by chance. A non-increasing curve hardly falls in such gaps.

    Example:
        >>> usable = np.ones(40, dtype=bool)
        >>> usable[[5, 20, 21, 22, 39]] = False
        >>> np.flatnonzero(~without_holes(usable)).tolist()
        [20, 21, 22, 39]
    """
    filled = usable.copy()
    for before, after in pairwise(np.flatnonzero(usable)):
        if after - before - 1 <= MAX_HOLE * len(usable):
            filled[before:after] = True
    return filled


def trusted_edges(counts: FloatArray) -> IntArray:
    """Return the edges whose rates bound a gap before each bin and a gap after it, (2, n_bins).

    Isotonic rates next to a gap are extreme if they are based on few samples. The rate at the edge
    `TRUSTED` samples away from the gap is used instead; it is also a bound, as curves do not rise.

    Example:
        >>> trusted_edges(np.array([4.0, 4, 4, 20])).tolist()
        [[3, 4, 4, 4], [0, 0, 0, 3]]
    """
    sums = np.r_[0.0, np.cumsum(counts)]
    after = np.minimum(np.searchsorted(sums, sums[:-1] + TRUSTED), len(counts))
    before = np.maximum(np.searchsorted(sums, sums[1:] - TRUSTED, side="right") - 1, 0)
    return np.array([after, before])


def bin_edges(binning: str, bins: int) -> FloatArray:
    """Return the edges of the bins over [0, 1].

    With "equal" there are `bins` bins. With "paper" there are `bins` − 1: the paper puts v into
    bin ⌊v (M − 1)⌋, so that the last of its M bins contains only v = 1, which no image reaches.

    Example:
        >>> bin_edges("equal", 4)
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if as_text(binning, "binning") not in BINNINGS:
        raise UsageError(f"binning must be paper or equal, got {short_repr(binning)}.")
    count = as_int(bins, "bins", 2, MAX_BINS)
    return np.linspace(0, 1, count if binning == "paper" else count + 1)


def bin_index(delta_v: FloatArray, edges: FloatArray) -> NDArray[np.int64]:
    """Return the bin of each Δv. Bins include their lower edge; the last bin also includes 1.

    Example:
        >>> bin_index(np.array([0.0, 0.5, 1.0]), bin_edges("equal", 2)).tolist()
        [0, 1, 1]
    """
    bins = len(edges) - 1
    # Δv = 1 belongs to the last bin
    return np.minimum((delta_v * bins).astype(np.int64), bins - 1)


def count_bins(
    delta_v: FloatArray, hits: FloatArray, edges: FloatArray, weights: FloatArray | None = None
) -> Bins:
    """Count the samples and the hits in each bin; `weights` are the weights of the samples.

    Example:
        >>> bins = count_bins(np.array([0.1, 0.2, 0.9]), np.array([1, 0, 1]), bin_edges("equal", 2))
        >>> bins.counts.tolist(), bins.hits.tolist()
        ([2.0, 1.0], [1.0, 1.0])
    """
    counted = np.ones(len(delta_v)) if weights is None else weights
    bin_of, n_bins = bin_index(delta_v, edges), len(edges) - 1
    counts = np.bincount(bin_of, counted, minlength=n_bins).astype(np.float64)
    hit_counts = np.bincount(bin_of, hits * counted, minlength=n_bins).astype(np.float64)
    return Bins(edges, counts, hit_counts)
