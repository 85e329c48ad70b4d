"""Estimators that fit a non-increasing curve to bins: isotonic, spline, quantile spline.

A quadratic spline is non-increasing if and only if its coefficients c_k are non-increasing. If each
c_k is a sum d_k + d_{k+1} + … with all d_k ≥ 0, the spline is non-increasing and non-negative, so
that fitting it is a non-negative least-squares (NNLS) problem in d.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, PPoly
from scipy.optimize import linprog, nnls

from eyechart.core.arrays import FloatArray
from eyechart.stats.bins import Bins
from eyechart.stats.curve_settings import ESTIMATORS
from eyechart.stats.pieces import CurveStack

Anchors = FloatArray | None
"""The anchor of each curve at Δv = 0 or at Δv = 1; None if there is no anchor."""


def isotonic_curves(
    bins: Bins, is_used: NDArray[np.bool_], left: FloatArray | None, right: FloatArray | None
) -> PPoly:
    """Return the isotonic curves of many sets of bins, stacked along the last axis.

    The left anchor counts as much as an average bin: a curve starts there unless the first bins
    have higher rates. Curves are straight lines between the centers of bins, and from the last bin
    in use to the right anchor (to 0 without a right anchor). The area under this last line is
    midway between the smallest and the largest possible area.

    Args:
        bins: The samples, one set of counts per row.
        is_used: Bins that have samples in the data; in a replicate, some of them may be empty.
        left: The anchor of each curve at Δv = 0; None for no anchor.
        right: The anchor of each curve at Δv = 1, below which rates never fall; None for no anchor.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([[4.0, 4.0]]), np.array([[4.0, 1.0]]))
        >>> curves = isotonic_curves(bins, np.array([True, True]), None, None)
        >>> curves(np.array([0.25, 0.75])).ravel().round(2).tolist()
        [1.0, 0.25]
    """
    weights, sums = bins.counts * is_used, bins.hits * is_used
    if left is not None:
        # A larger weight would turn the noise of the anchor into a bias: rates above it would be
        # pulled down, those below it would not be pulled up.
        weight = weights.sum(axis=-1, keepdims=True) / len(is_used)
        weights = np.column_stack([weight, weights])
        sums = np.column_stack([weight * left[:, None], sums])
    rates = _regress(weights, sums)
    if right is not None:
        # Bins can lie below the anchor by chance, but a curve cannot rise to reach it.
        rates = np.maximum(rates, right[:, None])
    last_bin = int(np.flatnonzero(is_used)[-1])
    inner = rates[:, rates.shape[1] - len(is_used) :][:, : last_bin + 1]
    start = rates[:, 0] if left is not None else inner[:, 0]
    places = np.concatenate([[0.0], bins.centers[: last_bin + 1]])
    values = np.column_stack([start, inner])
    end_of_range = bins.edges[last_bin + 1]
    if end_of_range < 1:
        # The last bin was observed up to its edge, so that the extrapolated fall starts only there.
        places = np.append(places, end_of_range)
        values = np.column_stack([values, inner[:, -1]])
    # without an anchor 0 is the smallest possible rate beyond the observed range
    final = inner[:, -1] if end_of_range == 1 else np.zeros(len(rates))
    places = np.append(places, 1.0)
    values = np.column_stack([values, final if right is None else right])
    slopes = np.diff(values, axis=1) / np.diff(places)
    return PPoly(np.stack([slopes.T, values[:, :-1].T]), places)


def _regress(weights: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the non-increasing weighted least-squares rates of each row (min–max formula).

    The rate of cell j is the minimum over i ≤ j of the maximum over k ≥ j of the mean of the cells
    i to k. The rates of cells without weight are interpolated between their neighbors.
    """
    n_rows, n_cells = weights.shape
    # One row per cell, so that each step is one operation on all curves.
    total, hit = (np.zeros((n_cells + 1, n_rows)) for _ in range(2))
    np.cumsum(weights.T, axis=0, out=total[1:])
    np.cumsum(sums.T, axis=0, out=hit[1:])
    rates = np.full((n_cells, n_rows), np.inf)
    for first in range(n_cells):
        size = total[first + 1 :] - total[first]
        # Ranges without samples must not win the maximum; the minimum below leaves them out too.
        means = np.full(size.shape, -np.inf)
        np.divide(hit[first + 1 :] - hit[first], size, out=means, where=size > 0)
        backwards = means[::-1]
        np.maximum.accumulate(backwards, axis=0, out=backwards)
        means[means == -np.inf] = np.inf
        np.minimum(rates[first:], means, out=rates[first:])
    rates, is_known = np.ascontiguousarray(rates.T), weights > 0
    if is_known.all():
        return rates
    # interpolate unknown rates linearly; extend the first and last known rates to the ends
    cells = np.arange(n_cells)
    before = np.maximum.accumulate(np.where(is_known, cells, -1), axis=1)
    after = np.minimum.accumulate(np.where(is_known, cells, n_cells)[:, ::-1], axis=1)[:, ::-1]
    before = np.where(before < 0, after, before)
    after = np.where(after == n_cells, before, after)
    low, high = (np.take_along_axis(rates, index, axis=1) for index in (before, after))
    # 0 where a rate is known, because both neighbors are then the cell itself
    share = (cells - before) / np.maximum(after - before, 1)
    return np.asarray(low + share * (high - low))


