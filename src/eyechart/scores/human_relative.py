"""Scores and verdicts that compare a model's curve with the human one: HMRI, MRSI, who is ahead.

A verdict claims no more than the samples show. A side is ahead only if it leads significantly
somewhere and the other side's lead is excluded beyond a margin everywhere, including the ranges
that were not observed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly
from scipy.sparse import coo_array

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.records import Record
from eyechart.predictions.reading import Predictions
from eyechart.scores.curve_significance import (
    TOUCHING,
    Lead,
    apart_ranges,
    check_comparable,
    pair_orders,
)
from eyechart.stats.bootstrap import resample_sums, shuffle_replicates
from eyechart.stats.curve import Curve
from eyechart.stats.density import UNIFORM, Density, areas_between, four_areas, leads_between
from eyechart.stats.estimate import Estimate, make_estimate
from eyechart.stats.intervals import CONFIDENCE, PUBLISHED_LEVEL, check_level
from eyechart.stats.pieces import have_same_breaks, select_curves, stacked, values_at

ROLES = ("human_curve", "model_curve")
NAMES = ("humans", "model")

STEPS = 400
"""Number of steps between 0 and 1 to which visual changes of samples are rounded."""


class Areas(Record):
    """The four areas over Δv in [0, 1] from which HMRI and MRSI are computed."""

    human: float
    """Area under the human curve."""
    model: float
    """Area under the model's curve."""
    human_ahead: float
    """Area between the curves where humans are ahead."""
    model_ahead: float
    """Area between the curves where the model is ahead."""

    @property
    def hmri(self) -> float:
        """Human-relative model robustness index, 1 − human_ahead / human, in [0, 1].

        1 if the model is nowhere behind; NaN if the area under the human curve is 0.
        """
        # Rounding can make the ratio slightly exceed 1.
        return max(0.0, 1 - self.human_ahead / self.human) if self.human > 0 else float("nan")

    @property
    def mrsi(self) -> float:
        """Model robustness superiority index, model_ahead / model; 0 if the model's area is 0."""
        return self.model_ahead / self.model if self.model > 0 else 0.0


def hmri(human_curve: Curve, model_curve: Curve) -> float:
    """Return HMRI in [0, 1]: the fraction of the human area that the model reaches.

    HMRI = 1 − A(human > model) / A(human) (VCR paper); 1 if the model is nowhere behind.

    Args:
        human_curve: Curve fitted to human responses.
        model_curve: Curve fitted to a model's predictions, with the same density.

    Example:
        >>> import eyechart as ec
        >>> import numpy as np
        >>> delta_v = np.linspace(0, 1, 400)
        >>> human = ec.fit_curve(delta_v, np.tile([1, 1, 1, 0], 100), min_per_bin=1, n_bootstrap=10)
        >>> model = ec.fit_curve(delta_v, np.tile([1, 0, 1, 0], 100), min_per_bin=1, n_bootstrap=10)
        >>> round(ec.hmri(human, model), 2), round(ec.mrsi(human, model), 2)
        (0.67, 0.0)
    """
    return compared_areas(human_curve, model_curve).hmri


def mrsi(human_curve: Curve, model_curve: Curve) -> float:
    """Return MRSI in [0, 1]: the fraction of the model's area that is above the human curve.

    MRSI = A(model > human) / A(model) (VCR paper); 0 if the model is nowhere ahead.

    Args:
        human_curve: Curve fitted to human responses.
        model_curve: Curve fitted to a model's predictions, with the same density.

    Example:
        >>> import eyechart as ec
        >>> import numpy as np
        >>> delta_v = np.linspace(0, 1, 400)
        >>> human = ec.fit_curve(delta_v, np.tile([1, 0, 1, 0], 100), min_per_bin=1, n_bootstrap=10)
        >>> model = ec.fit_curve(delta_v, np.tile([1, 1, 1, 0], 100), min_per_bin=1, n_bootstrap=10)
        >>> round(ec.mrsi(human, model), 2)
        0.33
    """
    return compared_areas(human_curve, model_curve).mrsi


