"""The ends of an interval in text, also where it is undetermined."""

import math

UNDETERMINED = "undetermined"

Ends = tuple[float | None, float | None]


def known(end: float | None) -> float | None:
    """Return the end of an interval, None if it is undetermined (NaN): an empty cell of a file."""
    return None if end is None or math.isnan(end) else end


def interval_text(ends: Ends, decimals: int, scale: float = 1) -> str:
    """Return both ends times `scale`, as "0.12–0.34", or "undetermined"."""
    low, high = map(known, ends)
    if low is None or high is None:
        return UNDETERMINED
    return f"{scale * low:.{decimals}f}–{scale * high:.{decimals}f}"
