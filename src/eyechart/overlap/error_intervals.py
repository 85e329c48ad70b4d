"""Bootstrap intervals of a study's corruption errors, balance and coverage."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.overlap.accuracy_table import STANDARD, AccuracyTable, read_hits
from eyechart.overlap.balance import Balance
from eyechart.overlap.benchmark_coverage import DirectTest
from eyechart.overlap.matrix_intervals import resampled_shares
from eyechart.scores.baseline_tables import Baseline
from eyechart.scores.corruption_error import error_ratios
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.stats.intervals import CONFIDENCE, percentile_interval

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
        places = [self.table.place(name) for name in names]
        chosen: FloatArray = errors[:, places]
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
