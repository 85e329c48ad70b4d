"""Whether a benchmark rewards robustness to each of its corruptions alike: its balance.

Also corruption errors of any model of an accuracy table, which coverage needs too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import STANDARD, AccuracyTable
from eyechart.results.image_sets import IMAGE_SETS
from eyechart.scores.baseline_tables import Baseline, joined_baseline, measured_baseline
from eyechart.scores.corruption_error import CorruptionErrors, corruption_error


@dataclass(frozen=True)
class MeanSpread:
    """How far numbers are apart: their mean, population standard deviation, and range."""

    mean: float
    deviation: float
    range: float


@dataclass(frozen=True)
class Balance:
    """Corruption errors on a benchmark of models that were trained on one of its corruptions each.

    `errors[model]`: its corruption errors, as shares of the baseline's; the standard model's too.
    `means`: each one's mean, the mCE. `spread`: of the means of the single-corruption models; the
    smaller, the more balanced. `relative`: whether errors are what corruption adds to the clean
    error. `note`: what the baseline is. `clean`: each model's error on clean images.
    """

    benchmark: tuple[str, ...]
    errors: Mapping[str, Mapping[str, float]]
    means: Mapping[str, float]
    spread: MeanSpread
    relative: bool
    baseline: Baseline
    note: str
    clean: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the means are: "relative mCE (baseline standard)"."""
        return f"{'relative mCE' if self.relative else 'mCE'} (baseline {self.baseline.name})"


def spread_of(means: Sequence[float]) -> MeanSpread:
    """Return how far means are apart, by the population's standard deviation as the paper does."""
    numbers = np.asarray(means, dtype=np.float64)
    return MeanSpread(float(numbers.mean()), float(numbers.std()), float(np.ptp(numbers)))


def balance_of(
    table: AccuracyTable,
    benchmark: Sequence[str] | None = None,
    *,
    relative: bool = False,
    baseline: str | Baseline | None = None,
) -> Balance:
    """Return the balance of a benchmark, all corruptions of the table by default.

    `baseline`: the standard model of the table by default, or a published table by name, which is
    looked up for the suite of the benchmark.
    """
    names = check_benchmark(table, table.corruptions if benchmark is None else benchmark)
    base = baseline_of(table, baseline, names)
    errors = {
        model: errors_of(table, model, names, relative, base).values for model in (STANDARD, *names)
    }
    means = {model: float(np.mean(list(ratios.values()))) for model, ratios in errors.items()}
    spread = spread_of([means[name] for name in names])
    clean = {model: clean_error(table, model) for model in errors}
    return Balance(names, errors, means, spread, relative, base, baseline_note(base), clean)


def check_benchmark(table: AccuracyTable, names: Sequence[str]) -> tuple[str, ...]:
    """Return the corruptions of a benchmark; all must be in the table."""
    if not names:
        raise UsageError("A benchmark must have at least one corruption, got none.")
    for name in names:
        table.place(name)
    return tuple(dict.fromkeys(names))


def baseline_of(
    table: AccuracyTable, baseline: str | Baseline | None, names: Sequence[str]
) -> Baseline:
    """Return what errors of these corruptions are divided by.

    A published table, that of the corruptions' suite; or the errors of the table's standard model.
    """
    if isinstance(baseline, Baseline):
        return baseline
    if baseline not in (None, STANDARD):
        return joined_baseline(str(baseline), names)
    clean, *errors = _errors(table, STANDARD)
    by_corruption = dict(zip(table.corruptions, map(float, errors), strict=True))
    return measured_baseline(
        STANDARD, by_corruption, float(clean), source="the table's standard model"
    )


def baseline_note(baseline: Baseline) -> str:
    """Return a sentence on what the errors are shares of."""
    if not baseline.suites:
        return "Errors are shares of those of the standard model, which has 100 % everywhere."
    return (
        f"Errors are shares of the published ones of {baseline.name}, which were measured on"
        f" {IMAGE_SETS[baseline.images]}: on other pictures they only scale the columns."
    )


def errors_of(
    table: AccuracyTable, model: str, names: Sequence[str], relative: bool, baseline: Baseline
) -> CorruptionErrors:
    """Return a model's corruption errors, mean over seeds, as shares of the baseline's."""
    errors = _errors(table, model)
    by_corruption = {name: float(errors[table.place(name)]) for name in names}
    return corruption_error(by_corruption, baseline, float(errors[0]), relative)


def clean_error(table: AccuracyTable, model: str) -> float:
    """Return a model's error on clean images, mean over seeds."""
    return float(_errors(table, model)[0])


def _errors(table: AccuracyTable, model: str) -> FloatArray:
    """Return a model's errors: of clean pictures, then of each corruption."""
    # 0.1, and not the 0.09999999999999998 that is left of 0.9, is what messages then say
    return np.round(1 - table.of(model), 12).clip(0, 1)
