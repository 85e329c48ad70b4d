"""Balance and coverage of benchmarks, from the corruption errors of a study's models.

A balanced benchmark rewards robustness to each of its corruptions equally. Whether it covers
another benchmark is judged by overlaps, and by a direct test of one model that was trained on all
its corruptions. Intervals resample a study's predictions. The balance and coverage that the authors
of ImageNet-NOC published are read from the package `results` as the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import ALL, STANDARD, AccuracyTable, read_hits
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.matrix_intervals import resampled_shares
from eyechart.overlap.overlap_settings import MIN_OVERLAP
from eyechart.results.image_sets import IMAGE_SETS
from eyechart.results.published_results import PublishedModel, PublishedTable, find_published
from eyechart.scores.baseline_tables import (
    Baseline,
    find_baseline,
    joined_baseline,
    measured_baseline,
)
from eyechart.scores.corruption_error import CorruptionErrors, corruption_error, error_ratios
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.stats.intervals import CONFIDENCE, percentile_interval


@dataclass(frozen=True)
class Balance:
    """Corruption errors on a benchmark, for models each trained on one of its corruptions.

    Attributes:
        benchmark: Corruptions in the benchmark.
        errors: Corruption errors of each model, including the standard model, as ratios to the
            baseline.
        means: mCE of each model.
        relative: Whether the clean error was subtracted (relative CE).
        baseline: Baseline by whose errors the models' errors are divided.
        note: Description of the baseline.
        clean: Error rate of each model on clean images.
    """

    benchmark: tuple[str, ...]
    errors: Mapping[str, Mapping[str, float]]
    means: Mapping[str, float]
    relative: bool
    baseline: Baseline
    note: str
    clean: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Title of the means, such as "relative mCE (baseline standard)"."""
        return f"{'relative mCE' if self.relative else 'mCE'} (baseline {self.baseline.name})"

    @property
    def mean(self) -> float:
        """Mean mCE of the single-corruption models."""
        return float(self._single_means.mean())

    @property
    def deviation(self) -> float:
        """Population standard deviation of their mCE; the smaller, the more balanced."""
        # Only the population standard deviation (ddof 0) reproduces the paper's 12.1 and 3.7.
        return float(self._single_means.std())

    @property
    def range(self) -> float:
        """Difference of their largest and smallest mCE."""
        return float(np.ptp(self._single_means))

    @property
    def _single_means(self) -> FloatArray:
        # The standard model is not a single-corruption model.
        return np.array([self.means[name] for name in self.benchmark])


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
    clean = {model: float(_errors(table, model)[0]) for model in errors}
    return Balance(names, errors, means, relative, base, baseline_note(base), clean)


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


def _errors(table: AccuracyTable, model: str) -> FloatArray:
    """Return a model's error rates on clean images, then on each corruption."""
    # 1 − 0.9 is 0.09999999999999998 in floating point; rounding gives 0.1, as messages should
    # print.
    return np.round(1 - table.of(model), 12).clip(0, 1)


@dataclass(frozen=True)
class CoveredCorruption:
    """A corruption, and its highest overlap (`score`) with a benchmark's corruption (`nearest`).

    `score` is NaN and `nearest` is "" if no overlap is determined.
    """

    corruption: str
    nearest: str
    score: float


@dataclass(frozen=True)
class BenchmarkCoverage:
    """How well a benchmark covers each corruption of another benchmark (`of`)."""

    of: tuple[str, ...]
    min_overlap: float
    covers: tuple[CoveredCorruption, ...]

    @property
    def covered(self) -> tuple[str, ...]:
        """Corruptions with an overlap above the minimum."""
        return tuple(cover.corruption for cover in self.covers if cover.score > self.min_overlap)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Corruptions whose highest determined overlap is at most the minimum."""
        # NaN is neither above nor at most the minimum, so undetermined corruptions are in a
        # separate list.
        return tuple(cover.corruption for cover in self.covers if cover.score <= self.min_overlap)

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Corruptions without any determined overlap."""
        return tuple(cover.corruption for cover in self.covers if isnan(cover.score))


