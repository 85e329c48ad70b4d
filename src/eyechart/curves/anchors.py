"""Where curves end at Δv 1: what may be asked for, and the one rule for models and for humans."""

import numpy as np

from eyechart.core.arguments import as_within, brief
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.curves.curve_settings import RIGHT_ANCHORS


def check_right_anchor(anchor: str | float) -> None:
    """Raise a UsageError unless curves can end so."""
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
    """Return the right anchor of `fit_curve`, None where nothing is assumed.

    Args:
        anchor: One of RIGHT_ANCHORS, or a rate in 0…1.
        start: The rate at Δv 0, which a falling curve cannot end above; None if unknown.
        chance: The rate that guessing has.
        measured: Whether the response to each image, destroyed, is a hit. Without it "measured" is
            chance.
        weights: How much each of `measured` counts.
    """
    check_right_anchor(anchor)
    if anchor == "none":
        return None
    if anchor == "measured" and measured is not None:
        is_falling = start is None or np.average(measured, weights=weights) <= start
        return measured if is_falling else start
    end = chance if isinstance(anchor, str) else float(anchor)
    return end if start is None else min(start, end)
