"""Agreement of a ruler with humans: how well one monotone curve of its values explains accuracy.

Numbers in, numbers out: the ruler's mean value in each condition, and the rescaled human accuracy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError

Experiments = NDArray[np.str_]
"""The experiment of each condition."""


@dataclass(frozen=True, eq=False)
class MonotoneCurve:
    """A non-increasing curve from a ruler's value to rescaled accuracy.

    It is the isotonic least-squares fit, joined by straight lines and constant beyond its ends.
    """

    values: FloatArray
    accuracy: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the accuracy at these values of the ruler."""
        return np.asarray(np.interp(values, self.values, self.accuracy))


def fit_monotone(values: FloatArray, accuracy: FloatArray) -> MonotoneCurve:
    """Return the non-increasing curve with the smallest squared error.

    Conditions with the same value count as one point with their mean accuracy.

    Example:
        >>> curve = fit_monotone(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.2, 0.4]))
        >>> curve(np.array([0.0, 0.25, 1.0])).round(3)
        array([1.  , 0.65, 0.3 ])
    """
    order = np.argsort(values)
    places, means = values[order], accuracy[order]
    weights = None
    # np.unique would sort again, so it runs only if values are tied
    if (places[1:] == places[:-1]).any():
        places, inverse, counts = np.unique(places, return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=means) / counts
        weights = counts.astype(np.float64)
    fitted = isotonic_regression(means, weights=weights, increasing=False).x
    return MonotoneCurve(places, np.asarray(fitted))


def explained_variance(predicted: FloatArray, accuracy: FloatArray) -> float:
    """Return 1 − Σ(y − ŷ)² / Σ(y − ȳ)²; negative if the mean would predict better.

    Example:
        >>> explained_variance(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        1.0
    """
    total = float(((accuracy - accuracy.mean()) ** 2).sum())
    # a negation, so that NaN is rejected as well
    if not total > 0:
        raise UsageError("Human accuracy must differ between conditions: there is no variance.")
    return 1 - float(((accuracy - predicted) ** 2).sum()) / total


def predict_left_out(values: FloatArray, accuracy: FloatArray) -> FloatArray:
    """Return the accuracy in each condition, predicted from all other conditions."""
    predicted = np.empty_like(accuracy)
    everything = np.arange(len(values))
    for place in everything:
        others = everything != place
        curve = fit_monotone(values[others], accuracy[others])
        predicted[place] = curve(values[place : place + 1])[0]
    return predicted


def experiment_errors(
    values: FloatArray, accuracy: FloatArray, experiments: Experiments
) -> dict[str, float]:
    """Return the rms error in each experiment, predicted from the other experiments."""
    errors = {}
    for name in dict.fromkeys(experiments.tolist()):
        inside = experiments == name
        curve = fit_monotone(values[~inside], accuracy[~inside])
        errors[name] = _rms_error(curve, values[inside], accuracy[inside])
    return errors


def transfer_errors(
    values: FloatArray, accuracy: FloatArray, experiments: Experiments, fitted: Sequence[str]
) -> dict[str, float]:
    """Return the rms error in each other experiment, predicted from the experiments `fitted`.

    Example:
        >>> accuracy = np.array([1.0, 0.0, 1.0, 0.5])
        >>> names = np.array(["blur", "blur", "noise", "noise"])
        >>> transfer_errors(1 - accuracy, accuracy, names, ["blur"])
        {'noise': 0.0}
    """
    inside = np.isin(experiments, list(fitted))
    # nothing to predict, or nothing to predict it from
    if inside.all() or not inside.any():
        return {}
    curve = fit_monotone(values[inside], accuracy[inside])
    return {
        name: _rms_error(curve, values[experiments == name], accuracy[experiments == name])
        for name in dict.fromkeys(experiments[~inside].tolist())
    }


def _rms_error(curve: MonotoneCurve, values: FloatArray, accuracy: FloatArray) -> float:
    return float(np.sqrt(np.mean((curve(values) - accuracy) ** 2)))


@dataclass(frozen=True)
class Agreement:
    """How well a ruler agrees with humans.

    Attributes:
        explained: Explained variance of the curve that was fitted to all conditions.
        explained_left_out: Explained variance if each condition is predicted from all others.
        error: Mean over experiments of the rms error on the experiment, predicted from the others.
        errors: The rms error on each experiment.
    """

    explained: float
    explained_left_out: float
    error: float
    errors: dict[str, float]

    @property
    def statistics(self) -> tuple[float, float, float]:
        """The three numbers of the table."""
        return self.explained, self.explained_left_out, self.error


def agreement(values: FloatArray, accuracy: FloatArray, experiments: Sequence[str]) -> Agreement:
    """Return how well one monotone curve of a ruler's values explains human accuracy.

    Args:
        values: The ruler's mean value in each condition.
        accuracy: The rescaled human accuracy in each condition.
        experiments: The experiment of each condition; at least two.

    Example:
        >>> accuracy = np.array([1.0, 0.5, 0.0, 1.0, 0.5, 0.0])
        >>> agreement(1 - accuracy, accuracy, ["noise"] * 3 + ["blur"] * 3).statistics
        (1.0, 1.0, 0.0)
    """
    check_values(values, accuracy, experiments)
    names = np.array(experiments)
    fitted = fit_monotone(values, accuracy)(values)
    errors = experiment_errors(values, accuracy, names)
    return Agreement(
        explained_variance(fitted, accuracy),
        explained_variance(predict_left_out(values, accuracy), accuracy),
        float(np.mean(list(errors.values()))),
        errors,
    )


def check_values(values: FloatArray, accuracy: FloatArray, experiments: Sequence[str]) -> None:
    """Raise a UsageError unless every condition has a finite value, an accuracy and experiment."""
    if not len(values) == len(accuracy) == len(experiments):
        raise UsageError(
            "values, accuracy and experiments must have one entry for each condition, got"
            f" {len(values)}, {len(accuracy)} and {len(experiments)}."
        )
    if len(set(experiments)) < 2:
        raise UsageError(
            "Agreement needs at least 2 experiments, so that one can be left out, got"
            f" {len(set(experiments))}."
        )
    if not (np.isfinite(values).all() and np.isfinite(accuracy).all()):
        raise UsageError("values and accuracy must be finite numbers in every condition.")