@dataclass(frozen=True)
class DirectTest:
    """Corruption errors on a benchmark for one model trained on all corruptions of another.

    Attributes:
        trained_on: Name of the model.
        errors: Corruption errors of the model trained on the benchmark, as ratios to the baseline.
        standard: Corruption errors of the standard model.
        relative: Whether the errors are relative corruption errors.
        baseline: The baseline.
        note: Description of the baseline.
        clean: Error rates of both models on clean images.
        printed_means: mCE of both models as printed in a paper; None for a study's results.
    """

    trained_on: str
    errors: Mapping[str, float]
    standard: Mapping[str, float]
    relative: bool
    baseline: Baseline
    note: str
    clean: tuple[float, float]
    printed_means: tuple[float, float] | None = None

    @property
    def helped(self) -> tuple[str, ...]:
        """Corruptions to which the model is more robust than the standard model."""
        return tuple(name for name, error in self.errors.items() if error < self.standard[name])

    @property
    def not_helped(self) -> tuple[str, ...]:
        """Corruptions to which the model is not more robust than the standard model."""
        return tuple(name for name in self.errors if name not in self.helped)

    @property
    def means(self) -> tuple[float, float]:
        """Mean CE of the model and of the standard model."""
        # Printed means differ from the means of the rounded errors.
        if self.printed_means is not None:
            return self.printed_means
        return float(np.mean(list(self.errors.values()))), float(
            np.mean(list(self.standard.values()))
        )


def coverage_of(
    matrix: OverlapMatrix,
    by: Sequence[str],
    of: Sequence[str],
    min_overlap: float = MIN_OVERLAP,
) -> BenchmarkCoverage:
    """Return how well the corruptions `by` cover the corruptions `of`, judged by overlap."""
    if not min_overlap >= 0:
        raise UsageError(f"min_overlap must be at least 0, got {min_overlap:g}.")
    if not by or not of:
        raise UsageError("Each benchmark must have at least one corruption.")
    covers = []
    for name in of:
        scores = [(float(matrix[name, other]), other) for other in by]
        known = [pair for pair in scores if not isnan(pair[0])]
        # Coverage is the paper's proxy: the maximum overlap with any corruption in the benchmark.
        score, nearest = max(known, key=lambda pair: pair[0]) if known else (np.nan, "")
        covers.append(CoveredCorruption(name, nearest, score))
    return BenchmarkCoverage(tuple(of), min_overlap, tuple(covers))


def direct_test(
    table: AccuracyTable,
    benchmark: str,
    of: Sequence[str],
    *,
    relative: bool = False,
    baseline: str | Baseline | None = None,
) -> DirectTest:
    """Return the corruption errors on `of` for the model trained on all of `benchmark`."""
    if benchmark not in table.benchmarks:
        known = ", ".join(ALL + name for name in table.benchmarks) or "none"
        raise UsageError(
            f"The direct test needs a row '{ALL}{benchmark}' in the table, for a model trained on"
            f" all corruptions of the benchmark; the table has {known}."
        )
    names = check_benchmark(table, of)
    base = baseline_of(table, baseline, names)
    models = (ALL + benchmark, STANDARD)
    trained, standard = (errors_of(table, model, names, relative, base).values for model in models)
    clean = (float(_errors(table, models[0])[0]), float(_errors(table, models[1])[0]))
    return DirectTest(models[0], trained, standard, relative, base, baseline_note(base), clean)


Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class StudyErrors:
    """Error rates of a study's models on all its tests, for bootstrap replicates.

    `errors` has the shape (replicates, models, tests) and is averaged over seeds; the first test
    is on clean images.
    """

    table: AccuracyTable
    errors: FloatArray

    def corruption_errors(
        self, model: str, names: tuple[str, ...], relative: bool, baseline: Baseline
    ) -> FloatArray:
        """Return a model's corruption errors as ratios, with shape (replicates, corruptions).

        If the baseline is the standard model, it is resampled as well. Ratios are NaN where the
        baseline has no errors.
        """
        errors = self._of(model, names, relative)
        # Numerator and denominator use the same images, so common variation cancels.
        if baseline.name == STANDARD:
            return error_ratios(errors, self._of(STANDARD, names, relative))
        # A published baseline is a constant: its uncertainty is not known.
        below = np.array([baseline.errors[name] for name in names])
        return error_ratios(errors, below - (baseline.clean or 0.0) if relative else below)

    def _of(self, model: str, names: tuple[str, ...], relative: bool) -> FloatArray:
        errors = self.errors[:, self.table.models.index(model)]
        indices = [self.table.place(name) for name in names]
        chosen: FloatArray = errors[:, indices]
        return chosen - errors[:, :1] if relative else chosen


