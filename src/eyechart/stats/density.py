"""Densities q(v) over visual change v in 0…1, areas ∫ s(v) q(v) dv under curves, and between two.

Curves are compared exactly: the ranges in which one of them leads end where they cross.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly
from scipy.special import betainc

from eyechart.core.arguments import digits, short_repr
from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.stats.pieces import refined, values_at

CELLS = 1000
"""Number of steps that approximate a density given as a function."""

NAMED = 40
"""Maximum number of weights that are spelled out in a density's name."""

POWERS = 3
"""Number of moments of the density that areas under quadratic curves depend on."""


@dataclass(frozen=True, eq=False)
class Density:
    """A density over visual change 0…1: a non-negative piecewise polynomial with integral 1.

    Two densities are equal if they have the same pieces. `name` is a value of --density that
    selects this density, or "" if the density is unnamed.

    Example:
        >>> Density.beta(2, 2).name
        'beta:2,2'
    """

    pieces: PPoly
    name: str = ""

    def __post_init__(self) -> None:
        places, values = self.pieces.x, self.pieces.c
        if values.ndim != 2 or places[0] != 0 or places[-1] != 1:
            raise UsageError("A density must be a piecewise polynomial on the interval [0, 1].")
        if not np.isfinite(values).all() or self._lowest() < -1e-9:
            raise UsageError("A density must be finite and non-negative.")
        # normalization is checked, not imposed: R is an expectation under q
        integral = float(self.pieces.integrate(0, 1))
        if abs(integral - 1) > 1e-9:
            raise UsageError(f"A density must integrate to 1, got {digits(integral)}.")

    def __call__(self, delta_v: ArrayLike) -> FloatArray:
        """Return the density at each of these visual changes."""
        return np.asarray(self.pieces(delta_v))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Density):
            return NotImplemented
        one, two = self.pieces, other.pieces
        return np.array_equal(one.x, two.x) and np.array_equal(one.c, two.c)

    def __hash__(self) -> int:
        return hash((self.pieces.x.tobytes(), self.pieces.c.tobytes()))

    @cached_property
    def identity(self) -> str:
        """The density's identifier in files: its name, or a digest if it has no name."""
        if self.name:
            return self.name
        pieces = self.pieces.x.tobytes() + self.pieces.c.tobytes()
        return f"pieces:{sha256(pieces).hexdigest()[:16]}"

    @classmethod
    def of_weights(cls, weights: Sequence[float] | FloatArray) -> "Density":
        """Return a normalized step function over equal bins, from the weight of each bin."""
        try:
            heights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise UsageError("The weights of a density must be numbers.") from None
        if heights.ndim != 1 or not len(heights):
            raise UsageError("The weights of a density must be a list of numbers, one per bin.")
        if not np.isfinite(heights).all() or heights.min() < 0 or heights.sum() <= 0:
            raise UsageError("The weights of a density must be 0 or more, and not all 0.")
        steps = heights / heights.mean()
        # in units of the smallest, so that proportional weights have the same name
        # (at least 1e-12 of the largest, because the ratio would overflow otherwise)
        units = steps / max(steps[steps > 0].min(), 1e-12 * steps.max())
        name = f"weights:{','.join(f'{unit:.6g}' for unit in units)}" if len(steps) <= NAMED else ""
        return cls(PPoly(steps[None], np.linspace(0, 1, len(steps) + 1)), name)

    @classmethod
    def of_function(cls, function: Callable[[FloatArray], ArrayLike]) -> "Density":
        """Return a step function from the function's values at the centers of 1,000 cells."""
        middles = (np.arange(CELLS) + 0.5) / CELLS
        try:
            heights = np.broadcast_to(np.asarray(function(middles)), middles.shape)
        except Exception as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise UsageError(
                "A density function must return one number for each visual change in an array;"
                f" it failed ({reason})."
            ) from error
        return cls.of_weights(heights)

    @classmethod
    def beta(cls, a: float, b: float) -> "Density":
        """Return Beta(a, b) as 1,000 steps, each with the exact probability of its cell."""
        if not (a > 0 and b > 0 and np.isfinite([a, b]).all()):
            raise UsageError(f"a and b of a beta density must be above 0, got {a} and {b}.")
        steps = cls.of_weights(np.diff(betainc(a, b, np.linspace(0, 1, CELLS + 1))))
        return cls(steps.pieces, f"beta:{a:g},{b:g}")

    def up_to(self, end: float) -> "Density":
        """Return the density on visual changes up to `end`, normalized there, and 0 beyond.

        Example:
            >>> Density.of_weights([1, 1]).up_to(0.5)([0.25, 0.75]).tolist()
            [2.0, 0.0]
        """
        if end >= 1:
            return self
        places = np.union1d(self.pieces.x, [end])
        heights = np.where(places[:-1] < end, refined(self.pieces, places).c, 0.0)
        return Density(PPoly(heights / PPoly(heights, places).integrate(0, 1), places))

    def between(self, origin: FloatArray, start: FloatArray, end: FloatArray) -> list[FloatArray]:
        """Return ∫ (v − origin)^p q dv from `start` to `end`, for p = 0, 1, 2."""
        # moments about 0 are shifted to the origin by the binomial theorem
        about_0 = [values_at(moment, end) - values_at(moment, start) for moment in self._moments]
        moved = []
        for power in range(POWERS):
            total = np.zeros(np.broadcast_shapes(np.shape(origin), np.shape(about_0[0])))
            for low in range(power + 1):
                total += comb(power, low) * (-origin) ** (power - low) * about_0[low]
            moved.append(total)
        return moved

    @cached_property
    def _moments(self) -> list[PPoly]:
        """The integrals of v^p q(v) from 0 to any visual change, for p = 0, 1, 2."""
        power, places = self.pieces, self.pieces.x
        moments = []
        for _ in range(POWERS):
            moments.append(power.antiderivative())
            # multiplied by v, which is the start of the piece plus the local coordinate
            raised = np.vstack([power.c, np.zeros(len(places) - 1)])
            raised[1:] += power.c * places[:-1]
            power = PPoly(raised, places)
        return moments

    def _lowest(self) -> float:
        # each piece is evaluated at its own right end, because the next may start elsewhere
        ends = np.polyval(self.pieces.c, np.diff(self.pieces.x))
        turns = self.pieces.derivative().roots(extrapolate=False)
        turns = turns[np.isfinite(turns)]
        return float(np.concatenate([self.pieces.c[-1], ends, self.pieces(turns)]).min())


