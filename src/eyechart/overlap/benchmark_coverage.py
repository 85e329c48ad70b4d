"""Determine whether one benchmark covers another, by overlaps and by a direct test.

The direct test evaluates one model, trained on all corruptions of a benchmark, on every corruption
of the other benchmark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import ALL, STANDARD, AccuracyTable
from eyechart.overlap.balance import (
    baseline_note,
    baseline_of,
    check_benchmark,
    clean_error,
    errors_of,
)
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.overlap_settings import MIN_OVERLAP
from eyechart.scores.baseline_tables import Baseline


@dataclass(frozen=True)
class CoveredCorruption:
    """A corruption, and its highest overlap (`score`) with a benchmark's corruption (`nearest`).

    `score` is NaN and `nearest` is "" if no overlap is determined; `unsure` is true if some
    overlaps are undetermined, so that a higher one may exist.
    """

    corruption: str
    nearest: str
    score: float
    unsure: bool


@dataclass(frozen=True)
class BenchmarkCoverage:
    """How well one benchmark (`by`) covers each corruption of another benchmark (`of`)."""

    by: tuple[str, ...]
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
        covers.append(CoveredCorruption(name, nearest, score, len(known) < len(scores)))
    return BenchmarkCoverage(tuple(by), tuple(of), min_overlap, tuple(covers))


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
    clean = (clean_error(table, models[0]), clean_error(table, models[1]))
    return DirectTest(models[0], trained, standard, relative, base, baseline_note(base), clean)
