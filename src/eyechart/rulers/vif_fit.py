"""Fit the few parameters of `vif-human` to human accuracy, nested within left-out experiments.

First the terms of VIF that the parameters weigh, which are measured after registration; then the
fit of the parameters, and of the map of the ruler `human`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance, no_advance
from eyechart.rulers.agreement import (
    Experiments,
    PiecewiseLinear,
    Replicate,
    experiment_errors,
    explained_variance,
    fit_monotone,
    rms_error,
    weighted_means,
)
from eyechart.rulers.human_experiments import HumanConditions
from eyechart.rulers.study_record import FitRecord, ParameterRecord
from eyechart.stats.estimate import make_estimate
from eyechart.stats.intervals import CONFIDENCE, percentile_interval
from eyechart.visual_change.vif.fidelity import clean_terms, describe_clean, kept_terms
from eyechart.visual_change.vif.pyramid import subbands, window_side
from eyechart.visual_change.vif.statistics import VCR, Scale

NOISE_VARIANCES = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Candidates for σ_n², from the published value upwards, in squared gray levels."""

DEFINITIONS = tuple(replace(VCR, noise_variance=variance) for variance in NOISE_VARIANCES)

FINE, COARSE = 1.0, 4.0
"""Scales in px of the difference of Gaussians on which turns are compared."""

MIN_LEAD = 0.5
"""Correlation by which a turned image must exceed the unturned one.

Without noise, the correlation of an image that was turned is 1. In images of which little is left,
turns lead by less than this by chance.
"""

EXPONENTS = (-1.5, -1.0, -0.5, 0.0)
"""Candidates for the exponent of the scale weights."""

PENALTIES = (0.0, 0.3, 0.6, 0.9, 1.2)
"""Candidates for the penalty of a rotation by 180°."""

ROUNDING = 1e-9
"""Candidates whose errors differ by less are tied; the first one, with the least penalty, wins."""

KNOTS = np.linspace(0, 1, 21)
"""Values of the ruler between which the map is a straight line."""

MIN_SLOPE = 0.01
"""Minimum slope of the map, so that it can be inverted."""

EXACT = 1e3
"""Weight of the condition that a value of 1 is a loss of 1."""


def measure_terms(clean: Tensor, corrupted: Sequence[Tensor]) -> list[dict[str, FloatArray]]:
    """Return the terms of VIF for batches of corrupted gray images, after undoing quarter turns.

    Args:
        clean: Clean gray images, uint8 (B, H, W).
        corrupted: The same images in several conditions.

    Returns:
        For each condition the information that its images `kept` out of the `total`, each
        (B, variances × scales), and the `angle` by which they were turned, in degrees.
    """
    statistics = describe_clean(clean, VCR)
    scales = statistics.scales
    total = _pooled(scales, [[clean_terms(scale, one) for scale in scales] for one in DEFINITIONS])
    columns = []
    for gray in corrupted:
        turns = quarter_turns(clean, gray)
        upright = torch.stack(
            [
                torch.rot90(image, -turn, dims=(0, 1))
                for image, turn in zip(gray, turns.tolist(), strict=True)
            ]
        )
        bands = subbands(upright, len(scales), statistics.dtype)
        terms = [
            [
                kept_terms(scale, bands[level], window_side(level, len(scales)), definition)
                for level, scale in enumerate(scales)
            ]
            for definition in DEFINITIONS
        ]
        # 270° is a turn by 90° in the other direction
        angle = 90.0 * torch.minimum(turns, 4 - turns)
        tensors = {"kept": _pooled(scales, terms), "total": total, "angle": angle}
        columns.append({name: tensor.cpu().numpy() for name, tensor in tensors.items()})
    return columns


def _pooled(scales: Sequence[Scale], terms: list[list[Tensor]]) -> Tensor:
    """Return terms by definition and scale, each (B, 2, n, m), pooled: (B, variances, scales)."""
    pooled = [
        [
            definition.pooled(one.sum(dim=(-2, -1)), scale.blocks, level)
            for level, (scale, one) in enumerate(zip(scales, row, strict=True))
        ]
        for definition, row in zip(DEFINITIONS, terms, strict=True)
    ]
    return torch.stack([torch.stack(row, dim=1) for row in pooled], dim=1)


def quarter_turns(clean: Tensor, corrupted: Tensor) -> Tensor:
    """Return by how many counterclockwise quarter turns each image was rotated, int64 (B,).

    Images are square; a turn counts only if it makes the images more similar by far.
    """
    before, after = _band(clean), _band(corrupted)
    similarity = torch.stack(
        [_correlation(before, torch.rot90(after, -turn, dims=(1, 2))) for turn in range(4)]
    )
    # added to the unturned image, so that images of which little is left are not turned
    similarity[0] += MIN_LEAD
    return similarity.argmax(dim=0)


