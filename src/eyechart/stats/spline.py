"""Non-increasing quadratic splines over 0…1, fitted to bins by non-negative least squares.

A quadratic spline is non-increasing if and only if its coefficients c_k are non-increasing. If each
c_k is a sum d_k + d_{k+1} + … with all d_k ≥ 0, the spline is non-increasing and non-negative, so
that fitting it is a non-negative least-squares (NNLS) problem in d.
"""

from functools import cache

import numpy as np
from scipy.interpolate import BSpline, PPoly
from scipy.optimize import nnls

from eyechart.core.arrays import FloatArray
from eyechart.stats.bins import Bins

INTERVALS, DEGREE = 20, 2
COEFFICIENTS = INTERVALS + DEGREE

HEAVY = 1e4
"""Square root of the ratio of an anchor's weight to the total weight of all samples."""

MOST_STEPS = 30
"""Maximum number of solver iterations per coefficient."""

SMOOTHINGS = np.logspace(-3, 1, 9)
"""Candidate smoothing strengths, for samples with weight 1."""


def fit_spline(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> FloatArray:
    """Return the coefficients of the non-increasing spline fitted to usable bins and anchors."""
    one = Bins(bins.edges, bins.counts[None], bins.hits[None])
    ends = [None if value is None else np.array([value]) for value in (left, right)]
    coefficients: FloatArray = fit_splines(one, min_per_bin, smoothing, ends[0], ends[1])[0]
    return coefficients


def fit_splines(
    bins: Bins,
    min_per_bin: float,
    smoothing: float,
    left: FloatArray | None,
    right: FloatArray | None,
) -> FloatArray:
    """Return the coefficients of the splines fitted to many sets of bins, one row each."""
    usable = bins.usable(min_per_bin)
    counts = np.where(usable, bins.counts, 0.0)
    # a bin that is not usable becomes a row of zeros, which has no effect
    weights = np.sqrt(counts)
    # NNLS has no equality constraints, so that an anchor is an observation with a large weight.
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

    The effective number of parameters of the unconstrained fit is used as an upper bound.
    """
    errors = []
    rows, target = bin_rows(bins, min_per_bin)
    count = len(target)
    for smoothing in SMOOTHINGS:
        coefficients = fit_spline(bins, min_per_bin, smoothing, left, right)
        system, _ = _rows(bins, min_per_bin, smoothing)
        # a small ridge keeps the system invertible
        normal = system.T @ system + 1e-9 * np.eye(COEFFICIENTS)
        freedom = np.trace(np.linalg.solve(normal, rows.T @ rows))
        residual = np.square(target - rows @ coefficients).sum() / count
        # GCV = RSS / n / (1 − df / n)²
        # The floor lets fits with as many parameters as bins lose, instead of dividing by 0.
        errors.append(residual / max(1 - freedom / count, 1e-3) ** 2)
    return float(SMOOTHINGS[int(np.argmin(errors))])


def to_polynomials(coefficients: FloatArray) -> PPoly:
    """Return the spline with these coefficients as a piecewise polynomial; rows are stacked."""
    return PPoly(_basis_pieces() @ coefficients.T, _knots())


@cache
def _basis_pieces() -> FloatArray:
    """Return the polynomial coefficients of each basis function, (power, piece, function)."""
    starts, basis = _knots()[:-1], _basis()
    return np.stack([second_derivatives() / 2, basis(starts, nu=1), basis(starts)])


def _rows(bins: Bins, min_per_bin: float, smoothing: float) -> tuple[FloatArray, FloatArray]:
    rows, target = bin_rows(bins, min_per_bin)
    rough = np.sqrt(smoothing / INTERVALS) * second_derivatives()
    return np.vstack([rows, rough]), np.append(target, np.zeros(len(rough)))


def bin_rows(bins: Bins, min_per_bin: float) -> tuple[FloatArray, FloatArray]:
    """Return the mean basis in each usable bin and the bin's rate, both multiplied by √count."""
    usable = bins.usable(min_per_bin)
    weight = np.sqrt(bins.counts[usable])
    averages = _averages(tuple(bins.edges))[usable]
    return averages * weight[:, None], bins.rates[usable] * weight


@cache
def _averages(edges: tuple[float, ...]) -> FloatArray:
    places = np.array(edges)
    return np.asarray(np.diff(_basis().antiderivative()(places), axis=0) / np.diff(places)[:, None])


def _knots() -> FloatArray:
    return np.linspace(0, 1, INTERVALS + 1)


@cache
def _basis() -> BSpline:
    knots = np.concatenate([np.zeros(DEGREE), _knots(), np.ones(DEGREE)])
    return BSpline(knots, np.eye(COEFFICIENTS), DEGREE)


@cache
def second_derivatives() -> FloatArray:
    """Return the matrix from coefficients to the second derivative in each interval."""
    middles = (np.arange(INTERVALS) + 0.5) / INTERVALS
    return np.asarray(_basis().derivative(2)(middles))


@cache
def falling() -> FloatArray:
    """Return the matrix from steps d ≥ 0 to non-increasing coefficients."""
    # c_k = d_k + d_{k+1} + …
    return np.triu(np.ones((COEFFICIENTS, COEFFICIENTS)))
