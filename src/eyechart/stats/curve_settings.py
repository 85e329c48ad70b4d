"""The options for fitting curves, each declared once, and the registry of estimators by name.

To add an estimator, define a `CurveEstimator` and list it here. Nothing slow is imported here,
because the command line is built from these options.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from eyechart.core.options import Option
from eyechart.core.registry import Registry, one_of
from eyechart.testsets.testset_settings import MIN_PER_BIN

if TYPE_CHECKING:
    from eyechart.stats.density import AnyDensity
    from eyechart.stats.estimators import CurveEstimator


DEFAULT_ESTIMATOR, SPLINE = "isotonic", "spline"
"""The default, and Algorithm 1 of the VCR paper."""

ESTIMATORS: "Registry[CurveEstimator]" = Registry("estimator")
ESTIMATORS.add_lazily(DEFAULT_ESTIMATOR, "eyechart.stats.estimators:ISOTONIC")
ESTIMATORS.add_lazily(SPLINE, "eyechart.stats.estimators:SPLINE")
ESTIMATORS.add_lazily("cobs", "eyechart.stats.estimators:COBS")


def usual_min_per_bin(estimator: str) -> float:
    """Return an estimator's default minimum count per bin.

    The splines need well-filled bins; isotonic regression uses every sample.

    Example:
        >>> usual_min_per_bin("spline"), usual_min_per_bin("isotonic")
        (20, 0)
    """
    return 0 if estimator == DEFAULT_ESTIMATOR else MIN_PER_BIN


BINS, N_BOOTSTRAP = 40, 1000
"""Default numbers of bins and of bootstrap replicates."""

BINNINGS = ("paper", "equal")
"""Ways to place the edges of bins; the first one is the default."""

RIGHT_ANCHORS = ("none", "chance", "measured")
"""Named choices for the value of curves at Δv = 1; the first one is the default."""

GROUP = "Curves and statistics"


def read_right_anchor(text: str) -> str | float:
    """Return the text as a number if possible, otherwise unchanged.

    Example:
        >>> read_right_anchor("0.1"), read_right_anchor("chance")
        (0.1, 'chance')
    """
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
            cli_type=int | None,
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
            cli_type=str,
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
            cli_type=str,
        ),
    ] = "uniform"
    n_bootstrap: Annotated[
        int, Option(help="Number of bootstrap replicates.", group=GROUP, is_advanced=True)
    ] = N_BOOTSTRAP
