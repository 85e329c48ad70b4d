"""Uniform visual change: which strength of a corruption gives a drawn Δv on a picture.

For each row the random part stays as it is while the strength moves along the corruption's path
from nothing (severity 0) to its end (severity 5); so Δv is a function of one number, and a root is
bracketed from the start.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from eyechart.core.randomness import hash64
from eyechart.suites.strength import STRONGEST
from eyechart.testsets.draws import Real, Whole

CLOSE = 0.004
"""How near Δv has to come to what was drawn: a sixth of a bin."""

MOST_STEPS = 14
"""How often a row is tried at most; kernels of whole numbers never come near."""

NARROWEST = 1e-4
"""Below this width of the bracket in severities there is nothing more to find."""

Measure = Callable[[Whole, Real], Real]
"""From rows and their severities to Δv."""


def draw_targets(reach: Real, names: Sequence[str], bins: int, seed: int) -> Real:
    """Return a Δv for each row, spread as evenly over 0…1 as the rows' reach allows.

    `reach` is the largest Δv that each row can have; `names` make its place in the draw. Every bin
    gets an equal share of the rows that are left, the highest bin first, because the fewest rows
    reach it; within it, targets are drawn uniformly. NaN where the reach is.
    """
    count = len(reach)
    chance = np.array([hash64(seed, "order", name) for name in names], dtype=np.float64)
    spread = np.array([hash64(seed, "target", name) / 2**64 for name in names])
    target = np.full(count, np.nan)
    left = ~np.isnan(reach)
    edges = np.linspace(0, 1, bins + 1)
    for place in range(bins - 1, -1, -1):
        low, high = edges[place], edges[place + 1]
        able = np.flatnonzero(left & (reach > low))
        quota = -(-int(left.sum()) // (place + 1))
        # those that reach through the bin before those that end in it, else as chance will
        chosen = able[np.lexsort((chance[able], reach[able] < high))][:quota]
        target[chosen] = low + spread[chosen] * (np.minimum(high, reach[chosen]) - low)
        left[chosen] = False
    return target


def find_strengths(target: Real, reach: Real, measure: Measure) -> tuple[Real, Real]:
    """Return the severity of each row whose Δv is nearest to its target, and that Δv.

    The bracket is shortened by false position in turn with halving, until Δv is close enough; the
    best of all that was tried counts.
    """
    count = len(target)
    low, high = np.zeros(count), np.full(count, STRONGEST)
    below, above = np.zeros(count), reach.copy()
    best, nearest = np.where(target * 2 < reach, low, high), np.where(target * 2 < reach, 0, reach)
    for step in range(MOST_STEPS):
        with np.errstate(invalid="ignore"):
            open_rows = (np.abs(nearest - target) > CLOSE) & (high - low > NARROWEST)
        rows = np.flatnonzero(open_rows)
        if not len(rows):
            break
        middle = (low[rows] + high[rows]) / 2
        if step % 2:
            share = (target[rows] - below[rows]) / np.maximum(above[rows] - below[rows], 1e-9)
            middle = low[rows] + np.clip(share, 0.05, 0.95) * (high[rows] - low[rows])
        found = measure(rows, middle)
        under = found < target[rows]
        _replace(low, below, rows[under], middle[under], found[under])
        _replace(high, above, rows[~under], middle[~under], found[~under])
        closer = np.abs(found - target[rows]) < np.abs(nearest[rows] - target[rows])
        _replace(best, nearest, rows[closer], middle[closer], found[closer])
    return best, nearest


def _replace(
    place: Real, value: Real, rows: NDArray[np.int64], new_place: Real, new_value: Real
) -> None:
    place[rows], value[rows] = new_place, new_value
