"""Agreement of a ruler with humans: how well one monotone curve of its values explains accuracy.

Uncertainty comes from resampled images and observers, and from leaving out whole experiments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, no_advance
from eyechart.rulers.human_experiments import HumanConditions
from eyechart.rulers.study_record import DifferenceRecord, StatisticName, StatisticRecord
from eyechart.stats.bootstrap import draw_weights
from eyechart.stats.estimate import make_estimate
from eyechart.stats.p_values import holm, paired_difference

Experiments = NDArray[np.str_]
"""The experiment of each condition."""

Replicate = tuple[FloatArray, FloatArray]
"""One bootstrap replicate: how often each image counts, and the resampled human accuracy."""

STATISTICS: tuple[StatisticName, ...] = ("explained", "explained_left_out", "error")
"""The numbers of the table, by their names in `Agreement`."""

FEW_EXPERIMENTS = (
    "Intervals resample images and observers while the experiments stay the same: so few"
    " experiments cannot show that a ruler generalizes to other corruptions."
)


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """Points joined by straight lines, constant beyond the first and the last one."""

    values: FloatArray
    heights: FloatArray

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the heights at these values."""
        return np.asarray(np.interp(values, self.values, self.heights))


def fit_monotone(values: FloatArray, accuracy: FloatArray) -> PiecewiseLinear:
    """Return the non-increasing curve of rescaled accuracy with the smallest squared error.

    Conditions with the same value count as one point with their mean accuracy.

    Example:
        >>> curve = fit_monotone(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.2, 0.4]))
        >>> curve(np.array([0.0, 0.25, 1.0])).round(3)
        array([1.  , 0.65, 0.3 ])
    """
    order = np.argsort(values)
    places, means, weights = values[order], accuracy[order], None
    # np.unique would sort again, so it runs only if values are tied
    if (places[1:] == places[:-1]).any():
        places, inverse, counts = np.unique(places, return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=means) / counts
        weights = counts.astype(np.float64)
    fitted = isotonic_regression(means, weights=weights, increasing=False).x
    return PiecewiseLinear(places, np.asarray(fitted))


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
    for place in range(len(values)):
        others = np.arange(len(values)) != place
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
        errors[name] = rms_error(curve, values[inside], accuracy[inside])
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
        name: rms_error(curve, values[experiments == name], accuracy[experiments == name])
        for name in dict.fromkeys(experiments[~inside].tolist())
    }


def rms_error(curve: PiecewiseLinear, values: FloatArray, accuracy: FloatArray) -> float:
    """Return the root of the mean squared difference between a curve and accuracy."""
    return float(np.sqrt(np.mean((curve(values) - accuracy) ** 2)))


class Agreement(NamedTuple):
    """How well a ruler agrees with humans: the numbers of the table.

    Attributes:
        explained: Explained variance of the curve that was fitted to all conditions.
        explained_left_out: Explained variance if each condition is predicted from all others.
        error: Mean over experiments of the rms error on the experiment, predicted from the others.
    """

    explained: float
    explained_left_out: float
    error: float


def agreement(values: FloatArray, accuracy: FloatArray, experiments: Sequence[str]) -> Agreement:
    """Return how well one monotone curve of a ruler's values explains human accuracy.

    Args:
        values: The ruler's mean value in each condition.
        accuracy: The rescaled human accuracy in each condition.
        experiments: The experiment of each condition; at least two.

    Raises:
        UsageError: there is one experiment only, or a condition has no value.

    Example:
        >>> accuracy = np.array([1.0, 0.5, 0.0, 1.0, 0.5, 0.0])
        >>> agreement(1 - accuracy, accuracy, ["noise"] * 3 + ["blur"] * 3)
        Agreement(explained=1.0, explained_left_out=1.0, error=0.0)
    """
    if len(set(experiments)) < 2:
        raise UsageError(
            "Agreement needs at least 2 experiments, so that one can be left out, got"
            f" {len(set(experiments))}."
        )
    if not (np.isfinite(values).all() and np.isfinite(accuracy).all()):
        raise UsageError("values and accuracy must be finite numbers in every condition.")
    errors = experiment_errors(values, accuracy, np.array(experiments))
    return Agreement(
        explained_variance(fit_monotone(values, accuracy)(values), accuracy),
        explained_variance(predict_left_out(values, accuracy), accuracy),
        float(np.mean(list(errors.values()))),
    )


