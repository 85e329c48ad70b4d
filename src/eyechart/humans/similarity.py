"""Do two corruptions look alike to people? By the intervals of their curves, and by asking."""

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.curves.curve import Curve

LEVEL = 0.83
"""Two such intervals that just touch differ at about 5 %, if they are equally wide."""

GRID = np.linspace(0, 1, 1001)


def bands_apart(one: Curve, two: Curve, level: float = LEVEL) -> list[tuple[float, float]]:
    """Return the stretches of Δv in which the bands of two curves do not overlap.

    Only where both were observed counts: elsewhere, as next to an anchor that is one number, bands
    can be narrower than what is known. No stretch: nothing speaks against their being alike.
    """
    both = one.is_observed(GRID) & two.is_observed(GRID)
    if not both.any():
        raise UsageError("The two have no range of visual change in common.")
    (low_one, high_one), (low_two, high_two) = one.band(GRID, level), two.band(GRID, level)
    apart = ((low_one > high_two) | (low_two > high_one)) & both
    turns = np.flatnonzero(np.diff(np.r_[False, apart, False].astype(int)))
    return [
        (float(GRID[start]), float(GRID[end - 1]))
        for start, end in zip(turns[::2], turns[1::2], strict=True)
    ]
