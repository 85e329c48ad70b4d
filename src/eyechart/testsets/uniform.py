"""Uniform visual change: which strength of a corruption gives a drawn Δv on a picture.

For each row the random part stays as it is while the strength moves along the corruption's path
from nothing (severity 0) to its end (severity 5); so Δv is a function of one number, and a root is
bracketed from the start.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

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


def draw_targets(
    low: Real, high: Real, names: Sequence[str], count: int, edges: Real, seed: int
) -> Real:
    """Return a Δv for `count` of the rows, spread evenly over the bins; NaN for other rows.

    `low` and `high`: between what a row's Δv can lie; `names` make its place in the draw. Every bin
    gets an equal share of what is left to give, those that the fewest rows reach first; within a
    bin targets are drawn uniformly.
    """
    chance = np.array([hash64(seed, "order", name) for name in names], dtype=np.float64)
    spread = np.array([hash64(seed, "target", name) / 2**64 for name in names])
    target = np.full(len(low), np.nan)
    able = [(high > start) & (low < end) for start, end in pairwise(edges)]
    reached = [place for place, own in enumerate(able) if own.any()]
    left = min(count, int(np.any(able, axis=0).sum()))
    order = sorted(reached, key=lambda place: int(able[place].sum()))
    for number, place in enumerate(order):
        start, end = edges[place], edges[place + 1]
        free = np.flatnonzero(able[place] & np.isnan(target))
        # those that reach through the bin before those that end in it, else as chance will
        partly = (high[free] < end) | (low[free] > start)
        chosen = free[np.lexsort((chance[free], partly))][: -(-left // (len(order) - number))]
        first, last = np.maximum(start, low[chosen]), np.minimum(end, high[chosen])
        target[chosen] = first + spread[chosen] * (last - first)
        left -= len(chosen)
    return target


def choose_levels(found: Real, names: Sequence[str], count: int, edges: Real, seed: int) -> Whole:
    """Return for each row which of its Δv in `found` (levels × rows) it is to have; −1 for none.

    The counterpart of `draw_targets` where strength has a few levels only: `count` rows are spread
    over the bins as evenly as their levels allow, the bins that the fewest rows reach first.
    """
    chance = np.array([hash64(seed, "order", name) for name in names], dtype=np.float64)
    chosen = np.full(found.shape[1], -1)
    bins = len(edges) - 1
    with np.errstate(invalid="ignore"):
        inside = (found >= edges[0]) & (found <= edges[-1])
    place_of = np.where(inside, np.searchsorted(edges[1:-1], found, side="right"), -1)
    able = [(place_of == place).any(axis=0) for place in range(bins)]
    usable = np.any(able, axis=0)
    order = sorted(
        (place for place in range(bins) if able[place].any()), key=lambda p: int(able[p].sum())
    )
    left = min(count, int(usable.sum()))
    for number, place in enumerate(order):
        free = np.flatnonzero(able[place] & (chosen < 0))
        own = free[np.argsort(chance[free])][: -(-left // (len(order) - number))]
        chosen[own] = (place_of[:, own] == place).argmax(axis=0)
        left -= len(own)
    # what the last bins had no rows for goes to rows that are free, at a level of theirs
    free = np.flatnonzero(usable & (chosen < 0))
    rest = free[np.argsort(chance[free])][:left]
    chosen[rest] = inside[:, rest].argmax(axis=0)
    return chosen


def find_strengths(
    target: Real, mildest: float, lowest: Real, reach: Real, measure: Measure
) -> tuple[Real, Real]:
    """Return the severity of each row whose Δv is nearest to its target, and that Δv.

    At severity `mildest` Δv is `lowest`, at the end of the path it is `reach`. The bracket is
    shortened by false position in turn with halving, until Δv is close enough; the best of all that
    was tried counts.
    """
    count = len(target)
    low, high = np.full(count, mildest), np.full(count, STRONGEST)
    below, above = lowest.copy(), reach.copy()
    nearer = np.abs(target - lowest) < np.abs(target - reach)
    best, nearest = np.where(nearer, low, high), np.where(nearer, lowest, reach)
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
