"""Piecewise polynomials over 0…1, single or stacked along the last axis."""

from collections.abc import Sequence
from math import comb

import numpy as np
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray


def refined(pieces: PPoly, places: FloatArray) -> PPoly:
    """Return the same function with more breakpoints; `places` must include the existing ones."""
    # the piece that each new interval lies in
    piece = np.searchsorted(pieces.x, places[:-1], side="right") - 1
    piece = np.clip(piece, 0, len(pieces.x) - 2)
    coefficients = pieces.c[:, piece]
    shift = (places[:-1] - pieces.x[piece]).reshape(-1, *[1] * (pieces.c.ndim - 2))
    moved = np.zeros_like(coefficients)
    top = len(coefficients) - 1
    # Taylor shift: the polynomial about the old breakpoint, rewritten about the new one
    for power in range(top + 1):
        for lower in range(power + 1):
            term = comb(power, lower) * shift ** (power - lower)
            moved[top - lower] += term * coefficients[top - power]
    return PPoly(moved, places)


def have_same_breaks(curves: Sequence[PPoly]) -> bool:
    """Return whether all curves have the same breakpoints."""
    first = curves[0].x
    return all(pieces.x is first or np.array_equal(pieces.x, first) for pieces in curves)


def stacked(curves: Sequence[PPoly]) -> PPoly:
    """Stack curves of the same degree into one object that has the breakpoints of all curves."""
    if have_same_breaks(curves):
        return PPoly(np.stack([pieces.c for pieces in curves], axis=-1), curves[0].x)
    places = np.unique(np.concatenate([pieces.x for pieces in curves]))
    return PPoly(np.stack([refined(pieces, places).c for pieces in curves], axis=-1), places)


def unstacked(pieces: PPoly) -> tuple[PPoly, ...]:
    """Return the individual curves of a stack of curves."""
    curves = np.ascontiguousarray(np.moveaxis(pieces.c, -1, 0))
    # The stacked object was checked when it was made, so that its curves need no checks.
    return tuple(PPoly.construct_fast(curve, pieces.x, extrapolate=True) for curve in curves)
