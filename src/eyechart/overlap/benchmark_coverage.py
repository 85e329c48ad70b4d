"""Whether a benchmark speaks for the corruptions of another one: by overlaps, and put to the test.

The test: one model trained with all corruptions of a benchmark, on every corruption of the other.
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
from eyechart.overlap.overlap_settings import LEAST_OVERLAP
from eyechart.scores.baseline_tables import Baseline


@dataclass(frozen=True)
class CoveredCorruption:
    """A corruption, its highest overlap with one of a benchmark, and with which.

    `score` is NaN and `nearest` "" if no overlap with the benchmark is determined; `unsure`:
    whether some are not, so that there may be a higher one.
    """

    corruption: str
    nearest: str
    score: float
    unsure: bool


@dataclass(frozen=True)
class BenchmarkCoverage:
    """Of each corruption `of` a benchmark, how far it is covered `by` another benchmark."""

    by: tuple[str, ...]
    of: tuple[str, ...]
    least_overlap: float
    covers: tuple[CoveredCorruption, ...]

    @property
    def covered(self) -> tuple[str, ...]:
        """Those that overlap by more than the least with at least one."""
        return tuple(cover.corruption for cover in self.covers if cover.score > self.least_overlap)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Those that overlap with none by more than the least, as far as is known."""
        return tuple(cover.corruption for cover in self.covers if cover.score <= self.least_overlap)

    @property
    def undetermined(self) -> tuple[str, ...]:
        """Those whose overlap with none of the benchmark is determined."""
        return tuple(cover.corruption for cover in self.covers if isnan(cover.score))


@dataclass(frozen=True)
class DirectTest:
    """Corruption errors on a benchmark of one model trained with all corruptions of another.

    `errors` and `standard`: of that model and of the standard one, as shares of the baseline's.
    `clean`: their errors on clean images, in this order. `printed_means`: their mCE as a paper
    prints them, where that is where the numbers come from.
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
        """The corruptions to which the model is more robust than the standard one."""
        return tuple(name for name, error in self.errors.items() if error < self.standard[name])

    @property
    def not_helped(self) -> tuple[str, ...]:
        """The corruptions to which it is not."""
        return tuple(name for name in self.errors if name not in self.helped)

    @property
    def means(self) -> tuple[float, float]:
        """The mCE of the model and that of the standard one."""
        if self.printed_means is not None:
            return self.printed_means
        return float(np.mean(list(self.errors.values()))), float(
            np.mean(list(self.standard.values()))
        )


def coverage_of(
    matrix: OverlapMatrix,
    by: Sequence[str],
    of: Sequence[str],
    least_overlap: float = LEAST_OVERLAP,
) -> BenchmarkCoverage:
    """Return how far the corruptions `of` a benchmark are covered `by` those of another."""
    if not least_overlap >= 0:
        raise UsageError(f"The least overlap must be 0 or more, got {least_overlap:g}.")
    if not by or not of:
        raise UsageError("Each benchmark must have at least one corruption.")
    covers = []
    for name in of:
        scores = [(float(matrix[name, other]), other) for other in by]
        known = [pair for pair in scores if not isnan(pair[0])]
        score, nearest = max(known, key=lambda pair: pair[0]) if known else (np.nan, "")
        covers.append(CoveredCorruption(name, nearest, score, len(known) < len(scores)))
    return BenchmarkCoverage(tuple(by), tuple(of), least_overlap, tuple(covers))


def direct_test(
    table: AccuracyTable,
    benchmark: str,
    of: Sequence[str],
    *,
    relative: bool = False,
    baseline: str | Baseline | None = None,
) -> DirectTest:
    """Return the errors on `of` of the model trained with all of a benchmark: row all:BENCHMARK."""
    if benchmark not in table.benchmarks:
        known = ", ".join(ALL + name for name in table.benchmarks) or "none"
        raise UsageError(
            f"The direct test needs a row '{ALL}{benchmark}' in the table, a model trained with all"
            f" its corruptions; it has {known}."
        )
    names = check_benchmark(table, of)
    base = baseline_of(table, baseline, names)
    models = (ALL + benchmark, STANDARD)
    trained, standard = (errors_of(table, model, names, relative, base).values for model in models)
    clean = (clean_error(table, models[0]), clean_error(table, models[1]))
    return DirectTest(models[0], trained, standard, relative, base, baseline_note(base), clean)