def _band(gray: Tensor) -> Tensor:
    """Return a difference of Gaussians; the mean gray, which noise may move, drops out."""
    planes = gray.to(torch.float64)
    rows, columns = (torch.fft.fftfreq(side, device=gray.device) for side in gray.shape[1:])
    squares = (rows[:, None] ** 2 + columns[None, :] ** 2).to(torch.float64)
    # the Fourier transform of a Gaussian of scale σ is exp(−2π²σ²f²)
    factor = -2 * torch.pi**2 * squares
    band = torch.exp(factor * FINE**2) - torch.exp(factor * COARSE**2)
    filtered: Tensor = torch.fft.ifft2(torch.fft.fft2(planes) * band)
    return filtered.real


def _correlation(one: Tensor, two: Tensor) -> Tensor:
    norm = ((one * one).sum(dim=(1, 2)) * (two * two).sum(dim=(1, 2))).sqrt()
    # a constant image has norm 0; its correlation becomes 0 rather than NaN
    return (one * two).sum(dim=(1, 2)) / norm.clamp_min(1e-12)


class VifParameters(NamedTuple):
    """The parameters of a registered VIF.

    Δv = 1 − VIF · exp(−penalty · angle / 180°), with VIF = Σ w_l kept_l / Σ w_l total_l over the
    scales l = 0 (finest) … 3 and weights w_l = 2^(exponent · l).

    Attributes:
        noise_variance: σ_n², the internal noise of the eye, in squared gray levels.
        exponent: The exponent of the scale weights; below 0, fine scales count more.
        penalty: The exponent of the loss from a rotation by 180°.
    """

    noise_variance: float
    exponent: float
    penalty: float


CANDIDATES = tuple(
    VifParameters(variance, exponent, penalty)
    for penalty, variance, exponent in product(PENALTIES, NOISE_VARIANCES, EXPONENTS)
)
"""All combinations of candidate values; those with the least penalty come first."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of VIF in every condition, as `measure_terms` returns them.

    Attributes:
        kept: (images, conditions, variances, scales).
        total: (images, variances, scales).
        angle: The rotation that was undone, in degrees, (images, conditions).
    """

    kept: FloatArray
    total: FloatArray
    angle: FloatArray

    @classmethod
    def of(cls, columns: dict[str, FloatArray]) -> "Terms":
        """Return the terms from the columns of a table of measured terms."""
        shape = *columns["kept"].shape[:2], len(NOISE_VARIANCES), -1
        total = columns["total"].reshape(shape)[:, 0]
        return cls(columns["kept"].reshape(shape), total, columns["angle"])

    def values(self, parameters: VifParameters) -> FloatArray:
        """Return Δv (images, conditions) with these parameters."""
        place = NOISE_VARIANCES.index(parameters.noise_variance)
        weights = 2.0 ** (parameters.exponent * np.arange(self.kept.shape[-1]))
        kept, total = self.kept[:, :, place] @ weights, self.total[:, place] @ weights
        # raised contrast gives a VIF above 1, which counts as no change
        fidelity = np.minimum(kept / total[:, None], 1.0)
        return np.asarray(1 - fidelity * np.exp(-parameters.penalty * self.angle / 180))


@dataclass(frozen=True, eq=False)
class NestedFit:
    """The error on each experiment if neither curve nor parameters have seen it.

    Attributes:
        errors: The rms error on each left-out experiment.
        chosen: The candidate chosen without each experiment, by its number.
        residuals: Predicted minus observed accuracy of each condition.
    """

    errors: dict[str, float]
    chosen: dict[str, int]
    residuals: FloatArray

    @property
    def error(self) -> float:
        """The mean over experiments of the rms error."""
        return float(np.mean(list(self.errors.values())))


def best_candidate(means: FloatArray, accuracy: FloatArray, experiments: Experiments) -> int:
    """Return the candidate with the smallest mean error on left-out experiments.

    Args:
        means: The value of each candidate in each condition, (candidates, conditions).
        accuracy: The rescaled human accuracy.
        experiments: The experiment of each condition.
    """
    errors = [
        np.mean(list(experiment_errors(row, accuracy, experiments).values())) for row in means
    ]
    return _first_smallest(np.array(errors))


def nested_fit(means: FloatArray, accuracy: FloatArray, experiments: Experiments) -> NestedFit:
    """Return the errors on left-out experiments, with the choice of candidate nested.

    For each outer experiment, the candidate with the smallest mean error on the other experiments
    is chosen, each of them predicted from the rest; its curve is fitted to all but the outer
    experiment.
    """
    names = list(dict.fromkeys(experiments.tolist()))
    members = {name: experiments == name for name in names}
    # errors[a][b]: the error on b, of a curve that has seen neither a nor b
    errors: dict[str, dict[str, FloatArray]] = {name: {} for name in names}
    for one, two in combinations(names, 2):
        # a curve that has seen neither experiment serves both directions, which halves the fits
        rest = ~(members[one] | members[two])
        curves = [fit_monotone(row[rest], accuracy[rest]) for row in means]
        for first, second in ((one, two), (two, one)):
            inside = members[second]
            errors[first][second] = np.array(
                [
                    rms_error(curve, row[inside], accuracy[inside])
                    for curve, row in zip(curves, means, strict=True)
                ]
            )
    chosen, outer = {}, {}
    residuals = np.empty_like(accuracy)
    for name, inside in members.items():
        chosen[name] = _first_smallest(np.mean(list(errors[name].values()), axis=0))
        row = means[chosen[name]]
        curve = fit_monotone(row[~inside], accuracy[~inside])
        residuals[inside] = curve(row[inside]) - accuracy[inside]
        outer[name] = rms_error(curve, row[inside], accuracy[inside])
    return NestedFit(outer, chosen, residuals)


