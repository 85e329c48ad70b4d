"""Registry of curve estimators by name. To add one, define a `CurveEstimator` and list it here.

Nothing slow is imported here, because the command line lists the estimators.
"""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry
from eyechart.testsets.testset_settings import MIN_PER_BIN

if TYPE_CHECKING:
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