def weighted_means(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean over images of values (images, conditions); images without a value skip."""
    if weights is None:
        weights = np.ones(len(values))
    known = ~np.isnan(values)
    total = weights @ known
    # a condition without any value stays NaN, which `agreement` rejects
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ np.where(known, values, 0.0)) / total)


def draw_replicates(
    humans: HumanConditions, n_images: int, n_bootstrap: int, seed: int
) -> list[Replicate]:
    """Return replicates in which images, and the observers of each experiment, are resampled."""
    # separate seeds, so that replicates of images do not depend on the experiments
    image_weights = draw_weights(n_images, (seed, 1))
    groups = _observers_by_experiment(humans)
    drawn = [draw_weights(len(group), (seed, 2, number)) for number, group in enumerate(groups)]
    replicates = []
    for weights in islice(image_weights, n_bootstrap):
        observers = np.zeros(humans.n_observers)
        for group, group_weights in zip(groups, drawn, strict=True):
            observers[group] = next(group_weights)
        replicates.append((weights, humans.rescaled(observers)))
    return replicates


def _observers_by_experiment(humans: HumanConditions) -> list[NDArray[np.intp]]:
    """Return the observers of each experiment, including those who saw only its clean images."""
    seen = np.concatenate([humans.trials, humans.clean_trials]) > 0
    # observers of one experiment saw the same conditions
    patterns: dict[bytes, list[int]] = {}
    for observer in range(humans.n_observers):
        patterns.setdefault(seen[:, observer].tobytes(), []).append(observer)
    return [np.array(group) for group in patterns.values()]


def estimate_agreement(
    values: FloatArray,
    humans: HumanConditions,
    drawn: Sequence[Replicate],
    advance: Advance = no_advance,
) -> dict[StatisticName, StatisticRecord]:
    """Return the statistics of a ruler's agreement with humans, with intervals.

    Args:
        values: The ruler's value for each image in each condition, (images, conditions).
        humans: The human accuracy in each condition.
        drawn: The bootstrap replicates, the same for all rulers that are compared.
        advance: Called after each replicate.
    """
    experiments = humans.experiments
    observed = agreement(weighted_means(values), humans.rescaled(), experiments)
    rows = []
    for image_weights, accuracy in drawn:
        rows.append(agreement(weighted_means(values, image_weights), accuracy, experiments))
        advance(1, "")
    table = np.array(rows).reshape(-1, len(STATISTICS))
    jackknife = jackknife_errors(values, humans)
    return {
        name: StatisticRecord(
            estimate=make_estimate(value, table[:, column]), jackknife=jackknife[name]
        )
        for column, (name, value) in enumerate(zip(STATISTICS, observed, strict=True))
    }


def jackknife_errors(values: FloatArray, humans: HumanConditions) -> dict[StatisticName, float]:
    """Return the jackknife standard error over experiments: √((k − 1)/k · Σ(θ_i − θ̄)²).

    NaN with fewer than three experiments, because agreement needs two of them.
    """
    names = list(dict.fromkeys(humans.experiments))
    if len(names) < 3:
        return dict.fromkeys(STATISTICS, float("nan"))
    rows = []
    for name in names:
        rest, indices = humans.select(other for other in names if other != name)
        means = weighted_means(values)[indices]
        rows.append(agreement(means, rest.rescaled(), rest.experiments))
    return dict(zip(STATISTICS, jackknife_deviation(np.array(rows)).tolist(), strict=True))


def jackknife_deviation(left_out: FloatArray) -> FloatArray:
    """Return the jackknife standard error of statistics (k, …), each without one of k units.

    Example:
        >>> float(jackknife_deviation(np.array([1.0, 2.0, 3.0])))  # of a mean: σ / √n would be
        1.15...
    """
    count = len(left_out)
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt((count - 1) / count * spread))


def paired_differences(
    rulers: Mapping[str, Mapping[StatisticName, StatisticRecord]],
) -> list[DifferenceRecord]:
    """Return the paired differences between all rulers, corrected over all pairs by Holm."""
    pairs = list(combinations(rulers, 2))
    differences = []
    for statistic in STATISTICS[1:]:
        tests = [
            paired_difference(*(rulers[name][statistic].estimate for name in pair))
            for pair in pairs
        ]
        corrected = holm([test.p_value for test in tests])
        differences += [
            DifferenceRecord(
                first=first,
                second=second,
                statistic=statistic,
                difference=test.difference,
                interval95=test.interval,
                p_value=float(p_value),
            )
            for (first, second), test, p_value in zip(pairs, tests, corrected, strict=True)
        ]
    return differences
