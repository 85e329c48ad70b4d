"""The axis `human`: a monotone map from a ruler's value to the expected loss of human accuracy."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from eyechart.core.arrays import FloatArray

KNOTS = np.linspace(0, 1, 21)
"""Values of the ruler between which the map is a straight line."""

MIN_SLOPE = 0.01
"""Minimum slope of the map, so that it can be inverted."""

EXACT = 1e3
"""Weight of the condition that a value of 1 is a loss of 1."""


@dataclass(frozen=True, eq=False)
class HumanMap:
    """A strictly increasing map with value 0 at 0 and 1 at 1, straight between its knots."""

    values: FloatArray
    losses: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the expected loss of human accuracy at these values of the ruler."""
        return np.asarray(np.interp(values, self.values, self.losses))

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """The knots as pairs of value and loss."""
        pairs = zip(self.values.tolist(), self.losses.tolist(), strict=True)
        return tuple((round(value, 6), round(loss, 6)) for value, loss in pairs)


def fit_human_map(values: FloatArray, accuracy: FloatArray) -> HumanMap:
    """Return the map whose mean over images is closest to the human loss in each condition.

    The mean of the mapped values is linear in the map's increments between knots, so the best map
    is a least-squares problem with increments that must not be negative. Mapping the mean value of
    a condition instead would ignore that its images differ.

    Args:
        values: A ruler's value for each image in each condition, (images, conditions).
        accuracy: The rescaled human accuracy in each condition.

    Example:
        >>> values = np.linspace(0, 1, 30)[None]
        >>> fitted = fit_human_map(values, 1 - values[0])  # a ruler that is the loss itself
        >>> bool(np.allclose(fitted(values), values, atol=1e-3))
        True
    """
    widths = np.diff(KNOTS)
    # how much of each step between knots lies below the value
    steps = np.clip((values[..., None] - KNOTS[:-1]) / widths, 0, 1)
    means = np.nanmean(steps, axis=0)
    least = MIN_SLOPE * widths
    rows = np.vstack([means, EXACT * np.ones(len(widths))])
    # nnls fits only what exceeds the minimum slope, so that its bound of 0 enforces the minimum
    targets = np.append(1 - accuracy, EXACT) - rows @ least
    increments = nnls(rows, targets)[0] + least
    losses = np.append(0.0, np.cumsum(increments))
    # the large weight makes the last loss almost 1; the division makes it exactly 1
    return HumanMap(KNOTS, losses / losses[-1])
