"""Uniform visual change: which strength of a corruption gives a drawn Δv on a picture.

For each row the random part stays as it is while the strength moves along the corruption's path
from nothing (severity 0) to its end (severity 5); so Δv is a function of one number, and a root is
bracketed from the start.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eyechart.core.randomness import hash64
from eyechart.suites.suite import STRONGEST
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

    `low` and `high`: between what a row's Δv can lie; `names` make its place in the draw. Within a
    bin targets are drawn uniformly.
    """
    spread = np.array([hash64(seed, "target", name) / 2**64 for name in names])
    target = np.full(len(low), np.nan)
    able = np.array([(high > start) & (low < end) for start, end in pairwise(edges)])
    for place, chosen in _share_out(able, count, names, seed):
        first = np.maximum(edges[place], low[chosen])
        last = np.minimum(edges[place + 1], high[chosen])
        target[chosen] = first + spread[chosen] * (last - first)
    return target


def choose_levels(found: Real, names: Sequence[str], count: int, edges: Real, seed: int) -> Whole:
    """Return for each row which of its Δv in `found` (levels × rows) it is to have; −1 for none.

    The counterpart of `draw_targets` where strength has a few levels only.
    """
    chosen = np.full(found.shape[1], -1)
    with np.errstate(invalid="ignore"):
        inside = (found >= edges[0]) & (found <= edges[-1])
    place_of = np.where(inside, np.searchsorted(edges[1:-1], found, side="right"), -1)
    able = np.array([(place_of == place).any(axis=0) for place in range(len(edges) - 1)])
    for place, own in _share_out(able, count, names, seed):
        chosen[own] = (place_of[:, own] == place).argmax(axis=0)
    return chosen


def _share_out(
    able: NDArray[np.bool_], count: int, names: Sequence[str], seed: int
) -> Iterator[tuple[int, Whole]]:
    """Yield bins with the rows that they are given, `count` in all, as even as can be.

    `able` (bins × rows) says which rows can be in which bin. Bins that most rows reach choose
    first, by chance alone, so that near bins hold near and far reaching rows alike; what far bins
    then lack is given to the others.
    """
    chance = np.array([hash64(seed, "order", name) for name in names], dtype=np.float64)
    reached = able.sum(axis=1)
    order = np.argsort(-reached, kind="stable")
    order = order[reached[order] > 0]
    free = np.array(able.any(axis=0))
    left = min(count, int(free.sum()))
    quota = _quotas(reached[order], left)
    while left and len(order):
        for place, most in zip(order.tolist(), quota.tolist(), strict=True):
            rows = np.flatnonzero(able[place] & free)
            rows = rows[np.argsort(chance[rows])][: min(most, left)]
            free[rows] = False
            left -= len(rows)
            if len(rows):
                yield place, rows
        # a second round, and more, among bins that still have rows
        order = order[[bool((able[place] & free).any()) for place in order]]
        quota = np.full(len(order), max(1, -(-left // max(len(order), 1))))


def _quotas(reached: Whole, count: int) -> Whole:
    """Return even shares of `count` for bins, none more than the bin has rows, rarest last."""
    quota = np.zeros(len(reached), dtype=np.int64)
    left = count
    for number, place in enumerate(np.argsort(reached, kind="stable")):
        quota[place] = min(int(reached[place]), -(-left // (len(reached) - number)))
        left -= int(quota[place])
    return quota


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
