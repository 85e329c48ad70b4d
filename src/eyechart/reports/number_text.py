"""Numbers as text: scores with their intervals, ranks, and what stands where there is none."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # these bring torch along, which tables of overlaps can do without
    from eyechart.scores.registry import Score
    from eyechart.stats.estimate import Estimate

UNDETERMINED = "undetermined"
MISSING = "–"
"""What stands in a cell without a number."""

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


def estimate_texts(
    estimate: "Estimate", score: "Score", fewer_decimals: int = 1
) -> tuple[str, str]:
    """Return a score and its 95 % interval, percent where the field writes it so.

    `fewer_decimals`: that the interval has than the score.
    """
    value = f"{score.scale * estimate.value:.{score.decimals}f}" if estimate.is_known else MISSING
    decimals = score.decimals - fewer_decimals
    return value, interval_text(estimate.interval95, decimals, score.scale)


def rank_text(ends: tuple[float, float]) -> str:
    """Return between what a rank lies: "2–3", or "2" where that is one rank."""
    low, high = ends
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def p_value_text(p_value: float) -> str:
    """Return a p-value with three decimals."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
