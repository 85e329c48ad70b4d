"""Piecewise polynomials over 0…1, single or stacked along the last axis."""

from collections.abc import Sequence
from math import comb
from typing import overload

import numpy as np
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray, IntArray


def refined(pieces: PPoly, places: FloatArray) -> PPoly:
    """Return the same function with more breakpoints; `places` must include the existing ones.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> refined(line, np.array([0.0, 0.5, 1.0])).c.tolist()
        [[-1.0, -1.0], [1.0, 0.5]]
    """
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


def values_at(pieces: PPoly, places: FloatArray) -> FloatArray:
    """Return the values of one or many curves at these places, (*places, *curves).

    They are equal to `pieces(places)`, which computes them one by one and keeps other threads from
    running meanwhile.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> values_at(line, np.array([0.0, 0.25])).tolist()
        [1.0, 0.75]
    """
    powers = pieces.c[::-1]
    if len(pieces.x) == 2:
        coefficients, start = powers[:, 0], pieces.x[0]
    else:
        piece = np.clip(np.searchsorted(pieces.x, places, side="right") - 1, 0, len(pieces.x) - 2)
        coefficients, start = powers[:, piece], pieces.x[piece]
    along = np.reshape(places - start, (*np.shape(places), *[1] * (pieces.c.ndim - 2)))
    # adding 0 turns −0 into 0, as evaluating a piecewise polynomial does
    values = coefficients[0] + np.zeros_like(along)
    raised = along
    for coefficient in coefficients[1:]:
        values += coefficient * raised
        raised = raised * along
    return np.asarray(values)


class CurveStack(Sequence[PPoly]):
    """Curves with the same breakpoints, stored as one object; single curves are made on demand."""

    def __init__(self, pieces: PPoly) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        return int(self.pieces.c.shape[-1])

    @overload
    def __getitem__(self, index: int) -> PPoly: ...

    @overload
    def __getitem__(self, index: slice) -> "CurveStack": ...

    def __getitem__(self, index: int | slice) -> "PPoly | CurveStack":
        if isinstance(index, slice):
            return self.select(np.arange(len(self))[index])
        # The stacked object was checked when it was made, so that its curves need no checks.
        curve = np.ascontiguousarray(self.pieces.c[..., index])
        return PPoly.construct_fast(curve, self.pieces.x, extrapolate=True)

    def select(self, order: IntArray) -> "CurveStack":
        """Return the curves with these indices."""
        curves = np.ascontiguousarray(self.pieces.c[..., order])
        return CurveStack(PPoly.construct_fast(curves, self.pieces.x, extrapolate=True))


def select_curves(curves: Sequence[PPoly], order: IntArray) -> Sequence[PPoly]:
    """Return the curves with these indices.

    Example:
        >>> curves = [PPoly([[value]], [0, 1]) for value in (1, 2)]
        >>> [float(curve(0)) for curve in select_curves(curves, np.array([1]))]
        [2.0]
    """
    if isinstance(curves, CurveStack):
        return curves.select(order)
    return [curves[index] for index in order]


def have_same_breaks(curves: Sequence[PPoly]) -> bool:
    """Return whether all curves have the same breakpoints.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> have_same_breaks([line, line])
        True
    """
    if isinstance(curves, CurveStack):
        return True
    first = curves[0].x
    return all(pieces.x is first or np.array_equal(pieces.x, first) for pieces in curves)


def stacked(curves: Sequence[PPoly]) -> PPoly:
    """Stack curves of the same degree into one object that has the breakpoints of all curves.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> stacked([line, line])(0.25).tolist()
        [0.75, 0.75]
    """
    if isinstance(curves, CurveStack):
        return curves.pieces
    if have_same_breaks(curves):
        return PPoly(np.stack([pieces.c for pieces in curves], axis=-1), curves[0].x)
    places = np.unique(np.concatenate([pieces.x for pieces in curves]))
    return PPoly(np.stack([refined(pieces, places).c for pieces in curves], axis=-1), places)
