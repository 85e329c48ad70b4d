"""Estimators that fit a non-increasing curve to bins: isotonic, spline, quantile spline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PPoly
from scipy.optimize import linprog

from eyechart.core.arrays import FloatArray
from eyechart.stats.bins import Bins
from eyechart.stats.estimator_registry import ESTIMATORS
from eyechart.stats.isotonic import isotonic_curves
from eyechart.stats.pieces import CurveStack
from eyechart.stats.spline import (
    COEFFICIENTS,
    DEGREE,
    bin_rows,
    choose_smoothing,
    falling,
    fit_spline,
    fit_splines,
    second_derivatives,
)
from eyechart.stats.spline import to_polynomials as to_pieces

Anchors = FloatArray | None
"""The anchor of each curve at Δv = 0 or at Δv = 1; None if there is no anchor."""


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


def by_least_squares(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> PPoly:
    """Return the non-increasing quadratic least-squares spline, weighted by the bins' counts."""
    return to_pieces(fit_spline(bins, min_per_bin, smoothing, left, right))


def by_quantiles(
    bins: Bins, min_per_bin: float, smoothing: float, left: float | None, right: float | None
) -> PPoly:
    """Return the non-increasing quadratic median spline (COBS), solved as a linear program.

    It minimizes the weighted absolute deviations plus `smoothing` times the largest |s''|.
    """
    return to_pieces(_quantile_spline(bins, min_per_bin, smoothing, left, right))


def choose_by_sic(bins: Bins, min_per_bin: float, left: float | None, right: float | None) -> float:
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


def by_isotonic_regression(
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


def _many_least_squares(
    bins: Bins, min_per_bin: float, smoothing: float, left: Anchors, right: Anchors
) -> Sequence[PPoly]:
    return CurveStack(to_pieces(fit_splines(bins, min_per_bin, smoothing, left, right)))


SPLINE = CurveEstimator(by_least_squares, choose_smoothing, _many_least_squares)
COBS = CurveEstimator(by_quantiles, choose_by_sic)
ISOTONIC = CurveEstimator(by_isotonic_regression, fit_many=_many_isotonic)


def refit(
    estimator: str,
    bins: Bins,
    min_per_bin: float,
    smoothing: float,
    anchors: tuple[Anchors, Anchors],
) -> Sequence[PPoly]:
    """Return the curves fitted to many sets of bins with these left and right `anchors`."""
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
