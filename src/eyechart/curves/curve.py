"""`fit_curve`: from samples and their visual change to a falling curve with intervals.

Who is behind the curve, and what is compared with it, does not belong here.
"""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly

from eyechart.core.arguments import as_number, as_text, as_within, brief
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, takes_fields_of
from eyechart.core.registry import unknown_name
from eyechart.curves.bins import Bins, bin_edges, count_bins
from eyechart.curves.curve_samples import Anchor, CurveSamples, read_samples
from eyechart.curves.curve_settings import BINS, GROUP, CurveSettings
from eyechart.curves.density import Density, area_bounds, areas_under, to_density
from eyechart.curves.method_registry import METHODS
from eyechart.curves.methods import refit
from eyechart.curves.pieces import stacked
from eyechart.curves.replicates import Draws, ReplicateBins, draws_of, resample_bins
from eyechart.stats.bootstrap import check_replicates
from eyechart.stats.intervals import CONFIDENCE, check_level, percentile_interval
from eyechart.testsets.testset_settings import LEAST

FEWEST_BINS = 2

ROUNDING = 1e-9
"""By how much the mean of the same anchors may differ between two ways to sum them."""

MAX_SMOOTHING = 1e12
"""Beyond any use: far below it a curve is a straight line already."""

SEEN = 1e-6
"""How many answers make a bin of a resampled set usable, if it was usable before."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A falling curve s(v) over visual change 0…1, and what is known of its error.

    `bins`: the answers it was fitted to, usable where there are at least `least`. `left`, `right`:
    its anchors. `left_out`: how many answers had no visual change. `replicates`: the same curve for
    resampled answers, and their bins. `density`: how much each visual change counts in areas.
    `draws`: what the weights in resampling depend on. `method`: how it was fitted.
    """

    pieces: PPoly
    bins: Bins
    least: float
    smoothing: float
    left: float | None
    right: float | None
    left_out: int
    replicates: tuple[PPoly, ...]
    replicate_bins: tuple[Bins, ...]
    density: Density
    draws: Draws
    method: str

    def __call__(self, delta_v: ArrayLike) -> FloatArray:
        """Return s at these visual changes."""
        return np.asarray(self.pieces(visual_changes(delta_v)))

    def __repr__(self) -> str:
        return f"<Curve of {self.bins.counts.sum():g} answers, area {self.area:.4f}>"

    @cached_property
    def area(self) -> float:
        """∫ s q over 0…1, with q the density: the robustness R̂."""
        return float(areas_under(self.pieces, self.density))

    @cached_property
    def areas(self) -> FloatArray:
        """The areas of the replicates."""
        return areas_under(self.refits, self.density)

    @cached_property
    def refits(self) -> PPoly:
        """The replicates, stacked into one."""
        return stacked(self.replicates)

    @cached_property
    def refit_bins(self) -> Bins:
        """The replicates' bins, a row each."""
        counts, hits = zip(*((row.counts, row.hits) for row in self.replicate_bins), strict=True)
        return Bins(self.bins.edges, np.stack(counts), np.stack(hits))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Which bins have enough answers to be used."""
        return self.bins.usable(self.least)

    @cached_property
    def observed(self) -> list[tuple[float, float]]:
        """The ranges of visual change with usable bins; neighbours are one range."""
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
        """Return the curve of the same answers, resampled as they were, with another smoothing."""
        smoothing = as_within(smoothing, "smoothing", 0, MAX_SMOOTHING)
        if smoothing == self.smoothing:
            return self
        lefts, rights = self.refits(0.0), self.refits(1.0)
        return replace(
            self,
            smoothing=smoothing,
            pieces=METHODS[self.method].fit(
                self.bins, self.least, smoothing, self.left, self.right
            ),
            replicates=refit(
                self.method,
                self.refit_bins,
                SEEN,
                smoothing,
                (None if self.left is None else lefts, None if self.right is None else rights),
            ),
        )

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return the percentile interval of the area; it knows nothing of unobserved ranges."""
        return percentile_interval(self.areas, level)

    def band(self, delta_v: ArrayLike, level: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of the pointwise intervals at these visual changes."""
        tail = 50 * (1 - check_level(level))
        places = visual_changes(delta_v)
        low, high = np.percentile(self.refits(places), [tail, 100 - tail], axis=-1)
        return low, high

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Between what the area lies whatever the curve does where nothing was observed.

        Within a gap a falling curve lies between its values on both sides. Sampling error is
        included, at 95 %.
        """
        lows, highs = area_bounds(
            self.refits,
            self.refit_bins,
            SEEN,
            (self.left is not None, self.right is not None),
            self.density,
        )
        return float(np.percentile(lows, 2.5)), float(np.percentile(highs, 97.5))


@dataclass(frozen=True, eq=False)
class CurveFit(CurveSettings):
    """The samples that a curve is fitted to, and how; the arguments of `fit_curve`."""

    delta_v: Annotated[
        ArrayLike,
        Option(help="Visual change of each sample; NaN is left out and counted.", group=GROUP),
    ]
    hits: Annotated[ArrayLike, Option(help="Whether each sample is a hit, 0…1.", group=GROUP)]
    _: KW_ONLY
    anchor: Annotated[
        Anchor,
        Option(
            help="What the curve is at 0: a number, or whether each clean image was a hit.",
            group=GROUP,
        ),
    ] = None
    # settings have words for it, which `right_end` turns into what it is here
    right_anchor: Annotated[
        Anchor,
        Option(help="What it is at 1, in the same way for a destroyed image.", group=GROUP),
    ] = None  # type: ignore[assignment]
    clusters: Annotated[
        ArrayLike | None,
        Option(
            help="Which samples stand or fall together, such as those of one image; resampling is"
            " over clusters.",
            group=GROUP,
        ),
    ] = None
    all_clusters: Annotated[
        ArrayLike | None,
        Option(help="All clusters that there are, where some have no sample here.", group=GROUP),
    ] = None
    weights: Annotated[
        ArrayLike | None,
        Option(
            help="How much each sample counts, next to the others; bins are then judged by the sum"
            " of theirs.",
            group=GROUP,
        ),
    ] = None
    smoothing: Annotated[
        float | None,
        Option(
            help='Of the spline; chosen by cross-validation unless given, for "cobs" by the Schwarz'
            " criterion.",
            group=GROUP,
        ),
    ] = None
    seed: Annotated[int, Option(help="Of the bootstrap replicates.", group=GROUP)] = 0

    def samples(self) -> CurveSamples:
        """Return the samples, checked."""
        return read_samples(
            self.delta_v,
            self.hits,
            anchors=(self.anchor, self.right_anchor),
            clusters=self.clusters,
            all_clusters=self.all_clusters,
            weights=self.weights,
        )


@takes_fields_of(CurveFit)
def fit_curve(fit: CurveFit) -> Curve:
    """Return the falling curve of how often `hits` hold, over visual change.

    Curves with the same seed, replicates and set of all clusters are resampled alike: replicate i
    of each has the same weight for each cluster.

    Example:
        >>> delta_v = np.linspace(0, 1, 2000)
        >>> curve = fit_curve(delta_v, delta_v < 0.5, replicates=20)
        >>> round(curve.area, 2)
        0.5
    """
    if as_text(fit.method, "method") not in METHODS:
        raise unknown_name("method", fit.method, METHODS)
    replicates, seed = check_replicates(fit.replicates, fit.seed)
    least = as_number(LEAST if fit.least is None else fit.least, "least")
    smoothing = fit.smoothing
    if smoothing is not None:
        smoothing = as_within(smoothing, "smoothing", 0, MAX_SMOOTHING)
    density = to_density(fit.density)
    samples = fit.samples()
    edges = bin_edges(fit.binning, BINS if fit.bins is None else fit.bins)
    counted = count_bins(samples.delta_v, samples.hits, edges, samples.weights)
    usable = counted.usable(least)
    if usable.sum() < FEWEST_BINS:
        raise UsageError(
            f"Fewer than {FEWEST_BINS} bins hold {least:g} answers: give more answers, fewer bins"
            " or a smaller least."
        )
    drawn = resample_bins(samples, edges, replicates, seed)
    start, end = _anchors(samples, drawn)
    # bins that are usable stay so, and others are not, whatever a draw makes of their counts
    redrawn = drawn.bins.only(usable)
    method = METHODS[fit.method]
    chosen = method.choose_smoothing(counted, least, start, end) if smoothing is None else smoothing
    return Curve(
        pieces=method.fit(counted, least, chosen, start, end),
        bins=counted,
        least=least,
        smoothing=chosen,
        left=start,
        right=end,
        left_out=samples.left_out,
        replicates=refit(
            fit.method, redrawn, SEEN, chosen, _replicate_anchors(samples, drawn, replicates)
        ),
        replicate_bins=redrawn.rows(),
        density=density,
        draws=draws_of(samples.names, replicates, seed),
        method=fit.method,
    )


def _anchors(samples: CurveSamples, drawn: ReplicateBins) -> tuple[float | None, float | None]:
    """Return where the curve starts and ends: a number as it is, or the mean over the samples."""
    start, end = (
        mean if fixed is None else fixed
        for fixed, mean in zip(samples.fixed, drawn.anchors, strict=True)
    )
    if start is None or end is None:
        return start, end
    if end > start + ROUNDING:
        raise UsageError(
            f"right_anchor must not be above anchor, for a curve falls: got {end:g} and {start:g}."
        )
    return start, min(start, end)


def _replicate_anchors(
    samples: CurveSamples, drawn: ReplicateBins, replicates: int
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return where the replicates start and end."""
    starts, ends = (
        means if fixed is None else np.full(replicates, fixed)
        for fixed, means in zip(samples.fixed, drawn.replicate_anchors, strict=True)
    )
    if starts is not None and ends is not None:
        # also for a draw in which they have changed places
        ends = np.minimum(starts, ends)
    return starts, ends


def visual_changes(values: ArrayLike) -> FloatArray:
    """Return visual changes as numbers; raise a sentence for what are none."""
    try:
        numbers: FloatArray = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError(f"delta_v must be a number or numbers, got {brief(values)}.") from None
    return numbers
