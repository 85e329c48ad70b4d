"""The options for fitting curves, each declared once; `fit_curve` uses them.

Nothing slow is imported here, because the command line is built from these options.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from eyechart.core.options import Option
from eyechart.core.registry import one_of
from eyechart.stats.estimator_registry import (
    DEFAULT_ESTIMATOR,
    ESTIMATORS,
    SPLINE,
)
from eyechart.testsets.testset_settings import MIN_PER_BIN

if TYPE_CHECKING:
    from eyechart.stats.density import AnyDensity

BINS, N_BOOTSTRAP = 40, 1000
"""Default numbers of bins and of bootstrap replicates."""

BINNINGS = ("paper", "equal")
"""Ways to place the edges of bins; the first one is the default."""

RIGHT_ANCHORS = ("none", "chance", "measured")
"""Named choices for the value of curves at Δv = 1; the first one is the default."""

GROUP = "Curves and statistics"


def read_right_anchor(text: str) -> str | float:
    """Return the text as a number if possible, otherwise unchanged."""
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, kw_only=True)
class CurveSettings:
    """How curves of models and of humans are fitted; see `fit_curve`.

    `bins`: None means 40, or fewer for humans with few responses; a number applies to models and
    humans. `right_anchor`: "none", "chance", "measured" (predictions for destroyed images; chance
    for humans, who saw no destroyed images) or a number.
    """

    bins: Annotated[
        int | None,
        Option(
            help=f"Number of bins of visual change; default: {BINS}, or fewer for humans with few"
            " responses.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    min_per_bin: Annotated[
        float | None,
        Option(
            help=f"Minimum count per bin; default: {MIN_PER_BIN}, or 0 for {DEFAULT_ESTIMATOR}.",
            group=GROUP,
            is_advanced=True,
            typed=int | None,
        ),
    ] = None
    binning: Annotated[
        str, Option(help=f"Bin edges: {one_of(BINNINGS)}.", group=GROUP, is_advanced=True)
    ] = BINNINGS[0]
    estimator: Annotated[
        str,
        Option(
            help=f"Curve estimator: {one_of(ESTIMATORS)}; {SPLINE} is the VCR paper's Algorithm 1.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = DEFAULT_ESTIMATOR
    right_anchor: Annotated[
        str | float,
        Option(
            help=f"Value of curves at Δv = 1: {', '.join(RIGHT_ANCHORS)} or a number.",
            group=GROUP,
            metavar="VALUE",
            is_advanced=True,
            typed=str,
            read=read_right_anchor,
        ),
    ] = RIGHT_ANCHORS[0]
    density: Annotated[
        "AnyDensity",
        Option(
            help="Weights of visual changes in areas under curves: uniform, beta:A,B, or one weight"
            " per equal bin such as 0,1,1.",
            group=GROUP,
            metavar="WEIGHTS",
            is_advanced=True,
            python="Also accepts a list of weights, a function of Δv, or a Density.",
            typed=str,
        ),
    ] = "uniform"
    n_bootstrap: Annotated[
        int, Option(help="Number of bootstrap replicates.", group=GROUP, is_advanced=True)
    ] = N_BOOTSTRAP
