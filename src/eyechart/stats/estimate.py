"""A score with its replicates and intervals: how sure it is.

The replicates come from `bootstrap`; what the units are is the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eyechart.stats.intervals import (
    FloatArray,
    Interval,
    hull,
    percentile_interval,
    wilson_interval,
)

LEVELS = (0.95, 0.83)
ENOUGH = 40
"""Units from which on resampling them is trusted: for images 8 categories of 5."""

ROUNDING = 1e-9
"""By how much the area of a curve may miss 0 or 1 where every prediction is alike."""


@dataclass(frozen=True)
class Estimate:
    """A score with the intervals that hold it in 95 % and 83 % of the bootstrap replicates.

    `replicates`: the score in each of them. All estimates of a run resample the units alike, so
    that the first replicate of one belongs to the first of any other. A replicate that leaves the
    score undetermined is NaN, and so are the ends of an interval if too many of them do.
    """

    value: float
    interval: Interval
    narrow_interval: Interval
    replicates: FloatArray = field(compare=False, repr=False)


def make_estimate(
    value: float, replicates: FloatArray, n_units: int | None = None, variance: float | None = None
) -> Estimate:
    """Return a score with percentile intervals, for a share at least as wide as Wilson's.

    Resampling cannot know of errors that no unit shows: if 271 of 271 images are correct, so is
    every replicate, and percentiles have no width. Wilson's interval for as many images has. Its
    variance is that of the score: several samples of an image, or several corruptions, make a mean
    over images vary less than correct and incorrect do. Below `ENOUGH` units that variance is not
    trusted, and the largest that a share can have takes its place.

    Args:
        value: The score; only one in 0…1 is a share.
        replicates: The score in each bootstrap replicate.
        n_units: How many units it is a mean over; None for a score of another kind, such as a
            ratio or κ, whose intervals stay percentiles.
        variance: Of the score; that of its replicates unless given.

    Example:
        >>> make_estimate(1.0, np.ones(1000), n_units=271).interval
        (0.98602276..., 1.0)
    """
    intervals = [percentile_interval(replicates, level) for level in LEVELS]
    if n_units is not None and -ROUNDING <= value <= 1 + ROUNDING:
        share = min(1.0, max(0.0, value))
        if variance is None:
            variance = float(replicates.var())
        known = variance if n_units >= ENOUGH else None
        floors = (wilson_interval(share, n_units, level, known) for level in LEVELS)
        intervals = [hull(*pair) for pair in zip(intervals, floors, strict=True)]
    return Estimate(value, intervals[0], intervals[1], replicates)


def mean_estimate(estimates: Sequence[Estimate], n_units: int | None = None) -> Estimate:
    """Return the mean of scores of the same units, such as of all corruptions."""
    value = float(np.mean([estimate.value for estimate in estimates]))
    replicates = np.mean([estimate.replicates for estimate in estimates], axis=0)
    return make_estimate(value, replicates, n_units)


def complement(estimate: Estimate) -> Estimate:
    """Return 1 less a share: the error for an accuracy."""
    (low, high), (near, far) = estimate.interval, estimate.narrow_interval
    return Estimate(
        1 - estimate.value, (1 - high, 1 - low), (1 - far, 1 - near), 1 - estimate.replicates
    )
