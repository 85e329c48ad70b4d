"""Numbers as text: intervals of scores, visual changes, ranks, p-values, and missing values.

The decimals and the unit of a score are declared with the score: `Score.text`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # These import torch, which tables of overlaps do not need.
    from eyechart.scores.registry import Score
    from eyechart.stats.estimate import Estimate
    from eyechart.structure.study_results import AccuracyEstimate

UNDETERMINED = "undetermined"
MISSING = "–"
"""Content of a cell without a number."""

Interval = tuple[float | None, float | None]


def known(end: float | None) -> float | None:
    """Return the limit of an interval, or None (an empty cell) if it is undetermined (NaN)."""
    return None if end is None or math.isnan(end) else end


def interval_text(ends: Interval, text: Callable[[float], str]) -> str:
    """Return both limits, each formatted by `text`, as "0.12–0.34", or "undetermined"."""
    low, high = map(known, ends)
    if low is None or high is None:
        return UNDETERMINED
    return f"{text(low)}–{text(high)}"


def estimate_text(estimate: "Estimate | None", score: "Score") -> str:
    """Return a score without its interval, or a dash if there is none.

    A break point that was not reached is shown as "> x", where x is the largest Δv at which it
    could have been observed.
    """
    limit: float | None = getattr(estimate, "limit", None)
    if limit is not None and estimate is not None and not estimate.is_known:
        return f"> {score.text(limit, is_short=True)}"
    return MISSING if estimate is None or not estimate.is_known else score.text(estimate.value)


def estimate_texts(estimate: "Estimate", score: "Score", is_short: bool = True) -> tuple[str, str]:
    """Return a score and its 95 % interval; `is_short` gives the interval fewer decimals."""
    text = partial(score.text, is_short=is_short)
    if hasattr(estimate, "limit"):
        # A break point may be beyond the observed range at its upper end, or altogether.
        low, high = map(known, estimate.interval95)
        ends = "" if low is None or not estimate.is_known else f"{text(low)}–"
        return estimate_text(estimate, score), ends + (text(high) if ends and high else "")
    return estimate_text(estimate, score), interval_text(estimate.interval95, text)


def bracketed_text(estimate: "Estimate", score: "Score", is_short: bool = True) -> str:
    """Return a score with its 95 % interval in parentheses; `is_short` as in `estimate_texts`."""
    return "{} ({})".format(*estimate_texts(estimate, score, is_short))


def with_unit(value: float, score: "Score") -> str:
    """Return a score as written in sentences: "0.623", or "62.3 %" if it is in percent."""
    return score.text(value) + (" %" if score.is_percent else "")


def percent_text(share: float, decimals: int = 0) -> str:
    """Return a fraction that is not a score, such as a confidence, as a percentage."""
    # "z": a small negative number that rounds to zero is shown without a minus sign.
    return f"{100 * share:z.{decimals}f} %"


def delta_v_text(delta_v: float | None) -> str:
    """Return a visual change with two decimals, or a dash if it could not be measured."""
    return MISSING if delta_v is None else f"{delta_v:z.2f}"


def rank_text(ends: tuple[float, float]) -> str:
    """Return the range of a rank: "2–3", or "2" if both limits are equal."""
    low, high = ends
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def p_value_text(p_value: float) -> str:
    """Return a p-value with three decimals."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def share_text(share: "AccuracyEstimate | Estimate | None") -> str:
    """Return a fraction with its interval in percent: "61.5 (50.3–71.6)"; "–" for None."""
    if share is None:
        return "–"
    low, high = share.interval if isinstance(share.interval, tuple) else share.interval()
    return f"{100 * share.value:.1f} ({100 * low:.1f}–{100 * high:.1f})".replace("-", "−")
