"""Human-relative scores: HMRI, MRSI, and the ranges in which humans or the model are ahead."""

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import PPoly
from scipy.sparse import coo_array

from eyechart.core.arrays import FloatArray
from eyechart.core.records import Record
from eyechart.predictions.reading import Predictions
from eyechart.scores.curve_significance import (
    Lead,
    apart_ranges,
    check_comparable,
    pair_orders,
)
from eyechart.stats.bootstrap import resample_sums, shuffle_replicates
from eyechart.stats.crossings import four_areas, leads_between
from eyechart.stats.curve import Curve
from eyechart.stats.density import UNIFORM, Density
from eyechart.stats.estimate import Estimate, make_estimate
from eyechart.stats.intervals import PUBLISHED_LEVEL
from eyechart.stats.pieces import have_same_breaks, stacked, take_curves, values_at

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
    models = take_curves(model_curve.replicates, order)
    humans = take_curves(human_curve.replicates, other)
    return compared_scores(humans, models, human_curve.density)


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
        four = [four_areas(*pair, density) for pair in pairs]
        areas = np.array(four).T
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
    # Resampling the universe keeps replicates aligned with those of other scores.
    images = np.unique(outcomes.image) if outcomes.universe is None else outcomes.universe
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