def predict_conditions(
    means: FloatArray, accuracy: FloatArray, experiments: Experiments
) -> FloatArray:
    """Return each condition's accuracy, with curve and candidate chosen on all other conditions."""
    predicted = np.empty_like(accuracy)
    for place in range(len(accuracy)):
        others = np.arange(len(accuracy)) != place
        best = best_candidate(means[:, others], accuracy[others], experiments[others])
        curve = fit_monotone(means[best, others], accuracy[others])
        predicted[place] = curve(means[best, place : place + 1])[0]
    return predicted


def fit_vif(
    terms: Terms,
    humans: HumanConditions,
    drawn: Sequence[Replicate],
    advance: Advance = no_advance,
) -> tuple[VifParameters, FitRecord]:
    """Return the parameters that agree best with humans, and a record with their uncertainty.

    `drawn`: bootstrap replicates of images and observers, see `agreement.draw_replicates`.
    """
    values = np.stack([terms.values(parameters) for parameters in CANDIDATES])
    experiments = np.array(humans.experiments)
    means = np.stack([weighted_means(one) for one in values])
    accuracy = humans.rescaled()
    best = CANDIDATES[best_candidate(means, accuracy, experiments)]
    rows, nested_errors = [], []
    for image_weights, drawn_accuracy in drawn:
        drawn_means = np.stack([weighted_means(one, image_weights) for one in values])
        rows.append(CANDIDATES[best_candidate(drawn_means, drawn_accuracy, experiments)])
        nested_errors.append(nested_fit(drawn_means, drawn_accuracy, experiments).error)
        advance(1, "")
    chosen_values = np.array(rows).reshape(-1, 3)
    nested = nested_fit(means, accuracy, experiments)
    parameters = tuple(
        ParameterRecord(
            name=name,
            value=getattr(best, name),
            interval95=percentile_interval(chosen_values[:, column], CONFIDENCE),
            chosen={
                experiment: getattr(CANDIDATES[number], name)
                for experiment, number in nested.chosen.items()
            },
        )
        for column, name in enumerate(("noise_variance", "exponent", "penalty"))
    )
    human_map = fit_human_map(terms.values(best), accuracy)
    deviation = np.nanmean(human_map(terms.values(best)), axis=0) - (1 - accuracy)
    predicted = predict_conditions(means, accuracy, experiments)
    knots = zip(human_map.values.tolist(), human_map.heights.tolist(), strict=True)
    record = FitRecord(
        parameters=parameters,
        nested_explained=explained_variance(predicted, accuracy),
        nested_error=make_estimate(nested.error, np.array(nested_errors)),
        nested_errors=nested.errors,
        knots=tuple((round(value, 6), round(loss, 6)) for value, loss in knots),
        half_width95=float(np.quantile(np.abs(nested.residuals), CONFIDENCE)),
        mean_deviation=float(deviation.mean()),
    )
    return best, record


def _first_smallest(errors: FloatArray) -> int:
    return int(np.flatnonzero(errors <= errors.min() + ROUNDING)[0])


def fit_human_map(values: FloatArray, accuracy: FloatArray) -> PiecewiseLinear:
    """Return the map whose mean over images is closest to the human loss in each condition.

    It increases strictly from 0 at 0 to 1 at 1, and gives the expected loss of human accuracy.

    The mean of the mapped values is linear in the map's increments between knots, so the best map
    is a least-squares problem with increments that must not be negative. Mapping the mean value of
    a condition instead would ignore that its images differ.

    Args:
        values: A ruler's value for each image in each condition, (images, conditions).
        accuracy: The rescaled human accuracy in each condition.

    Example:
        >>> values = np.linspace(0, 1, 30)[None]
        >>> fitted = fit_human_map(values, 1 - values[0])  # a ruler that is the loss itself
        >>> bool(np.allclose(fitted(values), values, atol=1e-3))
        True
    """
    widths = np.diff(KNOTS)
    # how much of each step between knots lies below the value
    steps = np.clip((values[..., None] - KNOTS[:-1]) / widths, 0, 1)
    means = np.nanmean(steps, axis=0)
    least = MIN_SLOPE * widths
    rows = np.vstack([means, EXACT * np.ones(len(widths))])
    # nnls fits only what exceeds the minimum slope, so that its bound of 0 enforces the minimum
    targets = np.append(1 - accuracy, EXACT) - rows @ least
    increments = nnls(rows, targets)[0] + least
    losses = np.append(0.0, np.cumsum(increments))
    # the large weight makes the last loss almost 1; the division makes it exactly 1
    return PiecewiseLinear(KNOTS, losses / losses[-1])
