"""Break points: the visual change at which a curve has fallen halfway to chance."""

from math import isnan

import numpy as np
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray
from eyechart.stats.curve import Curve
from eyechart.stats.estimate import LEVELS, Estimate
from eyechart.stats.intervals import small_sample_factor
from eyechart.stats.pieces import stacked, values_at

GRID, GRID_PARTS = np.linspace(0, 1, 1001), 10

MIN_BEYOND = 10
"""Minimum number of samples at or beyond a break point: the last few samples of a robust model can
all be misses by chance."""


class BreakPoint(Estimate):
    """Δv₅₀: the smallest visual change at which a curve has fallen halfway to chance.

    Its value is null (in Python NaN) if the curve stays above that level over the whole observed
    range; the break point is then above `limit`. The upper end of an interval is null if it is
    above `limit`.

    Example:
        >>> import eyechart as ec
        >>> delta_v = np.linspace(0, 1, 2000)
        >>> curve = ec.fit_curve(delta_v, delta_v < 0.6, anchor=1.0, n_bootstrap=20)
        >>> find_break_point(curve, chance=0.0).text
        '0.60 (0.60–0.61)'
    """

    limit: float
    """Largest visual change with enough samples beyond it to show a break point."""

    @property
    def short_text(self) -> str:
        """The value with two decimals; "> 0.83" if the break point was not reached."""
        return f"> {self.limit:.2f}" if isnan(self.value) else f"{self.value:.2f}"

    @property
    def text(self) -> str:
        """The value with its 95 % interval: "0.66 (0.60–0.71)", "0.80 (> 0.72)" or "> 0.83"."""
        low, high = self.interval95
        if isnan(self.value):
            return self.short_text
        return f"{self.value:.2f} ({f'> {low:.2f}' if isnan(high) else f'{low:.2f}–{high:.2f}'})"


def find_break_point(curve: Curve, chance: float, n_units: int | None = None) -> BreakPoint | None:
    """Return the break point: where a curve has fallen halfway from its left anchor to chance.

    Args:
        curve: A curve with a left anchor.
        chance: The rate of guessing, which the curve approaches.
        n_units: The number of images; intervals are wider if there are few.

    Returns:
        The break point; None without a left anchor, or if the curve starts at chance.
    """
    if curve.left is None or curve.lefts is None or curve.left <= chance:
        return None
    # Counts from each bin on to the last: how many samples could show a break there.
    beyond = np.cumsum(curve.bins.counts[::-1])[::-1]
    enough = np.flatnonzero(beyond >= MIN_BEYOND)
    limit = float(curve.bins.edges[enough[-1]]) if len(enough) else 0.0
    (value,) = _first_below(stacked([curve.pieces]), np.array([(curve.left + chance) / 2]), limit)
    # A replicate may start below chance; its break point is 0.
    drawn = _first_below(curve.refits, (curve.lefts + chance) / 2, limit)
    intervals = [
        _interval(drawn, value, level, small_sample_factor(n_units), limit) for level in LEVELS
    ]
    # A break point in an unobserved range may be anywhere in that range.
    starts = [0.0, *(end for _, end in curve.observed)]
    stops = [*(start for start, _ in curve.observed), 1.0]
    for start, stop in zip(starts, stops, strict=True):
        if start < value < stop:
            intervals = [(min(low, start), max(high, stop)) for low, high in intervals]
    # Infinity is needed for percentiles only; elsewhere NaN marks an undetermined replicate.
    known = np.where(np.isinf(drawn), np.nan, drawn)
    point = BreakPoint(
        value=float(value) if np.isfinite(value) else float("nan"),
        interval95=intervals[0],
        interval83=intervals[1],
        limit=limit,
    )
    point.attach(known)
    return point


def _first_below(curves: PPoly, levels: FloatArray, limit: float) -> FloatArray:
    """Return the first `GRID` point at which each curve has fallen to its level, else infinity."""
    # in parts, whose values fit into a core's cache
    parts = np.array_split(GRID, GRID_PARTS)
    is_below = np.concatenate([values_at(curves, places) <= levels for places in parts])
    first = np.where(is_below.any(axis=0), GRID[is_below.argmax(axis=0)], np.inf)
    # Beyond the limit too few samples support the fall, or it is extrapolated.
    return np.where(first <= limit, first, np.inf)


def _interval(
    drawn: FloatArray, value: float, level: float, factor: float, limit: float
) -> tuple[float, float]:
    """Return the percentile interval; its upper end is NaN where it is beyond the limit."""
    tail = (1 - level) / 2
    # The ends are observed values: there is no interpolation towards infinity.
    low = float(np.quantile(drawn, tail, method="lower"))
    high = float(np.quantile(drawn, 1 - tail, method="higher"))
    # A break point that was not reached is infinite, and its interval is widened from the limit.
    middle = min(value, limit)
    low = max(0.0, middle - factor * (middle - min(low, limit)))
    high = middle + factor * (high - middle)
    return low, high if high <= limit else float("nan")