def resample_errors(
    folder: Path, table: AccuracyTable, n_bootstrap: int = N_BOOTSTRAP, seed: int = 0
) -> StudyErrors | None:
    """Return a study's error rates in bootstrap replicates; None if its predictions are missing."""
    hits = read_hits(folder, table, with_benchmarks=True) if folder.is_dir() else None
    if hits is None:
        return None
    # Averaged over the seeds drawn in each replicate.
    shares = [part.mean(axis=1) for part in resampled_shares(hits, n_bootstrap, seed)]
    return StudyErrors(table, 1 - np.concatenate(shares))


def spread_intervals(drawn: StudyErrors, balance: Balance) -> tuple[Interval, Interval]:
    """Return intervals of the standard deviation and range of mCE over single-corruption models."""
    means = np.stack(
        [
            drawn.corruption_errors(
                model, balance.benchmark, balance.relative, balance.baseline
            ).mean(axis=1)
            for model in balance.benchmark
        ]
    )
    return (
        percentile_interval(means.std(axis=0), CONFIDENCE),
        percentile_interval(np.ptp(means, axis=0), CONFIDENCE),
    )


def direct_intervals(drawn: StudyErrors, test: DirectTest) -> dict[str, Interval]:
    """Return the intervals of the errors in a direct test, and of their mean (key "mean")."""
    names = tuple(test.errors)
    errors = drawn.corruption_errors(test.trained_on, names, test.relative, test.baseline)
    intervals = {
        name: percentile_interval(replicates, CONFIDENCE)
        for name, replicates in zip(names, errors.T, strict=True)
    }
    return {**intervals, "mean": percentile_interval(errors.mean(axis=1), CONFIDENCE)}


PUBLISHED = "published"
"""Name that selects the tables of the paper on ImageNet-NOC instead of a study."""

BALANCE = {"imagenet-c": "noc-table7", "imagenet-noc": "noc-table8"}
COVERAGE = {"imagenet-c": "noc-table1-imagenet-c", "imagenet-noc": "noc-table1-imagenet-noc"}
"""Maps a suite to the table with the results on that suite."""


def published_balance(suite: str) -> Balance:
    """Return a suite's balance in relative errors, as printed in Table 2 and in Table 7 or 8."""
    table = _table(BALANCE, suite)
    rows = {row.model: row for row in table.models}
    # The printed means, not the means of the printed (rounded) errors.
    means = {model: row.scores["relative_mce"] for model, row in rows.items()}
    names = tuple(rows[STANDARD].relative_ce)
    return Balance(
        names,
        {model: row.relative_ce for model, row in rows.items()},
        means,
        True,
        find_baseline(table.baseline),
        _note(table),
        {model: _clean(row) for model, row in rows.items()},
    )


def published_direct_test(by: str, of: str) -> DirectTest:
    """Return the errors on the suite `of` for a model trained on the whole suite `by` (Table 1)."""
    table = _table(COVERAGE, of)
    if by not in COVERAGE or by == of:
        raise _no_table(by if by not in COVERAGE else f"{by} on itself")
    trained, standard = table.model(ALL + by), table.model(STANDARD)
    return DirectTest(
        ALL + by,
        trained.relative_ce,
        standard.relative_ce,
        True,
        find_baseline(table.baseline),
        _note(table),
        (_clean(trained), _clean(standard)),
        (trained.scores["relative_mce"], standard.scores["relative_mce"]),
    )


def check_published(baseline: str | None, suites: Sequence[str]) -> None:
    """Raise a UsageError if the printed tables lack these suites or use a different baseline."""
    for suite in suites:
        _table(BALANCE, suite)
    # Printed ratios cannot be converted to another baseline.
    usual = [_table(BALANCE, suite).baseline for suite in BALANCE]
    if baseline is not None and baseline not in usual:
        raise UsageError(
            f"The published errors are relative to AlexNet and cannot be converted to another "
            f"baseline: omit --baseline {baseline}."
        )


def _table(tables: dict[str, str], suite: str) -> PublishedTable:
    if suite not in tables:
        raise _no_table(suite)
    return find_published(tables[suite])[0]


def _no_table(suite: str) -> UsageError:
    return UsageError(
        f"The paper has tables for {' and '.join(BALANCE)}, not for {suite}: pass a study's folder"
        " or an accuracy table."
    )


def _clean(row: PublishedModel) -> float:
    # Rounding removes floating-point noise from the subtraction.
    return round(1 - row.scores["clean_accuracy"], 6)


def _note(table: PublishedTable) -> str:
    words = (f"Published: {table.source}; {table.image_title}.", table.note)
    return " ".join(filter(None, (*words, baseline_note(find_baseline(table.baseline)))))
