"""Uncertainty of a ruler's agreement: images and observers resampled, experiments left out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray
from eyechart.core.progress import Advance, no_advance
from eyechart.rulers.agreement import Agreement, agreement
from eyechart.rulers.human_experiments import HumanConditions
from eyechart.stats.bootstrap import draw_weights
from eyechart.stats.estimate import Estimate, make_estimate
from eyechart.stats.p_values import PairedDifference, holm, paired_difference

STATISTICS = ("explained", "explained_left_out", "error")
"""The numbers of the table, by their names in `Agreement`."""

FEW_EXPERIMENTS = (
    "Intervals resample images and observers while the experiments stay the same: so few"
    " experiments cannot show that a ruler generalizes to other corruptions."
)


@dataclass(frozen=True)
class Replicate:
    """One bootstrap replicate: how often each image counts, and the resampled human accuracy."""

    image_weights: FloatArray
    accuracy: FloatArray

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean of a ruler's values (images, conditions) over the resampled images."""
        return weighted_means(values, self.image_weights)


def weighted_means(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean over images of values (images, conditions); images without a value skip."""
    if weights is None:
        weights = np.ones(len(values))
    known = ~np.isnan(values)
    total = weights @ known
    # a condition without any value stays NaN, which `agreement` rejects
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ np.where(known, values, 0.0)) / total)


def replicates(
    humans: HumanConditions, n_images: int, n_bootstrap: int, seed: int
) -> list[Replicate]:
    """Return replicates in which images, and the observers of each experiment, are resampled."""
    # separate seeds, so that replicates of images do not depend on the experiments
    drawn = [draw_weights(n_images, (seed, 1))]
    groups = _observers_by_experiment(humans)
    drawn += [draw_weights(len(group), (seed, 2, place)) for place, group in enumerate(groups)]
    return list(islice(_replicates(humans, drawn, groups), n_bootstrap))


def _replicates(
    humans: HumanConditions, drawn: list[Iterator[FloatArray]], groups: list[NDArray[np.intp]]
) -> Iterator[Replicate]:
    while True:
        images = next(drawn[0])
        observers = np.zeros(humans.n_observers)
        for group, weights in zip(groups, drawn[1:], strict=True):
            observers[group] = next(weights)
        yield Replicate(images, humans.rescaled(observers))


def _observers_by_experiment(humans: HumanConditions) -> list[NDArray[np.intp]]:
    """Return the observers of each experiment, including those who saw only its clean images."""
    seen = np.concatenate([humans.trials, humans.clean_trials]) > 0
    # observers of one experiment saw the same conditions
    patterns: dict[bytes, list[int]] = {}
    for observer in range(humans.n_observers):
        patterns.setdefault(seen[:, observer].tobytes(), []).append(observer)
    return [np.array(group) for group in patterns.values()]


@dataclass(frozen=True, eq=False)
class AgreementEstimates:
    """A ruler's agreement with humans, with intervals.

    Attributes:
        agreement: The agreement on the data.
        estimates: Each statistic with its bootstrap replicates.
        jackknife: The standard error of each statistic from leaving out whole experiments.
    """

    agreement: Agreement
    estimates: Mapping[str, Estimate]
    jackknife: Mapping[str, float]


def estimate_agreement(
    values: FloatArray,
    humans: HumanConditions,
    drawn: Sequence[Replicate],
    advance: Advance = no_advance,
) -> AgreementEstimates:
    """Return a ruler's agreement with humans, with intervals.

    Args:
        values: The ruler's value for each image in each condition, (images, conditions).
        humans: The human accuracy in each condition.
        drawn: The bootstrap replicates, the same for all rulers that are compared.
        advance: Called after each replicate.
    """
    experiments = humans.experiments
    observed = agreement(weighted_means(values), humans.rescaled(), experiments)
    rows = []
    for replicate in drawn:
        rows.append(agreement(replicate.means(values), replicate.accuracy, experiments).statistics)
        advance(1, "")
    table = np.array(rows).reshape(-1, len(STATISTICS))
    estimates = {
        name: make_estimate(value, table[:, column])
        for column, (name, value) in enumerate(zip(STATISTICS, observed.statistics, strict=True))
    }
    return AgreementEstimates(observed, estimates, jackknife_errors(values, humans))


def jackknife_errors(values: FloatArray, humans: HumanConditions) -> dict[str, float]:
    """Return the jackknife standard error over experiments: √((k − 1)/k · Σ(θ_i − θ̄)²).

    NaN with fewer than three experiments, because agreement needs two of them.
    """
    names = list(dict.fromkeys(humans.experiments))
    if len(names) < 3:
        return dict.fromkeys(STATISTICS, float("nan"))
    rows = []
    for name in names:
        rest, places = humans.take(other for other in names if other != name)
        means = weighted_means(values)[places]
        rows.append(agreement(means, rest.rescaled(), rest.experiments).statistics)
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


@dataclass(frozen=True)
class RulerDifference:
    """The difference of one statistic between two rulers (first − second), Holm-corrected."""

    first: str
    second: str
    statistic: str
    paired: PairedDifference
    corrected_p: float


def paired_differences(
    rulers: Mapping[str, AgreementEstimates], statistics: Sequence[str] = STATISTICS[1:]
) -> list[RulerDifference]:
    """Return the paired differences between all rulers, corrected over all pairs by Holm."""
    differences = []
    for statistic in statistics:
        pairs = list(combinations(rulers, 2))
        tests = [
            paired_difference(rulers[a].estimates[statistic], rulers[b].estimates[statistic])
            for a, b in pairs
        ]
        corrected = holm([test.p_value for test in tests])
        differences += [
            RulerDifference(*pair, statistic, test, float(p))
            for pair, test, p in zip(pairs, tests, corrected, strict=True)
        ]
    return differences
