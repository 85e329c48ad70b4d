"""A score with its bootstrap replicates and confidence intervals.

The replicates come from `bootstrap`; the caller chooses the units.
"""

import operator
from collections.abc import Callable, Sequence
from math import isnan
from numbers import Real as Number
from typing import TypeGuard

import numpy as np
from pydantic import PrivateAttr

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.records import NaNFloat, Record
from eyechart.stats.intervals import (
    CONFIDENCE,
    PUBLISHED_LEVEL,
    Interval,
    hull,
    percentile_interval,
    percentile_intervals,
    percentiles_of,
    small_sample_factor,
    wilson_interval,
)

LEVELS = (CONFIDENCE, PUBLISHED_LEVEL)
"""The confidence levels of the two intervals that every estimate has."""

ENOUGH = 40
"""Minimum number of units to trust the replicates' variance: 5 images in each of 8 categories."""

ROUNDING = 1e-9
"""Maximum rounding error of a proportion: the area of a curve may be slightly beyond 0 or 1."""


def _comparison(
    compare: Callable[[float, float], bool],
) -> Callable[["Estimate", object], bool]:
    """Return the method that compares an estimate with a number or another estimate."""

    def compared(estimate: "Estimate", other: object) -> bool:
        # For other types, Python raises a TypeError.
        return compare(estimate.value, float(other)) if _is_number(other) else NotImplemented

    return compared


def _calculation(
    calculate: Callable[[float, float], float],
) -> Callable[["Estimate", object], float]:
    """Return the method that calculates with an estimate and a number or another estimate."""

    def calculated(estimate: "Estimate", other: object) -> float:
        # For other types, Python raises a TypeError.
        return (
            float(calculate(estimate.value, float(other))) if _is_number(other) else NotImplemented
        )

    return calculated


def _is_number(other: object) -> TypeGuard["float | Estimate"]:
    return isinstance(other, Number | Estimate)


