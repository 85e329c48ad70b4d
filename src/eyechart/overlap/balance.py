"""Balance of a benchmark: does it reward robustness to each of its corruptions equally?

This module also computes the corruption errors of any model in an accuracy table, which
the analysis of coverage uses.
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
    """Mean, population standard deviation and range of a set of numbers."""

    mean: float
    deviation: float
    range: float


@dataclass(frozen=True)
class Balance:
    """Corruption errors on a benchmark, for models each trained on one of its corruptions.

    Attributes:
        benchmark: Corruptions in the benchmark.
        errors: Corruption errors of each model, including the standard model, as ratios to the
            baseline.
        means: mCE of each model.
        spread: Spread of the mCE of the single-corruption models; smaller is more balanced.
        relative: Whether the clean error was subtracted (relative CE).
        baseline: Baseline by whose errors the models' errors are divided.
        note: Description of the baseline.
        clean: Error rate of each model on clean images.
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
        """Title of the means, such as "relative mCE (baseline standard)"."""
        return f"{'relative mCE' if self.relative else 'mCE'} (baseline {self.baseline.name})"


def spread_of(means: Sequence[float]) -> MeanSpread:
    """Return the mean, population standard deviation (as in the paper) and range of numbers."""
    # Only the population standard deviation (ddof 0) reproduces the paper's 12.1 and 3.7.
    numbers = np.asarray(means, dtype=np.float64)
    return MeanSpread(float(numbers.mean()), float(numbers.std()), float(np.ptp(numbers)))


def balance_of(
    table: AccuracyTable,
    benchmark: Sequence[str] | None = None,
    *,
    relative: bool = False,
    baseline: str | Baseline | None = None,
) -> Balance:
    """Return the balance of a benchmark.

    Args:
        table: Accuracy table.
        benchmark: Corruptions in the benchmark; all corruptions in the table by default.
        relative: Whether to use relative corruption errors.
        baseline: A baseline, or the name of a published one, whose table is chosen by suite; the
            table's standard model by default.
    """
    names = check_benchmark(table, table.corruptions if benchmark is None else benchmark)
    base = baseline_of(table, baseline, names)
    errors = {
        model: errors_of(table, model, names, relative, base).values for model in (STANDARD, *names)
    }
    means = {model: float(np.mean(list(ratios.values()))) for model, ratios in errors.items()}
    # The standard model is not a single-corruption model and is left out of the spread.
    spread = spread_of([means[name] for name in names])
    clean = {model: clean_error(table, model) for model in errors}
    return Balance(names, errors, means, spread, relative, base, baseline_note(base), clean)


def check_benchmark(table: AccuracyTable, names: Sequence[str]) -> tuple[str, ...]:
    """Return the corruptions of a benchmark; raise if one is not in the table."""
    if not names:
        raise UsageError("A benchmark must have at least one corruption, got none.")
    for name in names:
        table.place(name)
    return tuple(dict.fromkeys(names))


def baseline_of(
    table: AccuracyTable, baseline: str | Baseline | None, names: Sequence[str]
) -> Baseline:
    """Return the baseline: a published table, or the errors of the table's standard model."""
    if isinstance(baseline, Baseline):
        return baseline
    if baseline not in (None, STANDARD):
        # A benchmark may mix suites, for which errors were published in separate tables.
        return joined_baseline(str(baseline), names)
    clean, *errors = _errors(table, STANDARD)
    by_corruption = dict(zip(table.corruptions, map(float, errors), strict=True))
    return measured_baseline(
        STANDARD, by_corruption, float(clean), source="the table's standard model"
    )


def baseline_note(baseline: Baseline) -> str:
    """Return a sentence that says what the errors are relative to."""
    if not baseline.suites:
        return "Errors are relative to the errors of the standard model (100 %)."
    return (
        f"Errors are relative to the published errors of {baseline.name} on "
        f"{IMAGE_SETS[baseline.images]}; for other images, this baseline only rescales the columns."
    )


def errors_of(
    table: AccuracyTable, model: str, names: Sequence[str], relative: bool, baseline: Baseline
) -> CorruptionErrors:
    """Return a model's corruption errors, averaged over seeds, as ratios to the baseline."""
    errors = _errors(table, model)
    by_corruption = {name: float(errors[table.place(name)]) for name in names}
    return corruption_error(by_corruption, baseline, float(errors[0]), relative)


def clean_error(table: AccuracyTable, model: str) -> float:
    """Return a model's error rate on clean images, averaged over seeds."""
    return float(_errors(table, model)[0])


def _errors(table: AccuracyTable, model: str) -> FloatArray:
    """Return a model's error rates on clean images, then on each corruption."""
    # 1 − 0.9 is 0.09999999999999998 in floating point; rounding gives 0.1, as messages should
    # print.
    return np.round(1 - table.of(model), 12).clip(0, 1)
