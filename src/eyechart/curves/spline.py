"""Non-increasing quadratic splines over 0…1, fitted to bins by non-negative least squares.

A quadratic spline falls everywhere if and only if its coefficients c do. With c_k the sum of d_k,
d_{k+1}, … and d ≥ 0 it falls and never goes below 0; so a fit is one problem of that kind.
"""

from functools import cache

import numpy as np
from scipy.interpolate import BSpline, PPoly
from scipy.optimize import nnls

from eyechart.curves.bins import Bins, Numbers

INTERVALS, DEGREE = 20, 2
COEFFICIENTS = INTERVALS + DEGREE

HEAVY = 1e4
"""How many times as much as all answers together an anchor weighs, as a square root."""

SMOOTHINGS = np.logspace(-3, 1, 9)
"""The strengths of smoothing to choose from, where answers weigh 1 each."""


def fit_spline(
    bins: Bins, least: float, smoothing: float, left: float | None, right: float | None
) -> Numbers:
    """Return the coefficients of the falling spline through the usable bins and the anchors."""
    matrix, target = _rows(bins, least, smoothing)
    total = HEAVY * np.sqrt(bins.counts[bins.usable(least)].sum())
    anchored = [(0, left), (COEFFICIENTS - 1, right)]
    for place, value in anchored:
        if value is not None:
            row = np.zeros(COEFFICIENTS)
            row[place] = total
            matrix, target = np.vstack([matrix, row]), np.append(target, total * value)
    steps, _ = nnls(matrix @ falling(), target)
    coefficients: Numbers = falling() @ steps
    if left is None and coefficients[0] > 1:
        return fit_spline(bins, least, smoothing, 1.0, right)
    return coefficients


def choose_smoothing(bins: Bins, least: float, left: float | None, right: float | None) -> float:
    """Return the strength of smoothing with the least generalised cross-validation error.

    The effective number of parameters is that of the fit without its constraints, which is an upper
    bound.
    """
    errors = []
    rows, target = bin_rows(bins, least)
    count = len(target)
    for smoothing in SMOOTHINGS:
        coefficients = fit_spline(bins, least, smoothing, left, right)
        whole, _ = _rows(bins, least, smoothing)
        normal = whole.T @ whole + 1e-9 * np.eye(COEFFICIENTS)
        freedom = np.trace(np.linalg.solve(normal, rows.T @ rows))
        residual = np.square(target - rows @ coefficients).sum() / count
        errors.append(residual / max(1 - freedom / count, 1e-3) ** 2)
    return float(SMOOTHINGS[int(np.argmin(errors))])


def to_polynomials(coefficients: Numbers) -> PPoly:
    """Return the spline as pieces of polynomials over 0…1."""
    knots = _basis().t
    pieces = PPoly.from_spline(BSpline(knots, coefficients, DEGREE))
    # without the empty pieces between the repeated knots at both ends
    inner = slice(DEGREE, DEGREE + INTERVALS)
    return PPoly(pieces.c[:, inner], pieces.x[DEGREE : DEGREE + INTERVALS + 1])


def _rows(bins: Bins, least: float, smoothing: float) -> tuple[Numbers, Numbers]:
    rows, target = bin_rows(bins, least)
    rough = np.sqrt(smoothing / INTERVALS) * second_derivatives()
    return np.vstack([rows, rough]), np.append(target, np.zeros(len(rough)))


def bin_rows(bins: Bins, least: float) -> tuple[Numbers, Numbers]:
    """Return a row for each usable bin: the basis averaged over it, times the root of its count."""
    usable = bins.usable(least)
    weight = np.sqrt(bins.counts[usable])
    averages = _averages(tuple(bins.edges))[usable]
    return averages * weight[:, None], bins.rates[usable] * weight


@cache
def _averages(edges: tuple[float, ...]) -> Numbers:
    places = np.array(edges)
    return np.asarray(np.diff(_basis().antiderivative()(places), axis=0) / np.diff(places)[:, None])


@cache
def _basis() -> BSpline:
    knots = np.concatenate([np.zeros(DEGREE), np.linspace(0, 1, INTERVALS + 1), np.ones(DEGREE)])
    return BSpline(knots, np.eye(COEFFICIENTS), DEGREE)


@cache
def second_derivatives() -> Numbers:
    """Return the matrix from coefficients to the second derivative in each interval."""
    middles = (np.arange(INTERVALS) + 0.5) / INTERVALS
    return np.asarray(_basis().derivative(2)(middles))


@cache
def falling() -> Numbers:
    """Return the matrix from steps d ≥ 0 to falling coefficients."""
    return np.triu(np.ones((COEFFICIENTS, COEFFICIENTS)))