class Estimate(Record):
    """A score with its confidence intervals, from bootstrap replicates.

    Estimates can be formatted, ordered and used in calculations like numbers; calculations return
    plain numbers. `==` compares whole estimates, including their intervals.

    Example:
        >>> import numpy as np
        >>> from eyechart.stats.estimate import make_estimate
        >>> share = make_estimate(0.5, np.linspace(0.4, 0.6, 101))
        >>> f"{share:.2f}", share.interval(0.9)
        ('0.50', (0.41..., 0.59...))
        >>> share > 0.4, 1 - share
        (True, 0.5)
        >>> share
        0.500 (0.405–0.595)
    """

    value: NaNFloat
    """The score; null (in Python NaN) where it is undetermined."""
    interval95: tuple[NaNFloat, NaNFloat]
    """Both ends of the 95 % interval; null if the score is defined in too few replicates."""
    interval83: tuple[NaNFloat, NaNFloat]
    """Both ends of the 83 % interval, which the published rule compares."""

    _replicates: FloatArray = PrivateAttr(default_factory=lambda: np.empty(0))

    @classmethod
    def of(
        cls, value: float, interval95: Interval, interval83: Interval, replicates: FloatArray
    ) -> "Estimate":
        """Return an estimate that keeps its replicates."""
        estimate = cls(value=value, interval95=interval95, interval83=interval83)
        estimate.attach(replicates)
        return estimate

    def attach(self, replicates: FloatArray) -> None:
        """Attach the replicates of an estimate that was read without them."""
        self._replicates = replicates

    @property
    def replicates(self) -> FloatArray:
        """The score in each bootstrap replicate, NaN where it is undetermined.

        All estimates of a run are resampled identically: replicate i of one corresponds to
        replicate i of any other. The array is empty if the replicates were not kept, as in results
        read from a file.
        """
        return self._replicates

    @property
    def is_known(self) -> bool:
        """Whether the score is determined."""
        return not isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether both ends of the 95 % interval are determined."""
        return not any(isnan(end) for end in self.interval95)

    def interval(self, level: float = CONFIDENCE) -> Interval:
        """Return the confidence interval at a level.

        The intervals at 0.95 and 0.83 are always available; others are percentiles of the
        replicates.
        """
        if level in LEVELS:
            return (self.interval95, self.interval83)[LEVELS.index(level)]
        if not len(self._replicates):
            raise UsageError(f"Without replicates only the intervals at {LEVELS} are available.")
        return percentile_interval(self._replicates, level)

    def __eq__(self, other: object) -> bool:
        # Compared as written: undetermined values (NaN) are equal to each other.
        if not isinstance(other, Estimate):
            return NotImplemented
        return type(self) is type(other) and self.model_dump_json() == other.model_dump_json()

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    def __float__(self) -> float:
        return self.value

    def __array__(
        self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None
    ) -> np.ndarray[tuple[()], np.dtype[np.generic]]:
        # NumPy would otherwise calculate with arrays of objects.
        return np.array(self.value, dtype)

    def __str__(self) -> str:
        low, high = self.interval95
        return f"{self.value:.3f} ({low:.3f}–{high:.3f})"

    # Every estimate of a run in full would be unreadable in a notebook.
    __repr__ = __str__

    def __format__(self, style: str) -> str:
        return format(self.value, style) if style else str(self)

    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    __add__ = __radd__ = _calculation(operator.add)
    __mul__ = __rmul__ = _calculation(operator.mul)
    __sub__ = _calculation(operator.sub)
    __rsub__ = _calculation(lambda value, other: other - value)
    __truediv__ = _calculation(operator.truediv)
    __rtruediv__ = _calculation(lambda value, other: other / value)

    def __neg__(self) -> float:
        return -self.value

    def __abs__(self) -> float:
        return abs(self.value)

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)


def make_estimate(
    value: float, replicates: FloatArray, n_units: int | None = None, variance: float | None = None
) -> Estimate:
    """Return a score with percentile intervals, at least as wide as Wilson's for proportions.

    Intervals of proportions over few units are also widened by `small_sample_factor`.

    The bootstrap cannot estimate the rate of errors that did not occur: if 271 of 271 images are
    correct, so is every replicate, and the percentile interval has width 0; Wilson's interval for
    271 images does not. Wilson's interval is computed with the variance of the score, because
    several samples per image, or several corruptions, make a mean over images vary less than a
    single 0 or 1 per image. Below `ENOUGH` units that variance is not trusted, and the largest
    possible variance of a proportion is used.

    Args:
        value: The score; it is treated as a proportion only if it is in [0, 1].
        replicates: The score in each bootstrap replicate.
        n_units: The number of units over which the score is a mean; None for scores that are not
            proportions, such as a ratio or κ, which have plain percentile intervals.
        variance: The variance of the score; by default the variance of its replicates.

    Example:
        >>> make_estimate(1.0, np.ones(1000), n_units=271).interval95
        (0.98602..., 1.0)
    """
    intervals = percentile_intervals(replicates, LEVELS)
    if n_units is not None and -ROUNDING <= value <= 1 + ROUNDING:
        if variance is None:
            variance = float(replicates.var())
        intervals = _of_proportion(intervals, value, n_units, variance)
    return Estimate.of(value, intervals[0], intervals[1], replicates)


def make_estimates(values: FloatArray, replicates: FloatArray, n_units: IntArray) -> list[Estimate]:
    """Return many proportions with their intervals: those of `make_estimate`, but faster.

    Args:
        values: The proportions.
        replicates: The replicates of each proportion, (n_proportions, n_bootstrap). NaN marks a
            replicate without any unit; it counts as the proportion itself.
        n_units: The number of units of each proportion.

    Example:
        >>> shares = np.array([0.25, 0.5])
        >>> [f"{share:.2f}" for share in make_estimates(shares, shares[:, None], np.array([9, 9]))]
        ['0.25', '0.50']
    """
    known = np.where(np.isnan(replicates), values[:, None], replicates)
    ends = np.percentile(known, percentiles_of(LEVELS), axis=1).T.tolist()
    estimates = []
    for value, row, variance, units, (low, high, near, far) in zip(
        values.tolist(), known, known.var(axis=1).tolist(), n_units.tolist(), ends, strict=True
    ):
        wide, narrow = _of_proportion([(low, high), (near, far)], value, units, variance)
        estimates.append(Estimate.of(value, wide, narrow, row))
    return estimates


def _of_proportion(
    intervals: Sequence[Interval], value: float, n_units: int, variance: float
) -> list[Interval]:
    """Return the percentile intervals, widened for few units and as wide as Wilson's."""
    share = min(1.0, max(0.0, value))
    # None lets Wilson's interval use p(1 − p)/n, the largest variance of a share
    known = variance if n_units >= ENOUGH else None
    widened = []
    for (low, high), level in zip(intervals, LEVELS, strict=True):
        factor = small_sample_factor(n_units, level)
        # A percentile may lie beyond the share, on the other side of it.
        wide = (
            min(low, max(0.0, share - factor * (share - low))),
            max(high, min(1.0, share + factor * (high - share))),
        )
        # the hull of both: percentiles where they are wider, Wilson where they collapse
        widened.append(hull(wide, wilson_interval(share, n_units, level, known)))
    return widened


def mean_estimate(estimates: Sequence[Estimate], n_units: int | None = None) -> Estimate:
    """Return the mean of scores over the same units, such as the scores of all corruptions.

    Example:
        >>> scores = [make_estimate(value, np.full(100, value)) for value in (0.5, 0.75)]
        >>> float(mean_estimate(scores))
        0.625
    """
    value = float(np.mean([estimate.value for estimate in estimates]))
    # Replicate i of all scores contains the same images, so that the mean keeps their correlation.
    replicates = np.mean([estimate.replicates for estimate in estimates], axis=0)
    return make_estimate(value, replicates, n_units)


def complement(estimate: Estimate) -> Estimate:
    """Return 1 minus a proportion, such as the error rate for an accuracy.

    Example:
        >>> float(complement(make_estimate(0.75, np.full(100, 0.75))))
        0.25
    """
    # the ends of the intervals trade places
    (low, high), (near, far) = estimate.interval95, estimate.interval83
    return Estimate.of(
        1 - estimate.value, (1 - high, 1 - low), (1 - far, 1 - near), 1 - estimate.replicates
    )
