"""Fit the few parameters of `vif-human` to human accuracy, nested within left-out experiments."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance, no_advance
from eyechart.rulers.agreement import Experiments, experiment_errors, fit_monotone
from eyechart.rulers.human_experiments import HumanConditions
from eyechart.rulers.study_intervals import Replicate, weighted_means
from eyechart.rulers.vif_terms import NOISE_VARIANCES

EXPONENTS = (-1.5, -1.0, -0.5, 0.0)
"""Candidates for the exponent of the scale weights."""

PENALTIES = (0.0, 0.3, 0.6, 0.9, 1.2)
"""Candidates for the penalty of a rotation by 180°."""

ROUNDING = 1e-9
"""Candidates whose errors differ by less are tied; the first one, with the least penalty, wins."""


@dataclass(frozen=True, order=True)
class VifParameters:
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


@cache
def candidates() -> tuple[VifParameters, ...]:
    """Return all combinations of candidate values; those with the least penalty come first."""
    return tuple(
        VifParameters(variance, exponent, penalty)
        for penalty, variance, exponent in product(PENALTIES, NOISE_VARIANCES, EXPONENTS)
    )


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of VIF in every condition, as `TermsMeter` measures them.

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
        on_one: list[float] = []
        on_two: list[float] = []
        for row in means:
            curve = fit_monotone(row[rest], accuracy[rest])
            for inside, collected in ((members[one], on_one), (members[two], on_two)):
                residual = curve(row[inside]) - accuracy[inside]
                collected.append(float(np.sqrt(np.mean(residual**2))))
        errors[one][two], errors[two][one] = np.array(on_two), np.array(on_one)
    chosen, outer = {}, {}
    residuals = np.empty_like(accuracy)
    for name, inside in members.items():
        chosen[name] = _first_smallest(np.mean(list(errors[name].values()), axis=0))
        row = means[chosen[name]]
        curve = fit_monotone(row[~inside], accuracy[~inside])
        residuals[inside] = curve(row[inside]) - accuracy[inside]
        outer[name] = float(np.sqrt(np.mean(residuals[inside] ** 2)))
    return NestedFit(outer, chosen, residuals)


def predict_conditions(
    means: FloatArray, accuracy: FloatArray, experiments: Experiments
) -> FloatArray:
    """Return each condition's accuracy, with curve and candidate chosen on all other conditions."""
    predicted = np.empty_like(accuracy)
    everything = np.arange(len(accuracy))
    for place in everything:
        others = everything != place
        best = best_candidate(means[:, others], accuracy[others], experiments[others])
        curve = fit_monotone(means[best, others], accuracy[others])
        predicted[place] = curve(means[best, place : place + 1])[0]
    return predicted


@dataclass(frozen=True, eq=False)
class VifFit:
    """Fitted parameters with bootstrap replicates, and the nested error.

    Attributes:
        parameters: The parameters that are best on all experiments.
        parameter_replicates: The best parameters in each replicate, (replicates, 3).
        nested: The nested errors.
        nested_replicates: The mean nested error in each replicate.
        predicted: The accuracy in each condition, predicted without any choice having seen it.
    """

    parameters: VifParameters
    parameter_replicates: FloatArray
    nested: NestedFit
    nested_replicates: FloatArray
    predicted: FloatArray


def fit_vif(
    terms: Terms,
    humans: HumanConditions,
    drawn: Sequence[Replicate],
    advance: Advance = no_advance,
) -> VifFit:
    """Return the parameters that agree best with humans, with their uncertainty.

    `drawn`: bootstrap replicates of images and observers, see `study_intervals.replicates`.
    """
    tried = candidates()
    values = np.stack([terms.values(parameters) for parameters in tried])
    experiments = np.array(humans.experiments)
    means = np.stack([weighted_means(one) for one in values])
    accuracy = humans.rescaled()
    best = tried[best_candidate(means, accuracy, experiments)]
    rows, nested_errors = [], []
    for replicate in drawn:
        again = np.stack([replicate.means(one) for one in values])
        chosen = tried[best_candidate(again, replicate.accuracy, experiments)]
        rows.append((chosen.noise_variance, chosen.exponent, chosen.penalty))
        nested_errors.append(nested_fit(again, replicate.accuracy, experiments).error)
        advance(1, "")
    return VifFit(
        best,
        np.array(rows).reshape(-1, 3),
        nested_fit(means, accuracy, experiments),
        np.array(nested_errors),
        predict_conditions(means, accuracy, experiments),
    )


def _first_smallest(errors: FloatArray) -> int:
    return int(np.flatnonzero(errors <= errors.min() + ROUNDING)[0])