def compared_areas(human_curve: Curve, model_curve: Curve) -> Areas:
    """Return the four areas of two curves, exactly: pieces are split where the curves cross.

    Both curves must have the same density, which weights all four areas.
    """
    check_comparable(human_curve, model_curve, ROLES)
    return areas_of(human_curve.pieces, model_curve.pieces, human_curve.density)


def compared_replicates(human_curve: Curve, model_curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return HMRI and MRSI of each bootstrap replicate of the model, paired with a human replicate.

    Both arrays are in the order of the model's replicates, so that they match the replicates of
    other models and corruptions.
    """
    check_comparable(human_curve, model_curve, ROLES)
    order, other = pair_orders(model_curve, human_curve, paired=False)
    # Humans and models are resampled independently, so that any human replicate can be the partner.
    return compared_scores(
        select_curves(human_curve.replicates, other),
        select_curves(model_curve.replicates, order),
        human_curve.density,
    )


def ranges(human_curve: Curve, model_curve: Curve) -> list[Lead]:
    """Return the ranges of visual change in which humans or the model are ahead, in order.

    Ranges end exactly where the curves cross. Differences below 1e-9 count as 0, and ranges
    narrower than 1e-6 are left out.
    """
    check_comparable(human_curve, model_curve, ROLES)
    leads = leads_between(human_curve.pieces, model_curve.pieces)
    return [
        Lead(start=start, end=end, who=NAMES[0 if is_human else 1])
        for start, end, is_human in leads
    ]


def significant_ranges(
    human_curve: Curve, model_curve: Curve, level: float = PUBLISHED_LEVEL
) -> list[Lead]:
    """Return the ranges in which the pointwise intervals do not overlap, and who is ahead there.

    This is the VCR paper's rule, at 401 points; `intervals_overlap` describes its limitations.
    """
    check_comparable(human_curve, model_curve, ROLES)
    return apart_ranges(human_curve, model_curve, level, NAMES)


def areas_of(human: PPoly, model: PPoly, density: Density = UNIFORM) -> Areas:
    """Return the four areas of two piecewise quadratic curves over [0, 1]."""
    areas = (float(area) for area in four_areas(human, model, density))
    return Areas(**dict(zip(Areas.model_fields, areas, strict=True)))


def compared_scores(
    humans: Sequence[PPoly], models: Sequence[PPoly], density: Density
) -> tuple[FloatArray, FloatArray]:
    """Return HMRI and MRSI of each pair of curves."""
    if have_same_breaks(humans) and have_same_breaks(models):
        areas = np.array(four_areas(stacked(humans), stacked(models), density))
    else:
        # Stacking curves with different breaks would give each of them the breaks of all others.
        pairs = zip(humans, models, strict=True)
        areas = np.array([four_areas(*pair, density) for pair in pairs]).T
    human, model, human_ahead, model_ahead = areas
    # The formulas of `Areas`, for all pairs at once.
    hmris, mrsis = np.full(len(human), np.nan), np.zeros(len(model))
    np.divide(human_ahead, human, out=hmris, where=human > 0)
    np.divide(model_ahead, model, out=mrsis, where=model > 0)
    return np.maximum(0.0, 1 - hmris), mrsis


def hmri_bounds(human: Curve, model: Curve) -> tuple[float, float]:
    """Return the lowest and highest HMRI of any non-increasing curve through the observed ranges.

    Between two observed ranges, the model's curve lies between its values at both ends of the gap.
    Before the first range, it is not above its left anchor; after the last range, it is not below
    its right anchor.
    """
    # Bounds jump at the ends of gaps and are integrated numerically, on a fine grid.
    places = np.linspace(0, 1, 4001)
    lower, upper = model(places).copy(), model(places).copy()
    before, edge = (1.0 if model.left is None else model.left), 0.0
    for start, end in model.observed:
        gap = (places > edge) & (places < start)
        # The curve is non-increasing: in a gap it lies between its values at both ends.
        lower[gap], upper[gap] = model(start), before
        before, edge = float(model(end)), end
    rest = places > edge
    lower[rest], upper[rest] = 0.0 if model.right is None else model.right, before
    weights = human.density(places)
    values = human(places)
    total = float(np.trapezoid(values * weights, places))
    if not total:
        return float("nan"), float("nan")
    # HMRI is the share of the human area that lies below the model's curve as well.
    low, high = (
        float(np.trapezoid(np.minimum(values, bound) * weights, places)) / total
        for bound in (lower, upper)
    )
    return low, min(1.0, high)


def expected_error(human_curve: Curve, outcomes: Predictions, seed: int) -> Estimate | None:
    """Return the mean of 1 − s(Δv) over the samples, where s is the human curve.

    The result is None if no sample has a Δv. Samples without Δv (images with too little structure)
    count as the mean of the others. Images and human curve are resampled together.
    """
    known = ~np.isnan(outcomes.delta_v)
    if not known.any():
        return None
    weights = np.ones(len(outcomes)) if outcomes.weights is None else outcomes.weights
    weights, change = weights[known], outcomes.delta_v[known]
    # Resampling the same images keeps replicates aligned with those of other scores.
    images = outcomes.resampled_images
    if images is None:
        images = np.unique(outcomes.image)
    group = np.searchsorted(images, outcomes.image[known])
    # Weight of each image at each step of Δv: in a replicate only the curve's values change, so
    # that its error is one product.
    step = np.clip(np.rint(change * STEPS), 0, STEPS).astype(np.int64)
    table = coo_array((weights, (group, step)), shape=(len(images), STEPS + 1)).tocsr()
    wrong = np.clip(1 - values_at(human_curve.refits, np.linspace(0, 1, STEPS + 1)), 0, 1)
    n_bootstrap = wrong.shape[1]
    # The human replicates are shuffled, so that they are independent of the resampled images.
    (order,) = shuffle_replicates(n_bootstrap, seed + 1)
    value = 1 - float(np.average(human_curve(change), weights=weights))
    sums = resample_sums(table, n_bootstrap, seed)
    counts, errors = sums.sum(axis=1), (sums * wrong[:, order].T).sum(axis=1)
    drawn = np.divide(errors, counts, out=np.full(n_bootstrap, value), where=counts > 0)
    return make_estimate(value, drawn, len(np.unique(group)))


def clean_expected_error(human_curve: Curve, seed: int) -> Estimate:
    """Return the human error rate on clean images: 1 − s(0)."""
    drawn = np.clip(1 - human_curve.refits(np.zeros(1))[0], 0, 1)
    # In the order of `expected_error`, so that both errors come from the same human replicate.
    (order,) = shuffle_replicates(len(drawn), seed + 1)
    return make_estimate(1 - float(human_curve(0.0)), drawn[order])


HUMANS_AHEAD, MODEL_AHEAD = "humans ahead", "model ahead"
MIXED, INCONCLUSIVE = "mixed", "inconclusive"

MARGIN = 0.02
"""A side is called ahead only if the other's lead is below this area, at 95 % confidence."""

PLACES = np.linspace(0, 1, 21)
"""Ends of the ranges of visual change over which leads are tested."""

MIN_ERROR = 0.1
"""Lower limit of the standard error of a mean difference, as a fraction of its maximum."""

MAX_FACTOR = 1000.0
"""Maximum factor for the suggested number of images; beyond it, no number is suggested."""


@dataclass(frozen=True)
class Scenario:
    """A verdict, the ranges it is based on, and the areas of the two curves.

    Attributes:
        name: "humans ahead", "model ahead", "mixed" or "inconclusive".
        leads: Ranges of Δv over which one side is ahead on average, significantly.
        areas: The four areas.
        p_human: P-value of humans being ahead over any range.
        p_model: P-value of the model being ahead over any range. Both p-values come from one
            two-sided test, so that together they have its error rate.
        human_lead: Upper confidence limit of the area by which humans are ahead over any range.
        model_lead: Upper confidence limit of the area by which the model is ahead over any range.
        factor: How many times as many images would decide an inconclusive comparison; infinite if
            more images cannot, because of ranges that were not observed. 1 for other verdicts.
    """

    name: str
    leads: tuple[Lead, ...]
    areas: Areas
    p_human: float
    p_model: float
    human_lead: float
    model_lead: float
    factor: float

    def needed(self, n_images: int) -> str:
        """Return what would decide an inconclusive comparison, as part of a sentence."""
        if self.name != INCONCLUSIVE:
            return ""
        if self.factor > MAX_FACTOR:
            return "samples in the unobserved range of Δv are needed"
        # Two digits: the estimate is not more precise than that.
        number = ceil(n_images * self.factor)
        step = 10 ** max(0, len(str(number)) - 2)
        return f"about {ceil(number / step) * step:,} images would decide"


def scenario(
    human_curve: Curve,
    model_curve: Curve,
    level: float = CONFIDENCE,
    paired: bool = False,
    margin: float = MARGIN,
) -> Scenario:
    """Return who is significantly ahead, by one bootstrap test over all ranges of visual change.

    For every range between two of the `PLACES`, an interval of the mean difference of the curves is
    computed. All intervals together contain the true differences with probability `level`: they
    have the same width in standard errors, computed from the largest deviation in each replicate. A
    side leads over a range if the interval excludes 0.

    The verdict is "mixed" if both sides lead somewhere. A side is ahead if it leads somewhere, has
    the larger area, and the intervals rule out that the other side is ahead by more than `margin`
    over any range. Otherwise the comparison is inconclusive.
    """
    check_level(level)
    areas = compared_areas(human_curve, model_curve)
    order, other = pair_orders(human_curve, model_curve, paired)
    density = human_curve.density
    human, model = (
        areas_between(curve.pieces, PLACES, density) for curve in (human_curve, model_curve)
    )
    drawn = (
        areas_between(human_curve.refits, PLACES, density)[:, order]
        - areas_between(model_curve.refits, PLACES, density)[:, other]
    )
    is_seen = _observed_cells(human_curve) & _observed_cells(model_curve)
    if not is_seen.any():
        raise UsageError("The curves have no range of visual change that was observed for both.")
    start, stop = (ends.astype(np.int64) for ends in np.triu_indices(int(is_seen.sum()) + 1, k=1))
    gaps = _between((human - model)[is_seen], start, stop)
    deviations = _between(drawn[is_seen], start, stop) - gaps[:, None]
    # Means over a range rather than areas, so that narrow and wide ranges can be compared.
    widths = (stop - start) / (len(PLACES) - 1)
    error = deviations.std(axis=1) / widths
    # A constant anchor has no sampling error; next to it standard errors are too small to divide
    # by.
    error = widths * np.maximum(error, max(MIN_ERROR * float(error.max()), TOUCHING))
    largest = np.abs(deviations / error[:, None]).max(axis=0)
    # Above 0 even if no replicate deviates, as for two curves that are 1 everywhere.
    noise = np.maximum(error * float(np.quantile(largest, level)), TOUCHING)
    leads = _leads(gaps, noise, PLACES[:-1][is_seen], start, stop)
    p_human, p_model = (
        # The 1 counts the observed data as one replicate, so that p is never 0.
        float((1 + (largest >= (sign * gaps / error).max()).sum()) / (1 + len(largest)))
        for sign in (1, -1)
    )
    unseen = [
        _unseen_lead(*pair, is_seen)
        for pair in ((human_curve, model_curve), (model_curve, human_curve))
    ]
    human_lead = max(0.0, float((gaps + noise).max())) + unseen[0]
    model_lead = max(0.0, float((noise - gaps).max())) + unseen[1]
    sides = {lead.who for lead in leads}
    if len(sides) == 2:
        name = MIXED
    elif NAMES[0] in sides and model_lead < margin and areas.human > areas.model:
        name = HUMANS_AHEAD
    elif NAMES[1] in sides and human_lead < margin and areas.model > areas.human:
        name = MODEL_AHEAD
    else:
        name = INCONCLUSIVE
    # The side with the larger area would be ahead if the other's lead could be excluded.
    sign, hidden = (1, unseen[1]) if areas.human > areas.model else (-1, unseen[0])
    # More images do not reach unobserved ranges: a lead that is possible there uses up the margin.
    factor = _factor(sign * gaps, noise, margin - hidden) if name == INCONCLUSIVE else 1.0
    return Scenario(name, leads, areas, p_human, p_model, human_lead, model_lead, factor)


def _observed_cells(curve: Curve) -> NDArray[np.bool_]:
    """Return which ranges between adjacent `PLACES` were observed, judged at their centers."""
    return curve.is_observed((PLACES[1:] + PLACES[:-1]) / 2)


def _between(values: FloatArray, start: IntArray, stop: IntArray) -> FloatArray:
    """Return the sums of the values from each start to each stop."""
    sums = np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])
    return np.asarray(sums[stop] - sums[start])


