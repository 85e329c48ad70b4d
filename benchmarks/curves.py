"""Measure how fast eyechart and other methods refit curves to resampled predictions."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import lsq_linear

from benchmarks.timing import machine_name
from eyechart.core.arrays import FloatArray
from eyechart.core.version import versions
from eyechart.stats.bins import Bins
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.curve_settings import ESTIMATORS
from eyechart.stats.estimators import COEFFICIENTS, HEAVY, bin_rows, falling, second_derivatives

RIVALS = {
    "lsq_linear": "the same fit by scipy.optimize.lsq_linear with bounds",
    "cobs": "the quantile spline that the study cites, as a linear program (HiGHS)",
    "isotonic": "isotonic regression over all bins, the default estimator",
}


@dataclass(frozen=True)
class CurvesPlan:
    """What is timed: `corruptions` × `properties` curves, each refitted `replicates` times."""

    corruptions: int = 14
    properties: int = 2
    predictions: int = 5000
    images: int = 1000
    n_bootstrap: int = 1000
    rival_refits: int = 50
    threads: int = 1


@dataclass(frozen=True)
class CurvesSpeed:
    """Seconds for all curves with intervals, for one eyechart refit, and for each rival's refit.

    `ratios`: time of a rival's refit divided by the time of an eyechart refit.
    """

    seconds: float
    refit: float
    rivals: dict[str, float]
    ratios: dict[str, float]


def measure(plan: CurvesPlan) -> CurvesSpeed:
    """Return the total time, and each rival's time to refit the same resampled counts."""
    sets = [_predictions(plan, number) for number in range(plan.corruptions * plan.properties)]
    start = time.perf_counter()
    for change, hits, clean, images in sets:
        curve = fit_curve(
            change,
            hits,
            anchor=clean,
            clusters=images,
            n_bootstrap=plan.n_bootstrap,
            estimator="spline",
        )
        _ = curve.interval(0.95), curve.interval(0.83), curve.bounds
    whole = time.perf_counter() - start
    some = min(plan.rival_refits, plan.n_bootstrap)
    rivals = {name: _seconds_each(_rival(name), curve, some) for name in RIVALS}
    ours = whole / len(sets) / plan.n_bootstrap
    return CurvesSpeed(whole, ours, rivals, {name: own / ours for name, own in rivals.items()})


def figures(speed: CurvesSpeed, plan: CurvesPlan) -> dict[str, Any]:
    """Return the measurements, the machine and the versions, as values for a JSON file."""
    return {
        "schema": 1,
        "machine": machine_name(torch.device("cpu")),
        "versions": versions(),
        **asdict(plan),
        **asdict(speed),
    }


def _predictions(
    plan: CurvesPlan, number: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the Δv, hits, hits on clean images and image indices of simulated predictions."""
    numbers = np.random.default_rng(number)
    images = np.arange(plan.predictions) % plan.images
    easy = numbers.random(plan.images)[images]
    change = numbers.random(plan.predictions)
    rate = 0.85 / (1 + np.exp((change - 0.65) * 9))
    # The easier an image, the more likely all predictions for it are correct.
    hits = (easy + numbers.random(plan.predictions)) / 2 < rate
    return change, hits.astype(float), (easy < 0.85).astype(float), images.astype(float)


def _seconds_each(fit: Callable[[Bins, Curve, float], object], curve: Curve, some: int) -> float:
    """Return the mean seconds per fit over some of the curve's resampled counts."""
    starts = curve.refits(0.0)[:some]
    start = time.perf_counter()
    for own, left in zip(curve.refit_bins.rows()[:some], starts, strict=True):
        fit(own, curve, float(left))
    return (time.perf_counter() - start) / some


def _rival(name: str) -> Callable[[Bins, Curve, float], object]:
    if name == "lsq_linear":
        return bounded_least_squares
    return lambda bins, curve, left: ESTIMATORS[name].fit(bins, 1, curve.smoothing, left, None)


def bounded_least_squares(bins: Bins, curve: Curve, left: float) -> FloatArray:
    """Return the coefficients of the same decreasing spline, from scipy's bounded least squares."""
    rows, target = bin_rows(bins, 1)
    roughness = second_derivatives()
    rough = np.sqrt(curve.smoothing / len(roughness)) * roughness
    heavy = HEAVY * np.sqrt(bins.counts.sum())
    anchor = heavy * np.eye(1, COEFFICIENTS)
    matrix = np.vstack([rows, rough, anchor]) @ falling()
    goal = np.concatenate([target, np.zeros(len(rough)), [heavy * left]])
    solved = lsq_linear(matrix, goal, (0, np.inf), method="bvls", tol=1e-12)
    return np.asarray(falling() @ solved.x)
