"""`fit_curve`: fit a non-increasing function of visual change to samples, with intervals.

Curves do not record which model or humans they describe; other modules compare curves.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly

from eyechart.core.arguments import as_number, as_text, as_within, short_repr
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, takes_fields_of
from eyechart.core.records import CheckedFields
from eyechart.core.registry import unknown_name
from eyechart.stats.bins import Bins, bin_edges, count_bins, trusted_edges, without_holes
from eyechart.stats.bootstrap import check_bootstrap
from eyechart.stats.curve_samples import (
    Anchor,
    CurveSamples,
    Draws,
    draws_of,
    read_samples,
    resample_bins,
)
from eyechart.stats.curve_settings import (
    BINS,
    ESTIMATORS,
    GROUP,
    CurveSettings,
    usual_min_per_bin,
)
from eyechart.stats.density import Density, area_bounds, areas_under, to_density
from eyechart.stats.estimate import make_estimate
from eyechart.stats.estimators import refit
from eyechart.stats.intervals import CONFIDENCE, percentile_interval, percentiles_of
from eyechart.stats.pieces import stacked, values_at

FEWEST_BINS = 2

ROUNDING = 1e-9
"""Tolerance when comparing two anchors, whose sums may differ by rounding."""

MAX_SMOOTHING = 1e12
"""Maximum smoothing; curves become straight lines at much smaller values."""

SEEN = 1e-6
"""Minimum count per bin in a replicate; close to 0, because the bins in use are already chosen."""


@dataclass(frozen=True, eq=False)
class Curve(CheckedFields):
    """A non-increasing curve s(v) over visual change 0…1, with its bootstrap replicates.

    Attributes:
        pieces: the curve as a piecewise polynomial.
        bins: the samples it was fitted to.
        min_per_bin: the minimum count of a usable bin; 0 if every sample is used.
        smoothing: the smoothing parameter.
        left: the anchor at Δv = 0; None if there is none.
        right: the anchor at Δv = 1; None if there is none.
        lefts: the left anchor of each replicate; None without a left anchor.
        left_out: the number of samples whose visual change is undefined.
        replicates: the curves of the bootstrap replicates.
        refit_bins: the bins of the bootstrap replicates, with one row of counts per replicate.
        density: the density over visual change by which areas are weighted.
        draws: the key that determines the bootstrap weights.
        estimator: the name of the estimator.

    Example:
        >>> import eyechart as ec
        >>> delta_v = np.linspace(0, 1, 2000)
        >>> curve = ec.fit_curve(delta_v, delta_v < 0.5, n_bootstrap=20)
        >>> bool(curve(0.1) > curve(0.9))
        True
        >>> low, high = curve.interval(0.95)
        >>> low < curve.area < high
        True
    """

    pieces: PPoly
    bins: Bins
    min_per_bin: float
    smoothing: float
    left: float | None
    right: float | None
    lefts: FloatArray | None
    left_out: int
    replicates: Sequence[PPoly]
    refit_bins: Bins
    density: Density
    draws: Draws
    estimator: str

    def __call__(self, delta_v: ArrayLike) -> FloatArray:
        """Return the value of the curve at each of these visual changes."""
        return np.asarray(self.pieces(visual_changes(delta_v)))

    def __repr__(self) -> str:
        return f"<Curve of {self.bins.counts.sum():g} samples, area {self.area:.4f}>"

    @cached_property
    def area(self) -> float:
        """The robustness R̂: the integral of s(v) q(v) over 0…1, where q is the density."""
        return float(areas_under(self.pieces, self.density))

    @cached_property
    def areas(self) -> FloatArray:
        """The areas of the replicates."""
        return areas_under(self.refits, self.density)

    @cached_property
    def refits(self) -> PPoly:
        """The replicates, stacked into one piecewise polynomial."""
        return stacked(self.replicates)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Which bins count as observed: bins with enough samples, and narrow gaps between them."""
        usable = self.bins.usable(self.min_per_bin)
        # With a minimum count, bins are left out on purpose, however narrow the gap is.
        return usable if self.min_per_bin else without_holes(usable)

    @cached_property
    def observed(self) -> list[tuple[float, float]]:
        """The ranges of visual change with usable bins; adjacent bins are merged into one range."""
        # starts and ends of runs of usable bins
        turns = np.flatnonzero(np.diff(np.r_[False, self.usable, False].astype(int)))
        edges = self.bins.edges[turns].tolist()
        return list(zip(edges[::2], edges[1::2], strict=True))

    def is_observed(self, delta_v: FloatArray) -> NDArray[np.bool_]:
        """Return which of these visual changes lie in an observed range."""
        within = np.zeros(len(delta_v), dtype=np.bool_)
        for start, end in self.observed:
            within |= (start <= delta_v) & (end >= delta_v)
        return within

    def smoothed(self, smoothing: float) -> "Curve":
        """Return a curve fitted to the same samples and replicates with a different smoothing."""
        smoothing = as_within(smoothing, "smoothing", 0, MAX_SMOOTHING)
        # Isotonic curves have no smoothing that could be changed.
        if smoothing == self.smoothing or ESTIMATORS[self.estimator].choose_smoothing is None:
            return self
        # a curve passes through its anchors, so the replicates' anchors are their values there
        lefts, rights = self.refits(0.0), self.refits(1.0)
        return replace(
            self,
            smoothing=smoothing,
            pieces=ESTIMATORS[self.estimator].fit(
                self.bins, self.min_per_bin, smoothing, self.left, self.right
            ),
            replicates=refit(
                self.estimator,
                self.refit_bins,
                SEEN,
                smoothing,
                (None if self.left is None else lefts, None if self.right is None else rights),
            ),
        )

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return the percentile interval of the area, as if all ranges had been observed."""
        return percentile_interval(self.areas, level)

    def band(self, delta_v: ArrayLike, level: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of pointwise intervals at these visual changes."""
        return self.bands(delta_v, [level])[0]

    def bands(
        self, delta_v: ArrayLike, levels: Sequence[float]
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return the bands of several levels, which sort the values of the replicates only once."""
        values = values_at(self.refits, visual_changes(delta_v))
        # Pointwise bands do not hold for the whole curve at once; verdicts use a simultaneous test.
        ends = np.percentile(values, percentiles_of(levels), axis=-1)
        return list(zip(ends[::2], ends[1::2], strict=True))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the area for any shape of the curve in unobserved ranges, at 95 % confidence.

        Within a gap a non-increasing curve lies between its values at both ends of the gap.
        Sampling error is included.
        """
        anchored = (self.left is not None, self.right is not None)
        edges = self.bins.edges
        if self.min_per_bin:
            lows, highs = area_bounds(
                self.refits, edges, self.refit_bins.usable(SEEN), anchored, self.density
            )
            return (
                percentile_interval(lows, CONFIDENCE)[0],
                percentile_interval(highs, CONFIDENCE)[1],
            )
        trusted = trusted_edges(self.bins.counts)
        # without a minimum count all bins in use count in every replicate, drawn or not
        (low, high), (lows, highs) = (
            area_bounds(pieces, edges, self.usable, anchored, self.density, trusted)
            for pieces in (self.pieces, self.refits)
        )
        # where few samples bias the curve, replicates are biased twice; reflecting the interval
        # about the bound itself corrects for this
        n_samples = int(self.bins.counts.sum())
        below = make_estimate(float(low), lows, n_samples).interval95
        above = make_estimate(float(high), highs, n_samples).interval95
        return (
            max(0.0, min(below[0], 2 * float(low) - below[1])),
            min(1.0, max(above[1], 2 * float(high) - above[0])),
        )


@dataclass(frozen=True, eq=False)
class CurveFit(CurveSettings):
    """The arguments of `fit_curve`: the samples, and how the curve is fitted."""

    delta_v: Annotated[
        ArrayLike,
        Option(
            help="Visual change of each sample; samples with NaN are left out, but counted.",
            group=GROUP,
        ),
    ]
    hits: Annotated[
        ArrayLike,
        Option(help="Whether each sample is a hit: 1, 0 or a number in between.", group=GROUP),
    ]
    _: KW_ONLY
    anchor: Annotated[
        Anchor,
        Option(
            help="Value of the curve at Δv 0: a number, or an array with a 1 for each sample"
            " whose clean image is a hit and a 0 for each other sample.",
            group=GROUP,
        ),
    ] = None
    # settings have names such as "chance" for it, which `right_end` turns into values
    right_anchor: Annotated[
        Anchor,
        Option(
            help="Value of the curve at Δv 1: a number, or for each sample whether its destroyed"
            " image is a hit.",
            group=GROUP,
        ),
    ] = None  # type: ignore[assignment]
    clusters: Annotated[
        ArrayLike | None,
        Option(
            help="Cluster of each sample, such as its image; the bootstrap resamples clusters.",
            group=GROUP,
        ),
    ] = None
    all_clusters: Annotated[
        ArrayLike | None,
        Option(help="Names of all clusters, including clusters without samples.", group=GROUP),
    ] = None
    weights: Annotated[
        ArrayLike | None,
        Option(
            help="Weight of each sample; the minimum count then applies to sums of weights.",
            group=GROUP,
        ),
    ] = None
    smoothing: Annotated[
        float | None,
        Option(
            help="Smoothing of the curve; chosen by default by cross-validation, or by the Schwarz"
            ' criterion for "cobs".',
            group=GROUP,
        ),
    ] = None
    seed: Annotated[int, Option(help="Random seed of the bootstrap.", group=GROUP)] = 0


@takes_fields_of(CurveFit)
def fit_curve(fit: CurveFit) -> Curve:
    """Fit a non-increasing curve to the fraction of hits as a function of visual change.

    Curves with the same seed, number of replicates and set of all clusters are resampled
    identically: a cluster has the same weight in replicate i of every curve.

    Returns:
        The curve, with its area (R̂), intervals and bounds.

    Raises:
        UsageError: an argument is invalid, or fewer than two bins have enough samples.

    Example:
        >>> import numpy as np
        >>> import eyechart as ec
        >>> delta_v = np.linspace(0, 1, 2000)
        >>> curve = ec.fit_curve(delta_v, delta_v < 0.5, n_bootstrap=20)
        >>> round(curve.area, 2)
        0.5
    """
    if as_text(fit.estimator, "estimator") not in ESTIMATORS:
        raise unknown_name("estimator", fit.estimator, ESTIMATORS)
    n_bootstrap, seed = check_bootstrap(fit.n_bootstrap, fit.seed)
    # with weights a minimum count need not be an integer
    min_per_bin = as_number(
        usual_min_per_bin(fit.estimator) if fit.min_per_bin is None else fit.min_per_bin,
        "min_per_bin",
    )
    smoothing = fit.smoothing
    if smoothing is not None:
        smoothing = as_within(smoothing, "smoothing", 0, MAX_SMOOTHING)
    density = to_density(fit.density)
    samples = read_samples(
        fit.delta_v,
        fit.hits,
        anchors=(fit.anchor, fit.right_anchor),
        clusters=fit.clusters,
        all_clusters=fit.all_clusters,
        weights=fit.weights,
    )
    edges = bin_edges(fit.binning, BINS if fit.bins is None else fit.bins)
    counted = count_bins(samples.delta_v, samples.hits, edges, samples.weights)
    usable = counted.usable(min_per_bin)
    if not min_per_bin and not usable.any():
        raise UsageError("Visual change is undefined (NaN) for every sample.")
    if min_per_bin and usable.sum() < FEWEST_BINS:
        raise UsageError(
            f"Fewer than {FEWEST_BINS} bins have {min_per_bin:g} samples: give more samples,"
            " fewer bins or a smaller min_per_bin."
        )
    drawn, means, replicate_means = resample_bins(samples, edges, n_bootstrap, seed)
    start, end = _anchors(samples, means)
    # replicates use the bins that are usable in the samples, regardless of their own counts, so
    # that the interval belongs to the same estimate
    redrawn = drawn.only(usable)
    # smoothing is chosen once, on the samples, and held fixed for the replicates
    estimator = ESTIMATORS[fit.estimator]
    if estimator.choose_smoothing is None:
        chosen = 0.0
    elif smoothing is None:
        chosen = estimator.choose_smoothing(counted, min_per_bin, start, end)
    else:
        chosen = smoothing
    anchors = _replicate_anchors(samples, replicate_means, n_bootstrap)
    return Curve(
        pieces=estimator.fit(counted, min_per_bin, chosen, start, end),
        bins=counted,
        min_per_bin=min_per_bin,
        smoothing=chosen,
        left=start,
        right=end,
        lefts=anchors[0],
        left_out=samples.left_out,
        replicates=refit(fit.estimator, redrawn, SEEN, chosen, anchors),
        refit_bins=redrawn,
        density=density,
        draws=draws_of(samples.names, n_bootstrap, seed),
        estimator=fit.estimator,
    )


def _anchors(
    samples: CurveSamples, means: tuple[float | None, float | None]
) -> tuple[float | None, float | None]:
    """Return the left and right anchors: each is a given number, or a mean over the samples."""
    start, end = (
        mean if fixed is None else fixed for fixed, mean in zip(samples.fixed, means, strict=True)
    )
    if start is None or end is None:
        return start, end
    # means over the same samples may differ in their last bits
    if end > start + ROUNDING:
        raise UsageError(
            "right_anchor must not exceed anchor, because curves do not rise: got"
            f" {end:g} and {start:g}."
        )
    return start, min(start, end)


def _replicate_anchors(
    samples: CurveSamples, means: tuple[FloatArray | None, FloatArray | None], n_bootstrap: int
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the left and right anchors of each replicate."""
    starts, ends = (
        own if fixed is None else np.full(n_bootstrap, fixed)
        for fixed, own in zip(samples.fixed, means, strict=True)
    )
    if starts is not None and ends is not None:
        # a replicate may have its anchors in the wrong order
        ends = np.minimum(starts, ends)
    return starts, ends


def visual_changes(values: ArrayLike) -> FloatArray:
    """Return visual changes as an array; raise a UsageError if they are not numbers.

    Example:
        >>> visual_changes([0, 0.5])
        array([0. , 0.5])
    """
    try:
        numbers: FloatArray = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(
            f"delta_v must be a number or a list of numbers, got {short_repr(values)}."
        ) from None
    return numbers