def _leads(
    gaps: FloatArray, noise: FloatArray, places: FloatArray, start: IntArray, stop: IntArray
) -> tuple[Lead, ...]:
    """Return the clearest disjoint ranges with a significant lead, in order of Δv."""
    step = PLACES[1]
    clear = np.flatnonzero(np.abs(gaps) > noise)
    leads: list[Lead] = []
    for index in clear[np.argsort(-np.abs(gaps[clear]) / noise[clear])]:
        first, last = float(places[start[index]]), float(places[stop[index] - 1] + step)
        # Overlapping ranges show the same lead; the clearest of them stands for it.
        if all(last <= lead.start or first >= lead.end for lead in leads):
            who = NAMES[0] if gaps[index] > 0 else NAMES[1]
            leads.append(Lead(start=round(first, 6), end=round(last, 6), who=who))
    return tuple(sorted(leads, key=lambda lead: lead.start))


def _unseen_lead(first: Curve, second: Curve, is_seen: NDArray[np.bool_]) -> float:
    """Return the largest possible lead of the first curve, as an area, in unobserved ranges."""
    mass = first.density.between(np.zeros(1), PLACES[:-1], PLACES[1:])[0]
    highest, lowest = _cell_limits(first)[1], _cell_limits(second)[0]
    return float((np.maximum(highest - lowest, 0) * mass)[~is_seen].sum())


