"""A number with its intervals: what resampled sets of pictures say about how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eyechart.curves.curve import percentile_interval

Interval = tuple[float, float]
Real = NDArray[np.float64]

LEVELS = (0.95, 0.83)
ENOUGH = 40
"""Pictures from which on resampling them is trusted: 8 categories of 5."""

ROUNDING = 1e-9
"""By how much the area of a curve may miss 0 or 1 where every prediction is alike."""


@dataclass(frozen=True)
class Estimate:
    """A number with the intervals that hold it in 95 % and 83 % of resampled sets of pictures.

    `replicates`: the number in each of those sets. All estimates of a run resample the pictures
    alike, so that the first replicate of one belongs to the first of any other. One that leaves the
    number undetermined is NaN, and so are the ends of an interval if too many of them do.
    """

    value: float
    interval: Interval
    narrow_interval: Interval
    replicates: Real = field(compare=False, repr=False)


def make_estimate(
    value: float, replicates: Real, pictures: int | None = None, variance: float | None = None
) -> Estimate:
    """Return a number with percentile intervals, for a share at least as wide as Wilson's.

    Resampling cannot know of errors that no image shows: if 271 of 271 images are correct, so is
    every replicate, and percentiles have no width. Wilson's interval for as many images has. Its
    variance is that of the score: several samples of an image, or several corruptions, make a mean
    over images vary less than correct and incorrect do. Below `ENOUGH` images that variance is not
    trusted, and the largest that a share can have takes its place.

    Args:
        value: The score; only one in 0…1 is a share.
        replicates: The score in each bootstrap replicate.
        pictures: How many images it is a mean over; None for a score of another kind, such as a
            ratio or κ, whose intervals stay percentiles.
        variance: Of the score; that of its replicates unless given.
    """
    intervals = [percentile_interval(replicates, level) for level in LEVELS]
    if pictures is not None and -ROUNDING <= value <= 1 + ROUNDING:
        share = min(1.0, max(0.0, value))
        if variance is None:
            variance = float(replicates.var())
        known = variance if pictures >= ENOUGH else None
        for place, level in enumerate(LEVELS):
            least, most = wilson_interval(share, pictures, level, known)
            low, high = intervals[place]
            intervals[place] = (min(low, least), max(high, most))
    return Estimate(value, intervals[0], intervals[1], replicates)


def mean_estimate(estimates: Sequence[Estimate], pictures: int | None = None) -> Estimate:
    """Return the mean of numbers of the same pictures, such as of all corruptions."""
    value = float(np.mean([each.value for each in estimates]))
    replicates = np.mean([each.replicates for each in estimates], axis=0)
    return make_estimate(value, replicates, pictures)


def complement(estimate: Estimate) -> Estimate:
    """Return 1 less a share: the error for an accuracy."""
    (low, high), (near, far) = estimate.interval, estimate.narrow_interval
    return Estimate(
        1 - estimate.value, (1 - high, 1 - low), (1 - far, 1 - near), 1 - estimate.replicates
    )


def wilson_interval(
    share: float, count: int, level: float, variance: float | None = None
) -> Interval:
    """Return Wilson's score interval of a share of so many independent cases.

    `variance`: of the share, if it is not p(1 − p)/n, as for the mean of cases in 0…1; without any
    variance a share of 0 or 1 still has the width of `count` cases that are all alike.
    """
    z = float(ndtri((1 + level) / 2))
    if variance is None:
        variance = share * (1 - share) / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * sqrt(variance + z * z / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)
