"""Tests of whether two curves differ: overlap of intervals, and bootstrap tests."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.records import NaNFloat, Record
from eyechart.stats.bootstrap import shuffle_replicates
from eyechart.stats.curve import Curve
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL, percentile_interval
from eyechart.stats.p_values import bootstrap_p_value
from eyechart.stats.pieces import values_at

GRID = np.linspace(0, 1, 401)
"""Visual changes at which curves are compared pointwise."""

TOUCHING = 1e-6
"""Intervals closer than this count as overlapping: fits match their anchors only up to this error.
"""


class Lead(Record):
    """A range of visual change in which one curve is above the other."""

    start: float
    """Δv at which the range starts."""
    end: float
    """Δv at which the range ends."""
    who: str
    """Who is ahead: "model" or "humans"; for two corruptions "first" or "second"."""


class Difference(Record):
    """First curve minus second: difference of the areas, and largest difference along the curves.

    P-values are two-sided.
    """

    area_difference: NaNFloat
    """Difference of the areas."""
    interval: tuple[NaNFloat, NaNFloat]
    """95 % interval of the difference of the areas."""
    narrow_interval: tuple[NaNFloat, NaNFloat]
    """83 % interval of the difference of the areas."""
    p_value: NaNFloat
    """P-value of the difference of the areas."""
    largest: NaNFloat
    """Largest absolute difference along the curves."""
    place: NaNFloat
    """Visual change at which the difference is largest."""
    p_value_largest: NaNFloat
    """P-value of the largest difference."""
    paired: bool
    """Whether bootstrap replicates were paired by image."""


def intervals_overlap(first: Curve, second: Curve, level: float = PUBLISHED_LEVEL) -> bool:
    """Return whether the intervals of two areas overlap (the VCR paper's rule, at 83 %).

    Two 83 % intervals that just touch correspond to p = 0.05 only if the curves are independent and
    have equal standard errors; p is 0.066 at a ratio of 2 and 0.106 at a ratio of 5. Applied along
    the curves (`apart_ranges`), pointwise and without correction, the rule finds a chance
    difference more often than these p-values suggest. `difference` has neither flaw.
    """
    check_comparable(first, second)
    (low, high), (other_low, other_high) = first.interval(level), second.interval(level)
    return low <= other_high and other_low <= high


def apart_ranges(first: Curve, second: Curve, level: float, names: tuple[str, str]) -> list[Lead]:
    """Return the ranges of `GRID` where the intervals do not overlap, and who is ahead there."""
    (low, high), (other_low, other_high) = _grid_band(first, level), _grid_band(second, level)
    # An extrapolated curve is not evidence of a difference.
    seen = first.is_observed(GRID) & second.is_observed(GRID)
    above, below = low > other_high + TOUCHING, other_low > high + TOUCHING
    leads = [
        Lead(start=start, end=end, who=name)
        for ahead, name in zip((above, below), names, strict=True)
        for start, end in unbroken_ranges(GRID, seen & ahead)
    ]
    return sorted(leads, key=lambda lead: lead.start)


def unbroken_ranges(places: FloatArray, holds: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return the first and last index of each contiguous range in which `holds` is true."""
    # Padding with False makes every run start and end inside the array, so that turns come in
    # pairs.
    turns = np.flatnonzero(np.diff(np.r_[False, holds, False].astype(int)))
    return [
        (float(places[start]), float(places[end - 1]))
        for start, end in zip(turns[::2], turns[1::2], strict=True)
    ]


def difference(first: Curve, second: Curve, paired: bool = False) -> Difference:
    """Return how two curves differ, with bootstrap tests of the areas and the largest difference.

    A p-value is the fraction of bootstrap replicates whose difference deviates from the observed
    difference by at least as much as the observed one deviates from 0. The largest difference is
    sought where both curves were observed, after both are refitted with the same smoothing.

    Args:
        first: A curve.
        second: A curve with the same density.
        paired: Whether both curves have the same clusters (two models on the same images) and
            share bootstrap weights. Pairing requires equal clusters, seeds and numbers of
            replicates.
    """
    check_comparable(first, second)
    order, other_order = pair_orders(first, second, paired)
    area = first.area - second.area
    areas = first.areas[order] - second.areas[other_order]
    gap, chance, places = resampled_gaps(first, second, paired)
    # The maximum along the curve is tested against the maximum of the noise: one test, no
    # correction.
    widest = int(np.abs(gap).argmax())
    largest = float(np.abs(gap[widest]))
    return Difference(
        area_difference=area,
        interval=percentile_interval(areas, CONFIDENCE),
        narrow_interval=percentile_interval(areas, PUBLISHED_LEVEL),
        # Replicates are centered on the observed difference, which simulates the null hypothesis.
        p_value=bootstrap_p_value(np.abs(areas - area) >= abs(area)),
        largest=largest,
        place=float(places[widest]),
        p_value_largest=bootstrap_p_value(np.abs(chance).max(axis=0) >= largest),
        paired=paired,
    )


def check_comparable(
    first: Curve, second: Curve, names: tuple[str, str] = ("first", "second")
) -> None:
    """Raise a UsageError unless both are curves with the same density."""
    for name, curve in zip(names, (first, second), strict=True):
        if not isinstance(curve, Curve):
            raise UsageError(f"{name} must be a Curve from fit_curve, got {type(curve).__name__}.")
    if first.density != second.density:
        raise UsageError(
            f"{names[0]} and {names[1]} must have the same density: fit both with the same one."
        )


def pair_orders(first: Curve, second: Curve, paired: bool) -> tuple[IntArray, IntArray]:
    """Return the orders in which the replicates of two curves form pairs.

    With `paired`, replicates that share cluster weights form a pair. Otherwise the second order is
    shuffled: both curves may have been resampled with the same random numbers, and pairs must be
    independent.
    """
    if paired and not first.draws.pairs_with(second.draws):
        raise UsageError(
            "Curves can be paired only if they were fitted with the same clusters, seed and"
            " replicates."
        )
    count = min(first.draws.n_bootstrap, second.draws.n_bootstrap)
    # Curves may have different numbers of replicates; surplus ones are not used.
    order = np.arange(count)
    # The seed is fixed, so that the same two curves always give the same p-value.
    return order, order if paired else shuffle_replicates(count, 0)[0]


def resampled_gaps(
    first: Curve, second: Curve, paired: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the difference of two curves, its bootstrap deviations, and where it was evaluated.

    Returns:
        First curve minus second, (n_places,); its deviation in each bootstrap pair, (n_places,
        n_pairs); and the visual changes observed for both curves, (n_places,).
    """
    places = GRID[first.is_observed(GRID) & second.is_observed(GRID)]
    if not len(places):
        raise UsageError("The curves have no range of visual change that was observed for both.")
    # Both curves get the smoothing of the rougher one: with smoothing chosen per curve, the test
    # found a difference between equal truths in up to 10 % of simulated sets (docs/decisions.md).
    smoothing = min(first.smoothing, second.smoothing)
    first, second = first.smoothed(smoothing), second.smoothed(smoothing)
    order, other_order = pair_orders(first, second, paired)
    gap = first(places) - second(places)
    values, other_values = (values_at(curve.refits, places) for curve in (first, second))
    drawn = values[:, order] - other_values[:, other_order]
    return gap, drawn - gap[:, None], places


# A curve is compared with humans and with several other curves.
@lru_cache(maxsize=64)
def _grid_band(curve: Curve, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the band of a curve on `GRID`."""
    return curve.band(GRID, level)