def _cell_limits(curve: Curve) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest mean of a curve between adjacent `PLACES`.

    Where the curve was observed, both are its mean; in a gap, they are its values at the gap's
    ends.
    """
    own = areas_between(curve.pieces, PLACES) * (len(PLACES) - 1)
    low, high = own.copy(), own.copy()
    centers = (PLACES[1:] + PLACES[:-1]) / 2
    before, edge = (1.0 if curve.left is None else float(curve(0.0))), 0.0
    for begin, end in [*curve.observed, (1.0, 1.0)]:
        is_gap = (centers > edge) & (centers < begin)
        # A non-increasing curve lies between its values at both ends of a gap.
        after = float(curve(begin)) if begin < 1 else 0.0 if curve.right is None else curve.right
        low[is_gap], high[is_gap] = after, before
        before, edge = float(curve(end)), end
    return low, high


def _factor(gaps: FloatArray, noise: FloatArray, margin: float) -> float:
    """Return the factor by which the number of images must grow to show a positive gap.

    Noise shrinks with the square root of the number of images.
    """
    clearest = float((gaps / noise).max())
    # The other side's lead plus its noise must fall below the margin over every range.
    room = margin + gaps
    if clearest <= 0 or room.min() <= 0:
        return inf
    return float(max(1.0, clearest**-2, (noise / room).max() ** 2))