UNIFORM = Density(PPoly(np.ones((1, 1)), np.array([0.0, 1.0])), "uniform")

AnyDensity: TypeAlias = (
    str | Density | Sequence[float] | FloatArray | Callable[[FloatArray], ArrayLike] | None
)


def to_density(density: AnyDensity) -> Density:
    """Return the density for a string, for weights over equal bins, or for a function.

    A string is "uniform", "beta:A,B", or weights such as "0,1,1" or "weights:0,1,1".

    Example:
        >>> float(to_density("0,1")(0.75))
        2.0
    """
    if density is None:
        return UNIFORM
    if isinstance(density, Density):
        return density
    if isinstance(density, str):
        return _from_text(density)
    steps = Density.of_function(density) if callable(density) else Density.of_weights(density)
    # equal weights have the name "uniform"
    return UNIFORM if steps == UNIFORM else steps


def _from_text(text: str) -> Density:
    if text == "uniform":
        return UNIFORM
    # "0,1,1" has no kind and means weights
    kind, _, rest = text.rpartition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if kind == "beta" and len(numbers) == 2:
        return Density.beta(*numbers)
    if kind in ("", "weights") and numbers:
        return to_density(numbers)
    raise UsageError(
        "density must be uniform, beta:A,B, weights of equal bins such as 0,1,1, a list of weights"
        f" or a function, got {short_repr(text)}."
    )


def piece_areas(pieces: PPoly, density: Density = UNIFORM) -> FloatArray:
    """Return the weighted area under each piece of one or many curves.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> piece_areas(line).tolist()
        [0.5]
    """
    start, end = pieces.x[:-1], pieces.x[1:]
    moments = density.between(start, start, end)
    total = np.zeros_like(pieces.c[0])
    for power, coefficients in enumerate(pieces.c[::-1]):
        total += coefficients * moments[power].reshape(-1, *[1] * (pieces.c.ndim - 2))
    return np.asarray(total)


