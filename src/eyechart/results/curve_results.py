"""Records for curves in results.json: model and human curves with their bands, human experiments.

Scores derived from curves are in `model_results` and `schema`.
"""

from functools import lru_cache

from pydantic import PrivateAttr

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.records import NaNFloat, NullableFloat, Record
from eyechart.scores.break_point import BreakPoint
from eyechart.scores.curve_significance import Lead
from eyechart.scores.human_relative import Areas
from eyechart.stats.curve import Curve
from eyechart.stats.estimate import Estimate
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL

CURVE_POINTS = 101
DIGITS = 6
"""Number of decimals of curve and band values in the file."""

Ends = tuple[NaNFloat, NaNFloat]
Numbers = tuple[NullableFloat, ...]


class SampledCurve(Record):
    """A curve over visual change Δv with its pointwise bands, sampled at 101 points."""

    delta_v: Numbers
    """Visual changes at which the curve was sampled."""
    values: Numbers
    """Values of the curve, in [0, 1]."""
    low95: Numbers
    """Lower limit of the 95 % band."""
    high95: Numbers
    """Upper limit of the 95 % band."""
    low83: Numbers
    """Lower limit of the 83 % band."""
    high83: Numbers
    """Upper limit of the 83 % band."""

    _fitted: Curve | None = PrivateAttr(default=None)

    @property
    def fitted(self) -> Curve:
        """The fitted curve with its bootstrap replicates; it is not stored in files."""
        if self._fitted is None:
            raise UsageError("Results read from a file have no fitted curves.")
        return self._fitted


class ModelCurve(SampledCurve):
    """A model's curve, and the bins it was fitted to."""

    bin_edges: Numbers
    """Edges of the visual change bins, one more than the number of bins."""
    bin_counts: Numbers
    """Total weight of the samples in each bin: their count, unless classes were weighted."""
    bin_rates: Numbers
    """Fraction of correct (or consistent) predictions in each bin; null for empty bins."""
    smoothing: NullableFloat
    """Smoothing parameter of the spline."""
    left_anchor: NullableFloat
    """Fixed value of the curve at Δv = 0; null if it is not fixed."""
    right_anchor: NullableFloat
    """Fixed value of the curve at Δv = 1; null if it is not fixed."""

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


# The same human curve appears in the results of every model, so it is sampled only once.
@lru_cache(maxsize=64)
def sample_curve(curve: Curve) -> SampledCurve:
    """Return the record of a fitted curve: values and bands at evenly spaced visual changes."""
    # Division gives the exact decimals 0, 0.01, …, 1 in the file, which linspace does not.
    delta_v = [index / (CURVE_POINTS - 1) for index in range(CURVE_POINTS)]
    (low95, high95), (low83, high83) = curve.bands(delta_v, (CONFIDENCE, PUBLISHED_LEVEL))
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
    """Human reference in words: who responded, how many, and whether it is transferred."""
    kind: str
    """Whether humans saw this corruption ("direct") or a similar one ("transferred")."""
    hmri: Estimate
    """Human-relative model robustness index: fraction of the human area that the model reaches."""
    hmri_bounds: Ends
    """Bounds of HMRI over all possible shapes of the model's curve outside the observed ranges."""
    mrsi: Estimate
    """Model robustness superiority index: fraction of the model's area above the human curve."""
    scenario: str
    """Who is ahead by a bootstrap test along both curves, or a note on insufficient data."""
    needed: str = ""
    """What would decide an inconclusive comparison, such as a number of images; "" if decided."""
    lead_limits: Ends
    """Upper 95 % limits of the areas by which humans are ahead and by which the model is ahead."""
    corrected_for_chance: bool
    """Whether both curves are corrected for chance."""
    areas: Areas
    """The areas from which both indices are computed."""
    leads: tuple[Lead, ...]
    """Ranges of Δv in which one curve is above the other; empty with insufficient data."""
    significant: tuple[Lead, ...]
    """Ranges of Δv in which the 83 % bands do not overlap (the published rule); empty with
    insufficient data."""
    tested: tuple[Lead, ...]
    """Ranges of Δv in which one curve is ahead according to the test used for `scenario`; empty
    with insufficient data."""
    p_humans: NaNFloat
    """P-value for humans being ahead at any Δv, corrected for the number of corruptions; null with
    insufficient data."""
    p_model: NaNFloat
    """P-value for the model being ahead at any Δv, corrected for the number of corruptions; null
    with insufficient data."""
    line: SampledCurve
    """The human curve."""
    model_line: SampledCurve
    """The model's curve on the same scale: corrected for chance if the human curve is."""
    human_break_point: BreakPoint | None = None
    """Visual change at which the human curve has fallen halfway to chance."""
    human_bins: int | None = None
    """Number of bins to which the human curve was fitted."""
    human_left_anchor: NullableFloat = None
    """Fixed value of the human curve at Δv = 0; null if it is not fixed."""
    human_right_anchor: NullableFloat = None
    """Fixed value of the human curve at Δv = 1; null if it is not fixed."""
    reference: str = ""
    """Name of the human reference."""
    experiment: str = ""
    """Name of the experiment in that reference."""
    observers: int = 0
    """Number of humans whose responses count for this property; 0 if unknown."""
    responses: int = 0
    """Number of responses that count for this property: those the human curve is fitted to."""


class HumanPoint(Record):
    """Human responses in one condition or bin."""

    delta_v: tuple[float, float, float]
    """The 5th, 50th and 95th percentiles of visual change."""
    n_responses: int
    """Number of responses."""
    rate: float
    """Fraction of correct (or consistent) responses."""
    interval95: tuple[float, float]
    """95 % interval of the rate."""
    interval83: tuple[float, float]
    """83 % interval of the rate."""


class HumanCurve(Record):
    """The human curve of one experiment, and the rates it is based on."""

    line: SampledCurve
    """The curve."""
    points: tuple[HumanPoint, ...]
    """Rates by condition or bin; empty if the curve is corrected for chance."""


class HumanExperiment(Record):
    """One experiment with humans."""

    name: str
    """Name of the experiment."""
    title: str
    """Title of the experiment."""
    kind: str
    """The class of visually similar corruptions to which the experiment belongs; "" for none."""
    members: tuple[str, ...]
    """Names, without suite, of the corruptions that the responses are used for."""
    size: str
    """Text that states the number of humans and responses."""
    accuracy: HumanCurve | None
    """Curve of correct responses; null if there is none."""
    consistency: HumanCurve | None
    """Curve of responses that equal the response to the clean image; null if there is none."""
    tested: bool = False
    """Whether similarity to other corruptions was tested."""
    evidence: str = ""
    """Evidence for the class of similar corruptions."""
    reference: str = ""
    """Name of the human reference."""
    n_dropped: int = 0
    """Number of trials that participants dropped, by reloading or leaving the page."""
    dropped_areas: Ends | None = None
    """Areas under the curve of correct responses if all dropped trials were incorrect, and if all
    were correct; null if no trial was dropped."""


class FlowCount(Record):
    """A step of the flow of participants, and how many participants reached it."""

    step: str
    """The step."""
    rule: str
    """The quality rule that excluded these participants; "" for other steps."""
    count: int | None
    """Number of participants; null if it was not recorded."""


class HumanStudy(Record):
    """A study with participants from which a human reference was exported."""

    reference: str
    """Name of the human reference."""
    study: str
    """Name of the study if the reference was merged from several studies, else ""."""
    simulated: bool
    """Whether participants are robots."""
    flow: tuple[FlowCount, ...]
    """The flow of participants, from opening the page to those counted."""
