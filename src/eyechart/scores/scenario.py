"""Verdicts: whether humans or the model are ahead, and over which range of visual change.

A verdict claims no more than the samples show. A side is ahead only if it leads significantly
somewhere and the other side's lead is excluded beyond a margin everywhere, including the ranges
that were not observed.
"""

from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.scores.curve_significance import TOUCHING, Lead, pair_orders
from eyechart.scores.human_relative import NAMES, Areas, compared_areas
from eyechart.stats.curve import Curve
from eyechart.stats.density import areas_between
from eyechart.stats.intervals import CONFIDENCE, check_level

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
