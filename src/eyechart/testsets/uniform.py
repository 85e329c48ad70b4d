"""Uniform visual change: the Δv that a sample can reach, and the strength for a target Δv.

The random part of a sample stays fixed while the strength moves along the corruption's path from
the clean image (severity 0) to its end (severity 5). Δv is therefore a function of one number, and
its target is bracketed from the start.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.corruptions.suites.suite import STRONGEST
from eyechart.images.imageset import ImageSet
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples, mildest, severities_of, with_values
from eyechart.testsets.stimuli import CleanImages, split_into_batches

CLOSE = 0.004
"""Tolerance of Δv around its target: about a sixth of a bin."""

MOST_STEPS = 14
"""Maximum number of steps per sample; with integer kernel sizes, Δv may never get close enough."""

NARROWEST = 1e-4
"""Width of the bracket, in severities, below which the search stops."""

Measure = Callable[[IntArray, FloatArray], FloatArray]
"""A function that returns Δv for rows and their severities."""

# The number of bins of the published coverage tables.
TARGET_BINS = 39


def draw_targets(
    low: FloatArray,
    high: FloatArray,
    names: Sequence[str],
    count: int,
    edges: FloatArray,
    *,
    seed: int,
) -> FloatArray:
    """Return a target Δv for `count` samples, spread evenly over the bins; NaN for other samples.

    Args:
        low: Smallest Δv that each sample can have.
        high: Largest Δv that each sample can have.
        names: Name of each sample, which determines its random numbers.
        count: Number of samples to use.
        edges: Edges of the bins.
        seed: The seed.

    Returns:
        The target of each sample, drawn uniformly within its bin.
    """
    spread = np.array([hash64(seed, "target", name) / 2**64 for name in names])
    target = np.full(len(low), np.nan)
    # A sample can be in a bin if its range of Δv overlaps with it.
    able = np.array([(high > start) & (low < end) for start, end in pairwise(edges)])
    for bin_number, chosen in _share_out(able, count, names, seed):
        first = np.maximum(edges[bin_number], low[chosen])
        last = np.minimum(edges[bin_number + 1], high[chosen])
        target[chosen] = first + spread[chosen] * (last - first)
    return target


def choose_levels(
    delta_v: FloatArray, names: Sequence[str], count: int, edges: FloatArray, seed: int
) -> IntArray:
    """Return the index of each sample's level in `delta_v` (levels × samples); −1 if not used.

    This is the counterpart of `draw_targets` for strengths with only a few levels.
    """
    chosen = np.full(delta_v.shape[1], -1)
    # Δv is NaN where it is undefined; such samples are in no bin.
    with np.errstate(invalid="ignore"):
        inside = (delta_v >= edges[0]) & (delta_v <= edges[-1])
    place_of = np.where(inside, np.searchsorted(edges[1:-1], delta_v, side="right"), -1)
    able = np.array([(place_of == bin_number).any(axis=0) for bin_number in range(len(edges) - 1)])
    for bin_number, chosen_rows in _share_out(able, count, names, seed):
        chosen[chosen_rows] = (place_of[:, chosen_rows] == bin_number).argmax(axis=0)
    return chosen


def _share_out(
    able: NDArray[np.bool_], count: int, names: Sequence[str], seed: int
) -> Iterator[tuple[int, IntArray]]:
    """Assign `count` rows to bins as evenly as possible, and yield each bin with its rows.

    `able` (bins × rows) states whether a row can be in a bin. Rows are assigned at random, first to
    the bins that most rows can reach, so that bins of small Δv contain rows of both small and large
    reach. If too few rows are left for bins of large Δv, the other bins get more rows.
    """
    chance = np.array([hash64(seed, "order", name) for name in names], dtype=np.float64)
    reached = able.sum(axis=1)
    order = np.argsort(-reached, kind="stable")
    order = order[reached[order] > 0]
    free = np.array(able.any(axis=0))
    left = min(count, int(free.sum()))
    quota = _quotas(reached[order], left)
    while left and len(order):
        for bin_number, most in zip(order.tolist(), quota.tolist(), strict=True):
            rows = np.flatnonzero(able[bin_number] & free)
            rows = rows[np.argsort(chance[rows])][: min(most, left)]
            free[rows] = False
            left -= len(rows)
            if len(rows):
                yield bin_number, rows
        # Further rounds among the bins that still have free rows.
        order = order[[bool((able[bin_number] & free).any()) for bin_number in order]]
        quota = np.full(len(order), max(1, -(-left // max(len(order), 1))))


def _quotas(reached: IntArray, count: int) -> IntArray:
    """Return how many of `count` rows each bin gets: an equal number, if enough rows reach it."""
    quota = np.zeros(len(reached), dtype=np.int64)
    left = count
    # From the rarest bin to the most common, so that the rest of a rare bin's share is passed on.
    for number, bin_number in enumerate(np.argsort(reached, kind="stable")):
        quota[bin_number] = min(int(reached[bin_number]), -(-left // (len(reached) - number)))
        left -= int(quota[bin_number])
    return quota


def find_strengths(
    target: FloatArray, mildest: float, lowest: FloatArray, reach: FloatArray, measure: Measure
) -> tuple[FloatArray, FloatArray]:
    """Return, for each row, the severity whose Δv is nearest to the target, and that Δv.

    Δv is `lowest` at severity `mildest` and `reach` at the end of the path. Bisection alternates
    with the method of false position until Δv is close enough; the best of all tried severities is
    returned.
    """
    count = len(target)
    low, high = np.full(count, mildest), np.full(count, STRONGEST)
    below, above = lowest.copy(), reach.copy()
    # Start with the closer end of the path, in case no step comes closer.
    nearer = np.abs(target - lowest) < np.abs(target - reach)
    best, nearest = np.where(nearer, low, high), np.where(nearer, lowest, reach)
    for step in range(MOST_STEPS):
        with np.errstate(invalid="ignore"):
            open_rows = (np.abs(nearest - target) > CLOSE) & (high - low > NARROWEST)
        rows = np.flatnonzero(open_rows)
        if not len(rows):
            break
        middle = (low[rows] + high[rows]) / 2
        # False position alone may creep towards the root from one side; bisection halves the
        # bracket.
        if step % 2:
            # Δv may be equal at both ends; the quotient is clipped below.
            share = (target[rows] - below[rows]) / np.maximum(above[rows] - below[rows], 1e-9)
            # Away from both ends, since a step onto an end would not shorten the bracket.
            middle = low[rows] + np.clip(share, 0.05, 0.95) * (high[rows] - low[rows])
        delta_v = measure(rows, middle)
        under = delta_v < target[rows]
        _replace(low, below, rows[under], middle[under], delta_v[under])
        _replace(high, above, rows[~under], middle[~under], delta_v[~under])
        closer = np.abs(delta_v - target[rows]) < np.abs(nearest[rows] - target[rows])
        _replace(best, nearest, rows[closer], middle[closer], delta_v[closer])
    return best, nearest


def _replace(
    severity: FloatArray,
    value: FloatArray,
    rows: NDArray[np.int64],
    new_severity: FloatArray,
    new_value: FloatArray,
) -> None:
    severity[rows], value[rows] = new_severity, new_value


@dataclass(frozen=True, eq=False)
class Reach:
    """The range of Δv that each sample can have, and its target: NaN for samples not used.

    `severity`: NaN if it still has to be found.
    """

    lowest: FloatArray
    highest: FloatArray
    target: FloatArray
    severity: FloatArray

    def take(self, places: IntArray) -> "Reach":
        """Return a subset: the samples at these positions."""
        return Reach(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


def measure_ends(
    images: ImageSet, clean_images: CleanImages, samples: Samples, plan: Plan
) -> FloatArray:
    """Return Δv (severities × samples) of candidates in one block of images.

    The severities are both ends of the strength path, or all levels if there are only a few.
    """
    assert samples.entry is not None
    severities = severities_of(samples.entry)
    reached = np.full((len(severities), len(samples)), np.nan)
    # From strong to mild: the last level is needed for severity 0 below.
    for level, severity in reversed(list(enumerate(severities))):
        if severity:
            at = np.full(len(samples), severity)
            reached[level] = measure_at(images, clean_images, samples, at, plan)
        elif plan.jpeg is not None:
            # Stored as JPEG, even the uncorrupted image changes.
            clean = replace(samples, severity=np.zeros(len(samples)), values={})
            reached[level] = measure(clean_images, clean)
        else:
            # Severity 0 is the clean image: Δv is 0, or NaN where it is undefined.
            reached[level] = reached[-1] * 0
    return reached


def find_targets(images: ImageSet, pool: Samples, delta_v: FloatArray, plan: Plan) -> Reach:
    """Return the Δv range of every sample in a pool, and the targets of the samples to use.

    `delta_v`: Δv at the measured severities (severities × samples).
    """
    assert pool.entry is not None
    # Targets depend on image and draw only, not on the order of the pool.
    names = [
        f"{pool.name} {images.digests[image]} {draw}"
        for image, draw in zip(pool.image, pool.draw, strict=True)
    ]
    severities = severities_of(pool.entry)
    # Targets are balanced over the bins in which coverage is counted.
    edges = np.linspace(*plan.delta_v, TARGET_BINS + 1)
    # Two severities are the ends of a continuous path; more are the complete list of levels.
    if len(severities) == 2:
        target = draw_targets(delta_v[0], delta_v[1], names, plan.n, edges, seed=plan.seed)
        _check_reach(pool, plan, target, delta_v)
        return Reach(delta_v[0], delta_v[1], target, np.full(len(pool), np.nan))
    chosen = choose_levels(delta_v, names, plan.n, edges, plan.seed)
    used, rows = chosen >= 0, np.arange(len(pool))
    target = np.where(used, delta_v[chosen, rows], np.nan)
    _check_reach(pool, plan, target, delta_v)
    return Reach(delta_v[0], delta_v[-1], target, np.where(used, severities[chosen], np.nan))


def _check_reach(pool: Samples, plan: Plan, target: FloatArray, delta_v: FloatArray) -> None:
    if np.isnan(target).all():
        low, high = plan.delta_v
        seen = delta_v[~np.isnan(delta_v)]
        reach = (
            f"only from {seen.min():.2f} to {seen.max():.2f}"
            if len(seen)
            else "because it is undefined for all of them"
        )
        raise UsageError(
            f"{pool.name} does not reach a Δv between {low:g} and {high:g} on these images, "
            f"{reach}: widen delta_v, or omit the corruption."
        )


def find_values(
    images: ImageSet, clean_images: CleanImages, samples: Samples, reach: Reach, plan: Plan
) -> Samples:
    """Return samples of one block of images with the strengths that give the target Δv."""
    assert samples.entry is not None

    def measure_some(rows: IntArray, severity: FloatArray) -> FloatArray:
        return measure_at(images, clean_images, samples.take(rows), severity, plan)

    severity = reach.severity
    if np.isnan(severity).any():
        severity, _ = find_strengths(
            reach.target, mildest(samples.entry), reach.lowest, reach.highest, measure_some
        )
    return with_values(images, replace(samples, severity=severity), plan.seed)


def measure_at(
    images: ImageSet, clean_images: CleanImages, samples: Samples, severity: FloatArray, plan: Plan
) -> FloatArray:
    """Return Δv of these samples at these severities."""
    return measure(
        clean_images, with_values(images, replace(samples, severity=severity), plan.seed)
    )


def measure(clean_images: CleanImages, samples: Samples) -> FloatArray:
    """Return Δv of these samples, computed in batches."""
    parts = split_into_batches(samples, clean_images)
    return np.concatenate([clean_images.make(part).delta_v.cpu().numpy() for part in parts])
