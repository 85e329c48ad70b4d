"""Corruption errors (CE): error rates divided by a baseline's error rates; their mean is the mCE.

This module contains only formulas; the published tables and the rules for using them are in
`baseline_tables`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.arguments import as_flag, as_list, as_texts, short_repr
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.scores.baseline_tables import (
    Baseline,
    Errors,
    as_baseline,
    as_share,
    mean_errors,
)
from eyechart.stats.intervals import CONFIDENCE, percentile_interval

ROUNDING = 1e-9
"""Error differences below this count as 0: sums of the same numbers differ by about 1e-16."""


@dataclass(frozen=True)
class CorruptionErrors:
    """Corruption errors as ratios to the baseline: 0.767 where a paper's table prints 76.7.

    Attributes:
        values: Corruption error by corruption.
        relative: Whether the clean error was subtracted in numerator and denominator.
        baseline: The baseline in the denominator.

    Example:
        >>> import eyechart as ec
        >>> errors = ec.corruption_error({"fog": 0.4}, {"fog": 0.8})
        >>> errors.values, errors.relative
        ({'fog': 0.5}, False)
    """

    values: Mapping[str, float]
    relative: bool
    baseline: Baseline


@dataclass(frozen=True)
class MeanCorruptionError:
    """Mean corruption error (mCE or relative mCE) with the corruption errors it averages.

    Attributes:
        value: The mean, as a ratio: 0.767 where a paper's table prints 76.7.
        by_corruption: The corruption errors.

    Example:
        >>> import eyechart as ec
        >>> mce = ec.mean_corruption_error({"fog": 0.4, "snow": 0.6}, {"fog": 0.8, "snow": 0.8})
        >>> round(mce.value, 3), mce.title
        (0.625, 'mCE (baseline given errors)')
    """

    value: float
    by_corruption: CorruptionErrors

    @property
    def relative(self) -> bool:
        """Whether this is the relative mCE."""
        return self.by_corruption.relative

    @property
    def baseline(self) -> Baseline:
        """The baseline in the denominator."""
        return self.by_corruption.baseline

    @property
    def title(self) -> str:
        """Column title, such as "mCE (baseline alexnet)"."""
        return f"{'relative mCE' if self.relative else 'mCE'} (baseline {self.baseline.name})"


@dataclass(frozen=True, eq=False)
class ResampledErrors:
    """Corruption errors and their mean for each bootstrap replicate, as arrays of shape (B,).

    A replicate whose baseline denominator is not positive is NaN. If the fraction of NaN replicates
    exceeds one tail of an interval, the interval of the denominator itself includes 0 and the ratio
    is unbounded (like Fieller's interval); the interval is then (NaN, NaN).
    """

    values: Mapping[str, FloatArray]
    mean: FloatArray
    relative: bool
    baseline: Baseline

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return the percentile interval of the mean; (NaN, NaN) if it is unbounded."""
        return percentile_interval(self.mean, level)

    def intervals(self, level: float = CONFIDENCE) -> dict[str, tuple[float, float]]:
        """Return the percentile interval of each corruption; (NaN, NaN) where it is unbounded."""
        return {name: percentile_interval(drawn, level) for name, drawn in self.values.items()}


def corruption_error(
    errors: Errors,
    baseline: Baseline | str | Errors,
    clean: float | None = None,
    relative: bool = False,
) -> CorruptionErrors:
    """Return the corruption error of each corruption, as a ratio to the baseline.

    CE = Σ E(s) / Σ E_b(s) over the five severities s. The relative form is Σ (E(s) − E_clean) / Σ
    (E_b(s) − E_b,clean) (Hendrycks & Dietterich 2019).

    Args:
        errors: Error rates in [0, 1] by corruption: the mean over severities, or one per severity.
        baseline: A built-in name ("alexnet", "noc-alexnet", "robustbench-alexnet"), a `Baseline`,
            or error rates in the form of `errors`. For a built-in name, the suite's table is used.
        clean: The model's error rate on clean images; needed for the relative form.
        relative: Whether to return relative corruption errors.

    Raises:
        UsageError: If a corruption is missing from the baseline, or its denominator is not
            positive.

    Example:
        >>> import eyechart as ec
        >>> errors = {"fog": 0.6, "snow": 0.45}
        >>> baseline = ec.measured_baseline("alexnet", {"fog": 0.8, "snow": 0.9}, clean=0.4)
        >>> ec.corruption_error(errors, baseline).values["snow"]
        0.5
        >>> round(ec.corruption_error(errors, baseline, clean=0.2, relative=True).values["fog"], 3)
        1.0
    """
    mean_by_corruption = mean_errors(errors)
    table = as_baseline(baseline, mean_by_corruption)
    _check_known(mean_by_corruption, table)
    relative = as_flag(relative, "relative")
    # The plain CE is the relative CE with both clean errors set to 0.
    start, base_start = 0.0, 0.0
    if relative and clean is None:
        raise _no_clean("the model's")
    if relative:
        start, base_start = as_share(clean, "clean"), _clean_of(table)
    values = {}
    for name, error in mean_by_corruption.items():
        below = table.errors[name] - base_start
        # Relative denominators can be 0 or negative: a corruption may lower the baseline's error.
        if not below > ROUNDING:
            more = f"more than the {table.clean} of clean images" if relative else "more than 0"
            raise UsageError(
                f"The error of baseline '{table.name}' under '{name}' must be {more} to divide by,"
                f" got {table.errors[name]}."
            )
        values[name] = (error - start) / below
    return CorruptionErrors(values, relative, table)


def mean_corruption_error(
    errors: Errors,
    baseline: Baseline | str | Errors,
    clean: float | None = None,
    relative: bool = False,
    corruptions: Sequence[str] | None = None,
) -> MeanCorruptionError:
    """Return the mean corruption error (mCE), as a ratio: 0.767 where a paper's table prints 76.7.

    The mean is over the corruptions of the baseline's suite (15 for "alexnet", 8 for "noc-alexnet",
    15 for "robustbench-alexnet", or 12 for 3D Common Corruptions) or over `corruptions`.
    ImageNet-NOC's published score is the relative form.

    Args:
        errors: Error rates in [0, 1] by corruption. Without `corruptions`, the keys must be
            exactly the corruptions over which the mean is taken by default.
        baseline: As in `corruption_error`.
        clean: The model's error rate on clean images; needed for the relative form.
        relative: Whether to return the relative mCE.
        corruptions: Corruptions to average over.

    Example:
        >>> import eyechart as ec
        >>> baseline = ec.measured_baseline("alexnet", {"fog": 0.8, "snow": 0.9})
        >>> round(ec.mean_corruption_error({"fog": 0.6, "snow": 0.45}, baseline).value, 3)
        0.625
    """
    table = _table(baseline, errors, corruptions)
    chosen = {name: errors[name] for name in _chosen(errors, table, corruptions)}
    by_corruption = corruption_error(chosen, table, clean, relative)
    return MeanCorruptionError(float(np.mean(list(by_corruption.values.values()))), by_corruption)


def mean_corruption_error_replicates(
    errors: Mapping[str, FloatArray],
    baseline: Baseline | str | Errors,
    clean: FloatArray | None = None,
    relative: bool = False,
    *,
    corruptions: Sequence[str] | None = None,
    baseline_errors: Mapping[str, FloatArray] | None = None,
    baseline_clean: FloatArray | None = None,
) -> ResampledErrors:
    """Return corruption errors and mCE for bootstrap replicates: arrays (B,) in, arrays (B,) out.

    Args:
        errors: Replicates of each error rate, averaged over severities.
        baseline: As in `corruption_error`.
        clean: Replicates of the clean error rate; needed for the relative form.
        relative: Whether to return relative errors.
        corruptions: Corruptions to average over.
        baseline_errors: Replicates of the baseline's error rates, resampled with the same weights;
            without them the baseline's errors are constants.
        baseline_clean: Replicates of the baseline's clean error rate.

    Example:
        >>> import eyechart as ec
        >>> import numpy as np
        >>> errors = {"fog": np.array([0.4, 0.5]), "snow": np.array([0.4, 0.3])}
        >>> replicates = ec.mean_corruption_error_replicates(errors, {"fog": 0.8, "snow": 0.8})
        >>> replicates.mean.round(3).tolist()
        [0.5, 0.5]
    """
    table = _table(baseline, errors, corruptions)
    chosen = _chosen(errors, table, corruptions)
    start: FloatArray | float = 0.0
    base_start: FloatArray | float = 0.0
    relative = as_flag(relative, "relative")
    if baseline_errors is not None and not isinstance(baseline_errors, Mapping):
        raise UsageError(
            "baseline_errors must map names of corruptions to replicates, got"
            f" {short_repr(baseline_errors)}."
        )
    if relative:
        if clean is None:
            raise _no_clean("the model's")
        start = _replicates(clean, "clean")
        if baseline_clean is not None:
            base_start = _replicates(baseline_clean, "baseline_clean")
        # Errors and clean error of the baseline must be resampled with the same weights.
        elif baseline_errors is not None:
            raise _no_clean("the baseline's resampled")
        else:
            base_start = _clean_of(table)
    values = {}
    for name in chosen:
        base: FloatArray | float = table.errors[name]
        if baseline_errors is not None:
            if name not in baseline_errors:
                raise UsageError(
                    f"baseline_errors must contain every corruption; '{name}' is missing."
                )
            base = _replicates(baseline_errors[name], f"baseline_errors of '{name}'")
        error = _replicates(errors[name], f"'{name}'")
        try:
            values[name] = error_ratios(error - start, np.asarray(base - base_start))
        except ValueError:
            raise UsageError("All errors must have the same number of replicates.") from None
    return ResampledErrors(values, np.mean(list(values.values()), axis=0), relative, table)


def check_same_baseline(results: Iterable[CorruptionErrors | MeanCorruptionError]) -> None:
    """Raise a UsageError if results differ in baseline, form (plain or relative) or corruptions.

    Example:
        >>> import eyechart as ec
        >>> first = ec.corruption_error({"fog": 0.4}, {"fog": 0.8})
        >>> second = ec.corruption_error({"fog": 0.5}, {"fog": 0.8})
        >>> ec.check_same_baseline([first, second])
    """
    first: CorruptionErrors | None = None
    for result in as_list(results, "results"):
        errors = result.by_corruption if isinstance(result, MeanCorruptionError) else result
        if not isinstance(errors, CorruptionErrors):
            raise UsageError(
                f"Each result must be returned by corruption_error or mean_corruption_error, "
                f"got {short_repr(errors)}."
            )
        # All results are compared with the first one.
        first = first or errors
        if errors.relative != first.relative:
            raise UsageError(
                "Corruption errors must all be plain or all be relative to be compared, got both."
            )
        one, other = first.baseline, errors.baseline
        if one.name != other.name:
            raise UsageError(
                f"Corruption errors must have the same baseline to be compared, got '{one.name}'"
                f" and '{other.name}'."
            )
        # A model that was measured in two runs has one name, but two tables of errors.
        if (dict(one.errors), one.clean) != (dict(other.errors), other.clean):
            raise UsageError(
                f"Two baselines named '{one.name}' have different errors: compare results of the "
                "same baseline."
            )
        if set(errors.values) != set(first.values):
            lone = sorted(set(errors.values) ^ set(first.values))[0]
            raise UsageError(
                f"Corruption errors must cover the same corruptions to be compared, but only one "
                f"has '{lone}'."
            )


def _replicates(values: FloatArray, role: str) -> FloatArray:
    try:
        drawn: FloatArray = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        drawn = np.empty((0, 0))
    if drawn.ndim != 1 or not ((drawn >= 0) & (drawn <= 1)).all():
        raise UsageError(f"Replicates ({role}) must be a 1-D array of values between 0 and 1.")
    return drawn


def error_ratios(errors: FloatArray, baseline: FloatArray) -> FloatArray:
    """Return errors divided by baseline errors; NaN where baseline errors are 0 up to rounding."""
    ratios: FloatArray = np.full(np.broadcast_shapes(errors.shape, baseline.shape), np.nan)
    # `where` leaves NaN and avoids warnings on division by 0.
    np.divide(errors, baseline, out=ratios, where=baseline > ROUNDING)
    return ratios


def _check_known(names: Iterable[str], table: Baseline) -> None:
    for name in names:
        if name not in table.errors:
            raise unknown_name(f"corruption for baseline '{table.name}':", name, table.errors)


def _table(
    baseline: Baseline | str | Errors,
    errors: Mapping[str, object],
    corruptions: Sequence[str] | None,
) -> Baseline:
    """Return the baseline for the corruptions to average over."""
    if not isinstance(errors, Mapping) or not errors:
        raise UsageError("errors must map names of corruptions to error rates in [0, 1].")
    names = as_texts(errors if corruptions is None else corruptions, "corruptions")
    return as_baseline(baseline, names or as_texts(errors, "errors"))


def _chosen(
    errors: Mapping[str, object], table: Baseline, corruptions: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the corruptions to average over, after checking that `errors` has exactly these."""
    chosen = as_texts(corruptions, "corruptions") if corruptions is not None else ()
    chosen = chosen or tuple(table.corruptions or table.errors)
    _check_known(chosen, table)
    missing = [name for name in chosen if name not in errors]
    if missing:
        raise UsageError(
            f"The mean needs the errors of {len(chosen)} corruptions; missing: "
            f"{', '.join(missing)}."
        )
    extra = [name for name in errors if name not in chosen]
    # A baseline without a list of corruptions must not let ImageNet-C's extra corruptions into the
    # mean either: they enter it only when named.
    if not extra and not table.corruptions:
        extra = [name for name in list_corruptions("imagenet-c-extra") if name in chosen]
    if extra and not corruptions:
        raise UsageError(
            f"{', '.join(extra)} is not part of the mean by default: remove it from the errors, or "
            "list all corruptions of the mean with corruptions=."
        )
    return chosen


def _clean_of(table: Baseline) -> float:
    if table.clean is None:
        raise _no_clean(f"baseline '{table.name}' with its")
    return table.clean


def _no_clean(whose: str) -> UsageError:
    return UsageError(f"Relative corruption errors need {whose} error on clean images.")
