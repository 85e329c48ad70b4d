"""Whether two curves differ by more than chance: overlapping intervals, and bootstrap tests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.records import Real, Record
from eyechart.curves.curve import Curve
from eyechart.stats.bootstrap import shuffle_replicates
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL, percentile_interval
from eyechart.stats.p_values import bootstrap_p_value

GRID = np.linspace(0, 1, 401)
"""The visual changes at which curves are compared point by point."""

TOUCHING = 1e-6
"""Intervals less apart than this touch: curves meet their anchors no more closely."""


class Lead(Record):
    """A range of visual change in which one curve is above the other."""

    start: float
    """Δv at which the range starts."""
    end: float
    """Δv at which the range ends."""
    who: str
    """Who is ahead: "model" or "people"; between two corruptions "first" or "second"."""


@dataclass(frozen=True, eq=False)
class IntervalOverlap:
    """Whether intervals of two curves overlap: those of the areas, and those at each of `GRID`."""

    areas: bool
    points: NDArray[np.bool_]


class Difference(Record):
    """First curve less second: of the areas, and the largest along the curves.

    A p-value is how often chance alone makes a difference as large, either way.
    """

    area_difference: Real
    """Difference of the areas."""
    interval: tuple[Real, Real]
    """Its 95 % interval."""
    narrow_interval: tuple[Real, Real]
    """Its 83 % interval."""
    p_value: Real
    """P-value of the difference of the areas."""
    largest: Real
    """The largest difference along the curves."""
    place: Real
    """The visual change at which it is."""
    p_value_largest: Real
    """P-value of the largest difference."""
    paired: bool
    """Whether replicates were paired by image."""


def intervals_overlap(
    first: Curve, second: Curve, level: float = PUBLISHED_LEVEL
) -> IntervalOverlap:
    """Return where the intervals of two curves overlap: the published rule, at 83 %.

    Two 83 % intervals that just touch mean p = 0.05 only if both curves are independent and have
    the same standard error: 0.066 if one is twice the other, 0.106 at five times. Along a curve the
    rule is used point by point, so that somewhere it fails by chance more often than that.
    `difference` has neither flaw.
    """
    check_comparable(first, second)
    (low, high), (other_low, other_high) = first.interval(level), second.interval(level)
    above, below = _apart(first, second, level)
    return IntervalOverlap(low <= other_high and other_low <= high, ~(above | below))


def apart_ranges(first: Curve, second: Curve, level: float, names: tuple[str, str]) -> list[Lead]:
    """Return the ranges between points of `GRID` where intervals do not overlap, and who leads."""
    above, below = _apart(first, second, level)
    return leads_at(GRID, above, below, names)


def leads_at(
    places: FloatArray,
    first_ahead: NDArray[np.bool_],
    second_ahead: NDArray[np.bool_],
    names: tuple[str, str],
) -> list[Lead]:
    """Return the unbroken ranges of places where one is ahead, in order."""
    leads = [
        Lead(start=start, end=end, who=name)
        for ahead, name in zip((first_ahead, second_ahead), names, strict=True)
        for start, end in unbroken_ranges(places, ahead)
    ]
    return sorted(leads, key=lambda lead: lead.start)


def unbroken_ranges(places: FloatArray, holds: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return the first and the last of each row of neighbouring places where something holds."""
    turns = np.flatnonzero(np.diff(np.r_[False, holds, False].astype(int)))
    return [
        (float(places[start]), float(places[end - 1]))
        for start, end in zip(turns[::2], turns[1::2], strict=True)
    ]


def difference(first: Curve, second: Curve, paired: bool = False) -> Difference:
    """Return how two curves differ, with bootstrap tests of the area and of the largest difference.

    Each test asks how often resampled differences are as far from the one found as that is from
    none. The largest difference is sought where both curves were observed, between curves that are
    equally smooth. `paired`: both answered
    for the same clusters, such as two models for the same pictures, and are resampled with the same
    weights; that needs curves fitted with the same clusters, seed and number of replicates.
    """
    check_comparable(first, second)
    order, other_order = pair_orders(first, second, paired)
    area = first.area - second.area
    areas = first.areas[order] - second.areas[other_order]
    gap, chance, places = resampled_gaps(first, second, paired)
    widest = int(np.abs(gap).argmax())
    largest = float(np.abs(gap[widest]))
    return Difference(
        area_difference=area,
        interval=percentile_interval(areas, CONFIDENCE),
        narrow_interval=percentile_interval(areas, PUBLISHED_LEVEL),
        p_value=bootstrap_p_value(np.abs(areas - area) >= abs(area)),
        largest=largest,
        place=float(places[widest]),
        p_value_largest=bootstrap_p_value(np.abs(chance).max(axis=0) >= largest),
        paired=paired,
    )


def check_comparable(
    first: Curve, second: Curve, names: tuple[str, str] = ("first", "second")
) -> None:
    """Refuse what is no curve, and curves whose areas are weighted by different densities."""
    for name, curve in zip(names, (first, second), strict=True):
        if not isinstance(curve, Curve):
            raise UsageError(f"{name} must be a Curve of fit_curve, got {type(curve).__name__}.")
    if first.density != second.density:
        raise UsageError(
            f"{names[0]} and {names[1]} must have the same density: fit both with the same one."
        )


def pair_orders(first: Curve, second: Curve, paired: bool) -> tuple[IntArray, IntArray]:
    """Return which replicates of both curves make pairs, one to one.

    Pairs share their clusters' weights if `paired`; otherwise they are independent, although both
    curves may have been resampled with the same random numbers: one side is put in another order.
    """
    if paired and not first.draws.pairs_with(second.draws):
        raise UsageError(
            "Curves can be paired only if they were fitted with the same clusters, seed and"
            " replicates."
        )
    count = min(first.draws.replicates, second.draws.replicates)
    order = np.arange(count)
    return order, order if paired else shuffle_replicates(count, 0)[0]


def resampled_gaps(
    first: Curve, second: Curve, paired: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return first less second at places that both observed; what chance adds to it; the places.

    The second has a column for each pair of resampled curves. Both curves are made as smooth as the
    rougher one: different smoothing alone makes equal truths look different.
    """
    places = GRID[first.is_observed(GRID) & second.is_observed(GRID)]
    if not len(places):
        raise UsageError("The curves have no range of visual change that both observed.")
    smoothing = min(first.smoothing, second.smoothing)
    first, second = first.smoothed(smoothing), second.smoothed(smoothing)
    order, other_order = pair_orders(first, second, paired)
    gap = first(places) - second(places)
    drawn = first.refits(places)[:, order] - second.refits(places)[:, other_order]
    return gap, drawn - gap[:, None], places


def _apart(
    first: Curve, second: Curve, level: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, for each point of the grid, whether the first is above the second, and below it."""
    (low, high), (other_low, other_high) = first.band(GRID, level), second.band(GRID, level)
    # what a curve does where nothing was observed is no evidence
    seen = first.is_observed(GRID) & second.is_observed(GRID)
    return seen & (low > other_high + TOUCHING), seen & (other_low > high + TOUCHING)
