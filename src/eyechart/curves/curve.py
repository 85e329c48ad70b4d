"""`fit_curve`: from answers and their visual change to a falling curve with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.curves.bins import Bins, Numbers, bin_edges, count_bins
from eyechart.curves.bootstrap import resampled
from eyechart.curves.methods import METHODS
from eyechart.curves.spline import choose_smoothing

FEWEST_BINS = 2

SEEN = 1
"""How many answers make a bin of a resampled set usable, if it was usable before."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A falling curve s(v) over visual change 0…1, and what is known of its error.

    `bins`: the answers it was fitted to, usable where there are at least `least`. `left_out`: how
    many answers had no visual change. `replicates`: the same curve for resampled answers.
    """

    pieces: PPoly
    bins: Bins
    least: float
    smoothing: float
    left: float | None
    right: float | None
    left_out: int
    replicates: tuple[PPoly, ...]
    replicate_bins: tuple[Bins, ...]

    def __call__(self, delta_v: Any) -> Any:
        """Return s at these visual changes."""
        return self.pieces(delta_v)

    def __repr__(self) -> str:
        return f"<Curve of {self.bins.counts.sum():g} answers, area {self.area:.4f}>"

    @cached_property
    def area(self) -> float:
        """∫ s over 0…1: the robustness R̂."""
        return area_of(self.pieces)

    @cached_property
    def areas(self) -> Numbers:
        """The areas of the replicates."""
        return np.array([area_of(pieces) for pieces in self.replicates])

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the percentile interval of the area; it knows nothing of unobserved ranges."""
        return percentile_interval(self.areas, level)

    def band(self, delta_v: Any, level: float = 0.95) -> tuple[Numbers, Numbers]:
        """Return the lower and upper ends of the pointwise intervals at these visual changes."""
        values = np.stack([pieces(delta_v) for pieces in self.replicates])
        tail = 50 * (1 - level)
        low, high = np.percentile(values, [tail, 100 - tail], axis=0)
        return low, high

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Between what the area lies whatever the curve does where nothing was observed.

        Within a gap a falling curve lies between its values on both sides. Sampling error is
        included, at 95 %.
        """
        own = [
            _bounds(pieces, bins, self.left is not None, self.right)
            for pieces, bins in zip(self.replicates, self.replicate_bins, strict=True)
        ]
        lows, highs = zip(*own, strict=True)
        return float(np.percentile(lows, 2.5)), float(np.percentile(highs, 97.5))


def fit_curve(
    delta_v: Any,
    hits: Any,
    *,
    anchor: float | Sequence[float] | Numbers | None = None,
    right_anchor: float | None = None,
    clusters: Any = None,
    binning: str = "paper",
    bins: int = 40,
    least: float = 20,
    method: str = "least-squares",
    smoothing: float | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> Curve:
    """Return the falling curve of how often `hits` hold, over visual change.

    `delta_v` and `hits` have one value per answer; a Δv of NaN is left out and counted. `anchor`:
    what the curve is at 0, a number or whether each answer's clean picture was a hit;
    `right_anchor`: what it is at 1, by default nothing. `clusters` says which answers stand or fall
    together, such as those to one picture; resampling is over clusters. `smoothing` is chosen by
    cross-validation unless given. `method`: "least-squares", "cobs" or "pava".
    """
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    change, right = _answers("delta_v", delta_v), _answers("hits", hits)
    clean = None if anchor is None else np.asarray(anchor, dtype=np.float64)
    groups = None if clusters is None else np.asarray(clusters)
    for name, given in (("hits", right), ("anchor", clean), ("clusters", groups)):
        if given is not None and given.ndim and len(given) != len(change):
            raise UsageError(
                f"{name} must have one value per answer: {len(change)}, got {len(given)}."
            )
    seen = ~np.isnan(change)
    _check_range("delta_v", change[seen])
    _check_range("hits", right)
    if clean is not None:
        _check_range("anchor", clean)
    edges = bin_edges(binning, bins)
    whole = count_bins(change[seen], right[seen], edges)
    if whole.usable(least).sum() < FEWEST_BINS:
        raise UsageError(
            f"Fewer than {FEWEST_BINS} bins hold {least:g} answers: give more answers, fewer bins"
            " or a smaller least."
        )
    per_answer = clean[seen] if clean is not None and clean.ndim else None
    drawn = resampled(
        change[seen], right[seen], edges, per_answer, None if groups is None else groups[seen],
        replicates, seed,
    )  # fmt: skip
    left = None if clean is None else float(clean) if clean.ndim == 0 else drawn.anchor
    chosen = smoothing
    if chosen is None:
        chosen = choose_smoothing(whole, least, left, right_anchor)
    fit = METHODS[method]
    usable = whole.usable(least)
    # bins that are usable stay so, and others are not, whatever a draw makes of their counts
    redrawn = tuple(own.only(usable) for own in drawn.bins)
    starts = [left] * replicates if per_answer is None else drawn.anchors
    refits = tuple(
        fit(own, SEEN, chosen, start, right_anchor)
        for own, start in zip(redrawn, starts, strict=True)
    )
    return Curve(
        fit(whole, least, chosen, left, right_anchor),
        whole,
        least,
        chosen,
        left,
        right_anchor,
        int((~seen).sum()),
        refits,
        redrawn,
    )


def area_of(pieces: PPoly) -> float:
    """Return the area below the pieces, over 0…1."""
    return float(pieces.integrate(0, 1))


def _bounds(pieces: PPoly, bins: Bins, anchored: bool, right: float | None) -> tuple[float, float]:
    low = high = 0.0
    before = float(pieces(0)) if anchored else 1.0
    edge = 0.0
    usable = np.flatnonzero(bins.usable(SEEN))
    for place in usable:
        start, end = bins.edges[place], bins.edges[place + 1]
        if start > edge:
            value = float(pieces(start))
            low, high = low + (start - edge) * value, high + (start - edge) * max(before, value)
        own = float(pieces.integrate(start, end))
        low, high, edge, before = low + own, high + own, end, float(pieces(end))
    floor = 0.0 if right is None else right
    return low + (1 - edge) * min(floor, before), high + (1 - edge) * before


def percentile_interval(values: Numbers, level: float) -> tuple[float, float]:
    """Return the ends between which the middle share `level` of the values lies."""
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, got {level}.")
    tail = 50 * (1 - level)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def _answers(name: str, values: Any) -> Numbers:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be numbers.") from None
    if numbers.ndim != 1 or not len(numbers):
        raise UsageError(f"{name} must be a list of numbers, one per answer.")
    return numbers


def _check_range(name: str, values: NDArray[np.float64]) -> None:
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise UsageError(f"{name} must lie in [0, 1].")