INTERVALS, DEGREE = 20, 2
COEFFICIENTS = INTERVALS + DEGREE
KNOTS = np.linspace(0, 1, INTERVALS + 1)

HEAVY = 1e4
"""Square root of the ratio of an anchor's weight to the total weight of all samples."""

MOST_STEPS = 30
"""Maximum number of solver iterations per coefficient."""

SMOOTHINGS = np.logspace(-3, 1, 9)
"""Candidate smoothing strengths, for samples with weight 1."""

EXACT = 1e-20
"""Mean squared residual up to which a fit is exact, and the rest rounding."""


def fit_spline(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> FloatArray:
    """Return the coefficients of the non-increasing spline fitted to usable bins and anchors.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([40.0, 40.0]), np.array([40.0, 10.0]))
        >>> fit_spline(bins, 20, 0.1, left=None, right=None).shape
        (22,)
    """
    one = Bins(bins.edges, bins.counts[None], bins.hits[None])
    ends = [None if value is None else np.array([value]) for value in (left, right)]
    return np.asarray(fit_splines(one, min_per_bin, smoothing, ends[0], ends[1])[0])


def fit_splines(
    bins: Bins, min_per_bin: float, smoothing: float, left: Anchors, right: Anchors
) -> FloatArray:
    """Return the coefficients of the splines fitted to many sets of bins, one row each.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([[4.0, 4.0]]), np.array([[4.0, 1.0]]))
        >>> fit_splines(bins, 1, 0.1, left=None, right=None).shape
        (1, 22)
    """
    usable = bins.usable(min_per_bin)
    counts = np.where(usable, bins.counts, 0.0)
    # a bin that is not usable becomes a row of zeros, which has no effect
    weights = np.sqrt(counts)
    # NNLS has no equality constraints: an anchor is an observation with a large weight.
    heavy = HEAVY * np.sqrt(counts.sum(axis=1))
    anchors = [(0, left), (COEFFICIENTS - 1, right)]
    anchored = [coefficient for coefficient, values in anchors if values is not None]
    ends = [heavy * values for _, values in anchors if values is not None]
    # a bin's rate is compared with the mean of the curve over the bin, not with its center
    averages = _averages(tuple(bins.edges)) @ falling()
    count = len(averages)
    # a rectangle rule for smoothing · ∫ s''², exact as s'' is constant in each interval
    rough = np.sqrt(smoothing / INTERVALS) * second_derivatives() @ falling()
    rows = np.vstack([averages, rough, falling()[anchored]])
    rates = np.where(usable, bins.rates, 0.0) * weights
    targets = np.column_stack([rates, np.zeros((len(counts), len(rough))), *ends])
    steps = np.empty((len(counts), COEFFICIENTS))
    system = rows.copy()
    for number, target in enumerate(targets):
        system[:count] = averages * weights[number, :, None]
        system[count + len(rough) :] = rows[count + len(rough) :] * heavy[number]
        # SciPy's default of three iterations per unknown is too low if rates are almost equal
        steps[number] = nnls(system, target, maxiter=MOST_STEPS * COEFFICIENTS)[0]
    coefficients = steps @ falling().T
    # rates above 1 are impossible: fit those curves again with the left end fixed at 1
    too_high = coefficients[:, 0] > 1
    if left is None and too_high.any():
        some = Bins(bins.edges, bins.counts[too_high], bins.hits[too_high])
        end = None if right is None else right[too_high]
        coefficients[too_high] = fit_splines(
            some, min_per_bin, smoothing, np.ones(len(some.counts)), end
        )
    return coefficients


def choose_smoothing(
    bins: Bins, min_per_bin: float, left: float | None, right: float | None
) -> float:
    """Return the smoothing with the smallest generalized cross-validation error.

    The effective number of parameters of the unconstrained fit is used as an upper bound. If
    several fit exactly (all bins at 1, say), the strongest of them is returned: which of their
    residuals is the smallest would depend on the processor.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([40.0, 40.0]), np.array([40.0, 10.0]))
        >>> choose_smoothing(bins, 20, left=None, right=None) in SMOOTHINGS
        True
    """
    errors = []
    rows, target = bin_rows(bins, min_per_bin)
    count = len(target)
    for smoothing in SMOOTHINGS:
        coefficients = fit_spline(bins, min_per_bin, smoothing, left, right)
        system = np.vstack([rows, np.sqrt(smoothing / INTERVALS) * second_derivatives()])
        # a small ridge keeps the system invertible
        normal = system.T @ system + 1e-9 * np.eye(COEFFICIENTS)
        freedom = np.trace(np.linalg.solve(normal, rows.T @ rows))
        residual = np.square(target - rows @ coefficients).sum() / count
        # GCV = RSS / n / (1 − df / n)²
        # The floor lets fits with as many parameters as bins lose, instead of dividing by 0.
        error = residual / max(1 - freedom / count, 1e-3) ** 2
        errors.append(error if residual > EXACT else 0.0)
    (best,) = np.nonzero(np.equal(errors, min(errors)))
    return float(SMOOTHINGS[best[-1]])


def to_polynomials(coefficients: FloatArray) -> PPoly:
    """Return the spline with these coefficients as a piecewise polynomial; rows are stacked.

    Example:
        >>> to_polynomials(np.full((1, COEFFICIENTS), 0.5))(0.3).tolist()
        [0.5]
    """
    starts, basis = KNOTS[:-1], _basis()
    # the polynomial coefficients of each basis function, (power, piece, function)
    pieces = np.stack([second_derivatives() / 2, basis(starts, nu=1), basis(starts)])
    return PPoly(pieces @ coefficients.T, KNOTS)


def bin_rows(bins: Bins, min_per_bin: float) -> tuple[FloatArray, FloatArray]:
    """Return the mean basis in each usable bin and the bin's rate, both multiplied by √count.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([40.0, 40.0]), np.array([40.0, 10.0]))
        >>> rows, rates = bin_rows(bins, 20)
        >>> rows.shape, rates.round(2).tolist()
        ((2, 22), [6.32, 1.58])
    """
    usable = bins.usable(min_per_bin)
    weight = np.sqrt(bins.counts[usable])
    return _averages(tuple(bins.edges))[usable] * weight[:, None], bins.rates[usable] * weight


@cache
def _averages(edges: tuple[float, ...]) -> FloatArray:
    places = np.array(edges)
    return np.asarray(np.diff(_basis().antiderivative()(places), axis=0) / np.diff(places)[:, None])


@cache
def _basis() -> BSpline:
    knots = np.concatenate([np.zeros(DEGREE), KNOTS, np.ones(DEGREE)])
    return BSpline(knots, np.eye(COEFFICIENTS), DEGREE)


@cache
def second_derivatives() -> FloatArray:
    """Return the matrix from coefficients to the second derivative in each interval."""
    return np.asarray(_basis().derivative(2)((np.arange(INTERVALS) + 0.5) / INTERVALS))


@cache
def falling() -> FloatArray:
    """Return the matrix from steps d ≥ 0 to non-increasing coefficients."""
    # c_k = d_k + d_{k+1} + …
    return np.triu(np.ones((COEFFICIENTS, COEFFICIENTS)))


@dataclass(frozen=True)
class CurveEstimator:
    """The functions of an estimator, which fits a curve to bins.

    All functions take the bins, the minimum count per bin and the left and right anchors; `fit` and
    `fit_many` also take the smoothing.

    Attributes:
        fit: Returns the curve for one set of bins.
        choose_smoothing: Returns the best smoothing for one set of bins; None if the estimator has
            no smoothing.
        fit_many: Returns the curves for many sets at once; if None, they are fitted one by one.
    """

    fit: Callable[[Bins, float, float, float | None, float | None], PPoly]
    choose_smoothing: Callable[[Bins, float, float | None, float | None], float] | None = None
    fit_many: Callable[[Bins, float, float, Anchors, Anchors], Sequence[PPoly]] | None = None


SIC_GRID = np.logspace(-4, 3, 25)
"""Candidate smoothing strengths if bins have a mean weight of 1 and Δv has a variance of 1."""

ON_CURVE, SAME_CRITERION = 1e-6, 1e-6
"""A bin whose distance from the curve, relative to the spread of the rates, is below the first
value counts as on the curve; criteria that differ by less than the second value count as equal."""


def _by_least_squares(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> PPoly:
    """Return the non-increasing quadratic least-squares spline, weighted by the bins' counts."""
    return to_polynomials(fit_spline(bins, min_per_bin, smoothing, left, right))


def _by_quantiles(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> PPoly:
    """Return the non-increasing quadratic median spline (COBS), solved as a linear program.

    It minimizes the weighted absolute deviations plus `smoothing` times the largest |s''|.
    """
    return to_polynomials(_quantile_spline(bins, min_per_bin, smoothing, left, right))


def _choose_by_sic(
    bins: Bins, min_per_bin: float, left: float | None, right: float | None
) -> float:
    """Return the smoothing of the median spline with the lowest Schwarz criterion (He & Ng, 1999).

    SIC = log(F / n) + k log(n) / 2n is computed for 25 strengths, where F is half the sum of the
    weighted absolute deviations, n is the number of usable bins and k is the number of bins that
    the curve passes through exactly (at least 3). Among equally good strengths the middle one is
    chosen. The criterion is undefined for fits that pass through every bin. Fits with k above √n
    are used only if there are no others.
    """
    usable = bins.usable(min_per_bin)
    weights, centers = np.sqrt(bins.counts[usable]), bins.centers[usable]
    rows, target = bin_rows(bins, min_per_bin)
    n = len(target)
    # quantile regression sums half the absolute deviations, and weights are not 1 on average
    strengths = 2 * weights.mean() * centers.var() * SIC_GRID
    spread = np.abs(bins.rates[usable] - bins.rates[usable].mean()).mean()
    criteria, exact = np.full(len(strengths), np.inf), np.zeros(len(strengths), dtype=np.int64)
    for number, strength in enumerate(strengths):
        coefficients = _quantile_spline(bins, min_per_bin, strength, left, right)
        deviations = np.abs(target - rows @ coefficients)
        # Active constraints do not count, unlike in the R package: they would penalize a flat
        # segment, although it is simple, as much as a bend (docs/decisions.md).
        exact[number] = max(DEGREE + 1, (deviations < ON_CURVE * weights * spread).sum())
        fidelity = deviations.sum() / 2
        if fidelity > ON_CURVE * weights.sum() * spread:
            criteria[number] = np.log(fidelity / n) + exact[number] * np.log(n) / (2 * n)
    # nearly interpolating fits are used only if there are no others
    is_smooth = exact <= np.sqrt(n)
    if np.isfinite(criteria[is_smooth]).any():
        criteria[~is_smooth] = np.inf
    if not np.isfinite(criteria).any():
        return float(strengths[-1])  # all interpolate: take the smoothest
    best = np.flatnonzero(criteria <= criteria.min() + SAME_CRITERION)
    return float(strengths[best[len(best) // 2]])


def _quantile_spline(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> FloatArray:
    """Return the coefficients of the non-increasing median spline, from a linear program."""
    rows, target = bin_rows(bins, min_per_bin)
    count, rough = len(target), second_derivatives() @ falling()
    # unknowns: steps of the coefficients, deviations up and down, largest second derivative
    weights = np.sqrt(bins.counts[bins.usable(min_per_bin)])
    cost = np.concatenate([np.zeros(COEFFICIENTS), weights, weights, [smoothing]])
    identity = np.eye(count)
    fit = np.hstack(
        [rows @ falling() / weights[:, None], identity, -identity, np.zeros((count, 1))]
    )
    equal, value = [fit], [target / weights]
    # a clamped spline takes its first and last coefficient at the ends, so anchors are equalities
    for coefficient, anchor in ((0, left), (COEFFICIENTS - 1, right)):
        if anchor is not None:
            row = np.zeros((1, len(cost)))
            row[0, :COEFFICIENTS] = falling()[coefficient]
            equal.append(row)
            value.append(np.array([anchor]))
    # |s''| ≤ t in every interval, with t in the objective (the L∞ roughness of COBS)
    bound = np.hstack([rough, np.zeros((len(rough), 2 * count)), -np.ones((len(rough), 1))])
    other = bound.copy()
    other[:, :COEFFICIENTS] *= -1
    solved = linprog(
        cost,
        A_ub=np.vstack([bound, other]),
        b_ub=np.zeros(2 * len(rough)),
        A_eq=np.vstack(equal),
        b_eq=np.concatenate(value),
        method="highs",
    )
    return np.asarray(falling() @ solved.x[:COEFFICIENTS])


def _by_isotonic_regression(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> PPoly:
    """Return the isotonic regression of the bins' rates (PAVA), joined by straight lines."""
    one = Bins(bins.edges, bins.counts[None], bins.hits[None])
    ends = [None if value is None else np.array([value]) for value in (left, right)]
    return _many_isotonic(one, min_per_bin, smoothing, ends[0], ends[1])[0]


def _many_isotonic(
    bins: Bins, min_per_bin: float, smoothing: float, left: Anchors, right: Anchors
) -> Sequence[PPoly]:
    # One choice of bins for all replicates, so that their curves have the same breakpoints.
    is_used = np.asarray(bins.usable(min_per_bin).any(axis=0))
    return CurveStack(isotonic_curves(bins, is_used, left, right))


SPLINE = CurveEstimator(
    _by_least_squares,
    choose_smoothing,
    lambda *fit: CurveStack(to_polynomials(fit_splines(*fit))),
)
COBS = CurveEstimator(_by_quantiles, _choose_by_sic)
ISOTONIC = CurveEstimator(_by_isotonic_regression, fit_many=_many_isotonic)


def refit(
    estimator: str,
    bins: Bins,
    min_per_bin: float,
    smoothing: float,
    anchors: tuple[Anchors, Anchors],
) -> Sequence[PPoly]:
    """Return the curves fitted to many sets of bins with these left and right `anchors`.

    Example:
        >>> bins = Bins(np.array([0.0, 0.5, 1.0]), np.array([[4.0, 4.0]]), np.array([[4.0, 1.0]]))
        >>> len(refit("isotonic", bins, 1, 0.0, (None, None)))
        1
    """
    left, right = anchors
    how = ESTIMATORS[estimator]
    if how.fit_many is not None:
        return how.fit_many(bins, min_per_bin, smoothing, left, right)
    return tuple(
        how.fit(
            row,
            min_per_bin,
            smoothing,
            None if left is None else float(left[number]),
            None if right is None else float(right[number]),
        )
        for number, row in enumerate(bins.rows())
    )
