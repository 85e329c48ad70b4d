"""Piecewise polynomials over 0…1, one or many at once: the last axis of many counts the curves."""

from collections.abc import Sequence
from math import comb

import numpy as np
from scipy.interpolate import PPoly

from eyechart.curves.bins import Numbers


def refined(pieces: PPoly, places: Numbers) -> PPoly:
    """Return the same function broken at `places`, which must hold all of its own breaks."""
    own = np.searchsorted(pieces.x, places[:-1], side="right") - 1
    own = np.clip(own, 0, len(pieces.x) - 2)
    coefficients = pieces.c[:, own]
    shift = (places[:-1] - pieces.x[own]).reshape(-1, *[1] * (pieces.c.ndim - 2))
    moved = np.zeros_like(coefficients)
    top = len(coefficients) - 1
    for power in range(top + 1):
        for lower in range(power + 1):
            term = comb(power, lower) * shift ** (power - lower)
            moved[top - lower] += term * coefficients[top - power]
    return PPoly(moved, places)


def have_same_breaks(each: Sequence[PPoly]) -> bool:
    """Return whether all curves are broken at the same places."""
    first = each[0].x
    return all(pieces.x is first or np.array_equal(pieces.x, first) for pieces in each)


def stacked(each: Sequence[PPoly]) -> PPoly:
    """Return curves of one degree as one, with the breaks of all of them."""
    if have_same_breaks(each):
        return PPoly(np.stack([pieces.c for pieces in each], axis=-1), each[0].x)
    places = np.unique(np.concatenate([pieces.x for pieces in each]))
    return PPoly(np.stack([refined(pieces, places).c for pieces in each], axis=-1), places)


def unstacked(pieces: PPoly) -> tuple[PPoly, ...]:
    """Return the curves that were stacked."""
    own = np.ascontiguousarray(np.moveaxis(pieces.c, -1, 0))
    return tuple(PPoly.construct_fast(each, pieces.x, extrapolate=True) for each in own)
