"""Exact comparison of two curves: the areas between them, and the ranges in which one leads."""

from itertools import pairwise

import numpy as np
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray
from eyechart.stats.density import Density, areas_under
from eyechart.stats.pieces import refined

NARROWEST, SMALLEST = 1e-6, 1e-9
"""Narrower ranges and smaller differences between curves are treated as rounding errors."""


def four_areas(
    first: PPoly, second: PPoly, density: Density
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the area under each curve, and the area by which each curve leads the other.

    Each area is one number, or an array with one number per pair if many curves are stacked.
    """
    places, gap = _gap(first, second)
    ends = _crossings(gap, np.diff(places))
    start = places[:-1].reshape(-1, *[1] * (gap.ndim - 2))
    total = np.zeros_like(ends)
    # the running integral of gap · q at each crossing
    for power, moment in enumerate(density.between(start, start, start + ends)):
        total += gap[2 - power] * moment
    ahead = np.maximum(np.diff(total, axis=0), 0).sum(axis=(0, 1))
    area, other_area = areas_under(first, density), areas_under(second, density)
    # the difference of the two leads is the difference of the areas, so one integral suffices
    return area, other_area, ahead, np.maximum(ahead - (area - other_area), 0)


def leads_between(first: PPoly, second: PPoly) -> list[tuple[float, float, bool]]:
    """Return the ranges in which one curve leads: start, end, and whether the first one leads."""
    places, gap = _gap(first, second)
    cuts = np.unique(places[:-1] + _crossings(gap, np.diff(places)))
    leads: list[tuple[float, float, bool]] = []
    for start, end in pairwise(cuts.tolist()):
        # at least one of the three points is away from a place where the curves only touch
        inner = start + (end - start) * np.array([0.25, 0.5, 0.75])
        values = first(inner) - second(inner)
        value = values[np.abs(values).argmax()]
        if abs(value) < SMALLEST:
            continue
        # the curves only touched: one range, not two
        if leads and leads[-1][2] == (value > 0) and start - leads[-1][1] < NARROWEST:
            start = leads.pop()[0]
        leads.append((start, end, bool(value > 0)))
    return [lead for lead in leads if lead[1] - lead[0] >= NARROWEST]


def _gap(first: PPoly, second: PPoly) -> tuple[FloatArray, FloatArray]:
    """Return all breakpoints, and the coefficients of the curves' difference in each piece."""
    places = np.union1d(first.x, second.x)
    gap = np.zeros((3, len(places) - 1, *first.c.shape[2:]))
    for sign, pieces in ((1, first), (-1, second)):
        coefficients = refined(pieces, places).c
        gap[3 - len(coefficients) :] += sign * coefficients
    return places, gap


def _crossings(gap: FloatArray, widths: FloatArray) -> FloatArray:
    """Return four points of each piece in order: its start (0), two roots, and its end (width)."""
    c2, c1, c0 = gap
    wide = np.broadcast_to(widths.reshape(-1, *[1] * (gap.ndim - 2)), c0.shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # the form of the quadratic formula that avoids cancellation
        half = -(c1 + np.copysign(np.sqrt(c1 * c1 - 4 * c2 * c0), c1)) / 2
        roots = np.stack([half / c2, c0 / half])
    # missing roots become 0 and those outside the piece its ends, which adds empty intervals only
    inside = np.clip(np.nan_to_num(roots, nan=0.0, posinf=0.0, neginf=0.0), 0, wide)
    return np.concatenate([np.zeros_like(c0)[None], np.sort(inside, axis=0), wide[None]])
