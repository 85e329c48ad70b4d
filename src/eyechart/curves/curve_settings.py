"""The options by which curves are fitted, each declared once; see `Fit` for what is made of them.

Nothing slow is imported here: the command line is made from these.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from eyechart.core.options import Option
from eyechart.core.registry import one_of
from eyechart.curves.method_registry import DEFAULT_METHOD, METHODS
from eyechart.testsets.testset_settings import LEAST

if TYPE_CHECKING:
    from eyechart.curves.density import AnyDensity

BINS, REPLICATES = 40, 1000
"""Bins and bootstrap replicates where nothing else is asked for."""

BINNINGS = ("paper", "equal")
"""How the edges of bins are placed; the first where nothing else is asked for."""

RIGHT_ANCHORS = ("none", "chance", "measured")
"""Where curves end at Δv 1, if not at a number; the first where nothing else is asked for."""

GROUP = "Curves and statistics"


def read_right_anchor(text: str) -> str | float:
    """Return the number that was typed, or else the text."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, kw_only=True)
class CurveSettings:
    """How curves are fitted, those of models and those of humans; see `fit_curve`.

    `bins`: None for 40, and fewer for humans whose responses are too few for 40; a number holds for
    both. `right_anchor`: "none", "chance", "measured" (predictions for destroyed images; for
    humans, who saw none, chance) or a number.
    """

    bins: Annotated[
        int | None,
        Option(
            help=f"Number of bins of visual change, {BINS}; humans with few responses have fewer.",
            group=GROUP,
        ),
    ] = None
    least: Annotated[
        float | None,
        Option(help=f"Minimum count per bin, {LEAST}.", group=GROUP, typed=int | None),
    ] = None
    binning: Annotated[str, Option(help=f"{one_of(BINNINGS)}.", group=GROUP)] = BINNINGS[0]
    method: Annotated[str, Option(help=f"{one_of(METHODS)}.", group=GROUP)] = DEFAULT_METHOD
    right_anchor: Annotated[
        str | float,
        Option(
            help=f"Where curves end: {', '.join(RIGHT_ANCHORS)} or a number.",
            group=GROUP,
            typed=str,
            read=read_right_anchor,
        ),
    ] = RIGHT_ANCHORS[0]
    density: Annotated[
        "AnyDensity",
        Option(
            help="How much each visual change counts in areas: uniform, beta:A,B, or weights of"
            " equal bins such as 0,1,1.",
            group=GROUP,
            python="Also a list of weights, a function of Δv, or a Density.",
            typed=str,
        ),
    ] = "uniform"
    replicates: Annotated[int, Option(help="Number of bootstrap replicates.", group=GROUP)] = (
        REPLICATES
    )
