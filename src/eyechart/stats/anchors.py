"""The right anchor: the value of a curve at Δv = 1, set by one rule for models and humans."""

import numpy as np

from eyechart.core.arguments import as_within, brief
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.stats.curve_settings import RIGHT_ANCHORS


def check_right_anchor(anchor: str | float) -> None:
    """Raise a UsageError unless this is a valid right anchor."""
    if isinstance(anchor, str) and anchor not in RIGHT_ANCHORS:
        raise UsageError(
            f"right_anchor must be {', '.join(RIGHT_ANCHORS)} or a number in [0, 1], got"
            f" {brief(anchor)}."
        )
    if not isinstance(anchor, str):
        as_within(anchor, "right_anchor", 0, 1)


def right_end(
    anchor: str | float,
    start: float | None,
    chance: float,
    measured: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> float | FloatArray | None:
    """Return the right anchor for `fit_curve`, or None if `anchor` is "none".

    Args:
        anchor: One of RIGHT_ANCHORS, or a rate in [0, 1].
        start: The rate at Δv = 0, which a falling curve cannot exceed; None if unknown.
        chance: The hit rate of random guessing.
        measured: Whether the prediction for each destroyed image is a hit. If None, "measured"
            means chance.
        weights: The weight of each value of `measured`.

    Returns:
        A rate, or one value per image; None if curves have no right anchor.

    Example:
        >>> right_end("chance", start=0.9, chance=0.0625)
        0.0625
    """
    check_right_anchor(anchor)
    if anchor == "none":
        return None
    if anchor == "measured" and measured is not None:
        # a curve cannot rise: above its start, the start itself is the anchor
        is_falling = start is None or np.average(measured, weights=weights) <= start
        return measured if is_falling else start
    # "measured" without measurements means chance, as for humans, who were not shown destroyed
    # images
    end = chance if isinstance(anchor, str) else float(anchor)
    return end if start is None else min(start, end)