def areas_under(pieces: PPoly, density: Density = UNIFORM) -> FloatArray:
    """Return the weighted area over 0…1: one number, or an array for stacked curves.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> float(areas_under(line))
        0.5
    """
    return np.asarray(piece_areas(pieces, density).sum(axis=0))


def areas_between(pieces: PPoly, places: FloatArray, density: Density = UNIFORM) -> FloatArray:
    """Return the weighted areas under one or many curves between consecutive `places`.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> areas_between(line, np.array([0.0, 0.5, 1.0])).tolist()
        [0.375, 0.125]
    """
    all_places = np.union1d(pieces.x, places)
    # areas between any two places are differences of running sums
    running = np.cumsum(piece_areas(refined(pieces, all_places), density), axis=0)
    running = np.concatenate([np.zeros_like(running[:1]), running])
    return np.asarray(np.diff(running[np.searchsorted(all_places, places)], axis=0))


def area_bounds(
    pieces: PPoly,
    edges: FloatArray,
    usable: NDArray[np.bool_],
    anchored: tuple[bool, bool],
    density: Density,
    trusted: IntArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest possible area of each curve, for any values in its gaps.

    A curve is fixed over usable bins. In a gap, it lies between its values at the gap's two edges.

    Args:
        pieces: The curves.
        edges: The edges of the bins that the curves were fitted to.
        usable: Which bins are usable: one row per curve, or one row for all curves.
        anchored: Whether the curves have an anchor at 0, and whether they have one at 1.
        density: The density by which areas are weighted.
        trusted: For a gap before each bin and a gap after each bin, the index of the edge at which
            the curve bounds the gap, (2, n_bins); by default the nearest edge of the bin.

    Example:
        >>> line = PPoly(np.array([[[-1.0]], [[1.0]]]), np.array([0.0, 1.0]))
        >>> usable = np.array([True, False])
        >>> low, high = area_bounds(line, np.array([0.0, 0.5, 1.0]), usable, (True, False), UNIFORM)
        >>> low.tolist(), high.tolist()
        ([0.375], [0.625])
    """
    areas = areas_between(pieces, edges, density)
    values, mass = values_at(pieces, edges), density.between(np.zeros(1), np.zeros(1), edges)[0]
    usable = np.moveaxis(usable, -1, 0)
    # without an anchor nothing is known before the first usable bin: the curve may be 1 there
    before = values[0] if anchored[0] else np.ones_like(values[0])
    low, high, reached = (np.zeros_like(before) for _ in range(3))
    if trusted is None:
        trusted = np.array([np.arange(len(usable)), np.arange(len(usable)) + 1])
    for number, seen in enumerate(usable):
        # a gap ends here if it is not empty; beyond it the curve is at most this high
        gap, value = mass[number] - reached, values[trusted[0, number]]
        low += seen * (gap * value + areas[number])
        high += seen * (gap * np.maximum(before, value) + areas[number])
        reached = np.where(seen, mass[number + 1], reached)
        before = np.where(seen, values[trusted[1, number]], before)
    # after the last usable bin it may fall to 0 at once, or stay where it is
    floor = np.minimum(values[-1], before) if anchored[1] else np.zeros_like(before)
    return low + (1 - reached) * floor, high + (1 - reached) * before


NARROWEST, SMALLEST = 1e-6, 1e-9
"""Narrower ranges and smaller differences between curves are treated as rounding errors."""


def four_areas(
    first: PPoly, second: PPoly, density: Density
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the area under each curve, and the area by which each curve leads the other.

    Each area is one number, or an array with one number per pair if many curves are stacked.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> half = PPoly(np.array([[0.5]]), np.array([0.0, 1.0]))
        >>> [float(area) for area in four_areas(line, half, UNIFORM)]
        [0.5, 0.5, 0.125, 0.125]
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
    """Return the ranges in which one curve leads: start, end, and whether the first one leads.

    Example:
        >>> line = PPoly(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))  # falls from 1 to 0
        >>> leads_between(line, PPoly(np.array([[0.5]]), np.array([0.0, 1.0])))
        [(0.0, 0.5, True), (0.5, 1.0, False)]
    """
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
