"""Records of curves in results.json: of models and humans, sampled, with bands.

The scores derived from them are in `model_results` and `schema`.
"""

from functools import lru_cache

from pydantic import PrivateAttr

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.records import Known, Real, Record
from eyechart.curves.curve import Curve
from eyechart.scores.curve_significance import Lead
from eyechart.scores.human_relative import Areas
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

CURVE_POINTS = 101
DIGITS = 6
"""Decimals of curves and bands in the file."""

Ends = tuple[Real, Real]
Numbers = tuple[Known, ...]


class SampledCurve(Record):
    """A curve over visual change Δv with its pointwise bands, at 101 points."""

    delta_v: Numbers
    """Visual changes at which the curve was sampled."""
    values: Numbers
    """Values of the curve, in [0, 1]."""
    low95: Numbers
    """Lower end of the 95 % band."""
    high95: Numbers
    """Upper end of the 95 % band."""
    low83: Numbers
    """Lower end of the 83 % band."""
    high83: Numbers
    """Upper end of the 83 % band."""

    _fitted: Curve | None = PrivateAttr(default=None)

    @property
    def fitted(self) -> Curve:
        """The fitted curve with its bootstrap replicates; files do not contain it."""
        if self._fitted is None:
            raise UsageError("Results that were read from a file have no fitted curves.")
        return self._fitted


class ModelCurve(SampledCurve):
    """A model's curve, and the bins it was fitted to."""

    bin_edges: Numbers
    """Edges of the bins of visual change, one more than there are bins."""
    bin_counts: Numbers
    """Weight of the samples in each bin: their number, unless classes were weighted."""
    bin_rates: Numbers
    """Share of correct (or consistent) predictions in each bin; null in empty ones."""
    smoothing: Known
    """Smoothing parameter of the spline."""
    left_anchor: Known
    """Value of the curve at Δv 0, null for none."""
    right_anchor: Known
    """Value of the curve at Δv 1, null for none."""

    @classmethod
    def of(cls, curve: Curve) -> "ModelCurve":
        """Return the record of a fitted curve."""
        record = cls(
            **sample_curve(curve).model_dump(),
            bin_edges=tuple(curve.bins.edges),
            bin_counts=tuple(curve.bins.counts),
            bin_rates=tuple(curve.bins.rates),
            smoothing=curve.smoothing,
            left_anchor=curve.left,
            right_anchor=curve.right,
        )
        record._fitted = curve
        return record


# The same human curve appears in the results of every model: it is sampled once.
@lru_cache(maxsize=64)
def sample_curve(curve: Curve) -> SampledCurve:
    """Return the record of a fitted curve: values and bands at evenly spaced visual changes."""
    # Division gives the exact decimals 0, 0.01, …, 1 in the file, which linspace does not.
    delta_v = [index / (CURVE_POINTS - 1) for index in range(CURVE_POINTS)]
    low95, high95 = curve.band(delta_v, CONFIDENCE)
    low83, high83 = curve.band(delta_v, PUBLISHED_LEVEL)
    record = SampledCurve(
        delta_v=tuple(delta_v),
        values=_rounded(curve(delta_v)),
        low95=_rounded(low95),
        high95=_rounded(high95),
        low83=_rounded(low83),
        high83=_rounded(high83),
    )
    record._fitted = curve
    return record


def _rounded(values: FloatArray) -> Numbers:
    return tuple(round(float(value), DIGITS) for value in values)


class HumanComparison(Record):
    """A model's curve compared with the human curve of the same corruption."""

    about: str
    """The human reference in words: who responded, how many, direct or transferred."""
    kind: str
    """Whether humans saw this corruption ("direct") or a similar one ("transferred")."""
    hmri: Estimate
    """Human-relative model robustness index: the share of the human area that the model reaches."""
    hmri_bounds: Ends
    """Bounds of HMRI for any course of the model's curve outside the observed ranges."""
    mrsi: Estimate
    """Model robustness superiority index: the share of the model's area above the human curve."""
    scenario: str
    """Who is ahead by a bootstrap test along both curves, or that there is insufficient data."""
    corrected_for_chance: bool
    """Whether both curves are corrected for chance."""
    areas: Areas
    """The areas that both indices are ratios of."""
    leads: tuple[Lead, ...]
    """Ranges of Δv in which either curve is above the other."""
    significant: tuple[Lead, ...]
    """Ranges in which the 83 % bands do not overlap (the published rule)."""
    tested: tuple[Lead, ...]
    """Ranges in which one is ahead by the test of `scenario`."""
    p_humans: float
    """P-value of humans being ahead anywhere, corrected for the number of corruptions."""
    p_model: float
    """P-value of the model being ahead anywhere, corrected for the number of corruptions."""
    line: SampledCurve
    """The human curve."""
    model_line: SampledCurve
    """The model's curve on the same scale: corrected for chance where the human curve is."""
    human_bins: int | None = None
    """Number of bins that the human curve was fitted to."""
    human_left_anchor: Known = None
    """Value of the human curve at Δv 0, null for none."""
    human_right_anchor: Known = None
    """Value of the human curve at Δv 1, null for none."""
    reference: str = ""
    """Name of the human reference."""
    experiment: str = ""
    """Name of the experiment in that reference."""
    observers: int = 0
    """Number of humans that the curve is based on, 0 if unknown."""


class HumanPoint(Record):
    """Human responses in one condition or bin."""

    delta_v: tuple[float, float, float]
    """The 5th, 50th and 95th percentile of visual change."""
    n_responses: int
    """Number of responses."""
    rate: float
    """Share of correct (or consistent) responses."""
    interval95: tuple[float, float]
    """95 % interval of the rate."""
    interval83: tuple[float, float]
    """83 % interval of the rate."""


class HumanCurve(Record):
    """The human curve of one experiment, and the rates it is based on."""

    line: SampledCurve
    """The curve."""
    points: tuple[HumanPoint, ...]
    """Rates by condition or bin; none if the curve is corrected for chance."""
