"""Baseline errors, built in or measured by the user, by which a model's errors are divided.

A baseline measured by the user is stored in the same record, but has no image set.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from eyechart.core.arguments import as_number, as_text, as_texts
from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import packaged_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.corruptions.suites.published import PUBLISHED, WITH_LEVELS
from eyechart.images.published_source import SEVERITIES
from eyechart.scores.baseline_names import (
    ALEXNET,
    NOC_ALEXNET,
    ROBUSTBENCH_3DCC,
    ROBUSTBENCH_ALEXNET,
)

IMAGENET, ROBUSTBENCH = "imagenet-val", "robustbench-5000"
"""Image sets that the built-in tables were measured on."""

Error = float | Sequence[float] | Mapping[int, float] | FloatArray
"""Error rate in [0, 1]: the mean over severities, or one value per severity 1…5."""

Errors = Mapping[str, Error]


@dataclass(frozen=True)
class Baseline:
    """Baseline error rates by corruption, in [0, 1], each the mean over the five severities.

    Attributes:
        name: Name in tables and titles.
        errors: Mean error rate of each corruption.
        clean: Error rate on clean images; relative corruption errors need it.
        corruptions: Corruptions that the mCE averages over; all of `errors` if empty.
        suites: Suites the errors were measured on; empty for a baseline measured by the user.
        source: Citation.
        relative: Whether the suite's published score is the relative mCE.
        saved: Whether the errors were measured on images stored as JPEG with quality 85.
        images: Image set that a published table was measured on.

    Example:
        >>> import eyechart as ec
        >>> baseline = ec.Baseline("my-alexnet", {"fog": 0.8, "snow": 0.9}, clean=0.4)
        >>> ec.corruption_error({"fog": 0.4}, baseline).values["fog"]
        0.5
    """

    name: str
    errors: Mapping[str, float]
    clean: float | None = None
    corruptions: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    source: str = ""
    relative: bool = False
    saved: bool = False
    images: str = ""


def find_baseline(name: str, corruptions: Iterable[str] = (), suite: str = "") -> Baseline:
    """Return the built-in table with this name, or its sibling for other corruptions.

    AlexNet's errors were published suite by suite: "alexnet" for corruptions of ImageNet-NOC is the
    table "noc-alexnet". Only tables of the same image set are siblings.

    Args:
        name: Name of a built-in table.
        corruptions: Corruptions that the table must contain.
        suite: Suite that the table must belong to; "" for any suite.

    Returns:
        The first table that satisfies both conditions; the named table if none does.
    """
    if name not in built_in():
        raise unknown_name("baseline", name, built_in())
    named, wanted = built_in()[name], set(corruptions)
    # The named table comes first, so that a sibling is used only where the named one does not
    # apply.
    for table in (named, *siblings(named)):
        if (not suite or suite in table.suites) and wanted <= set(table.errors):
            return table
    return named


def siblings(table: Baseline) -> list[Baseline]:
    """Return the other built-in tables measured on the same image set."""
    rest = (other for other in built_in().values() if other is not table)
    return [other for other in rest if other.images == table.images]


def joined_baseline(name: str, corruptions: Sequence[str]) -> Baseline:
    """Return a built-in table for corruptions of one suite or several.

    Corruptions of several suites are looked up in the tables of the same image set. The joined
    table contains only these corruptions; its name combines their names ("alexnet + noc-alexnet").
    """
    named = find_baseline(name, corruptions)
    # One table is enough; joining would only change its name.
    if set(corruptions) <= set(named.errors):
        return named
    homes = {}
    for corruption in corruptions:
        table = find_baseline(name, [corruption])
        if corruption not in table.errors:
            known = [key for sibling in (table, *siblings(table)) for key in sibling.errors]
            raise unknown_name(f"corruption for baseline '{name}':", corruption, known)
        homes[corruption] = table
    tables = {table.name: table for table in homes.values()}
    return replace(
        named,
        name=" + ".join(tables),
        # Read-only: tables are cached and shared.
        errors=MappingProxyType(
            {corruption: table.errors[corruption] for corruption, table in homes.items()}
        ),
        corruptions=(),
        suites=tuple(suite for table in tables.values() for suite in table.suites),
        source="; ".join(table.source for table in tables.values()),
    )


def as_baseline(baseline: Baseline | str | Errors, corruptions: Iterable[str] = ()) -> Baseline:
    """Convert a name or a mapping of errors to a `Baseline`; return a `Baseline` unchanged."""
    if isinstance(baseline, Baseline):
        return baseline
    if isinstance(baseline, str):
        return find_baseline(baseline, corruptions)
    return measured_baseline("given errors", baseline)


def measured_baseline(
    name: str,
    errors: Errors,
    clean: float | None = None,
    corruptions: Sequence[str] = (),
    source: str = "",
) -> Baseline:
    """Return a baseline from error rates of a model or of humans, measured on the same images.

    Args:
        name: Name of the baseline in tables.
        errors: Error rate in [0, 1] by corruption: one number, or five (severities 1…5).
        clean: Error rate on clean images; relative corruption errors need it.
        corruptions: Corruptions that the mCE averages over; all if empty.
        source: Citation.

    Example:
        >>> import eyechart as ec
        >>> baseline = ec.measured_baseline("vgg", {"fog": [0.2, 0.3, 0.4, 0.5, 0.6], "snow": 0.5})
        >>> {name: round(error, 3) for name, error in baseline.errors.items()}
        {'fog': 0.4, 'snow': 0.5}
    """
    return Baseline(
        name=as_text(name, "name"),
        errors=mean_errors(errors, "baseline"),
        clean=None if clean is None else as_share(clean, "clean"),
        corruptions=as_texts(corruptions, "corruptions"),
        source=source,
    )


def mean_errors(errors: Errors, role: str = "errors") -> dict[str, float]:
    """Return the error rate of each corruption, averaged over severities if five are given."""
    if not isinstance(errors, Mapping) or not errors:
        raise UsageError(f"{role} must map names of corruptions to error rates in [0, 1].")
    return {
        as_text(name, f"each name of {role}"): _mean_error(value, name, role)
        for name, value in errors.items()
    }


def _mean_error(value: Error, name: str, role: str) -> float:
    subject = f"{role} of '{name}'"
    if isinstance(value, Mapping):
        if set(value) != set(SEVERITIES):
            raise UsageError(
                f"{subject} must be given for severities 1…5, got {len(value)} values."
            )
        value = [value[severity] for severity in SEVERITIES]
    if isinstance(value, int | float | str | bytes) or not isinstance(value, Iterable):
        return as_share(value, subject)
    if getattr(value, "ndim", 1) == 0:
        # 0-dimensional arrays of NumPy and torch are Iterable by type but cannot be iterated over.
        return as_share(cast(Any, value).item(), subject)
    # One value more than needed is read: a sixth is noticed, and infinite iterators stop.
    shares = list(islice(value, len(SEVERITIES) + 1))
    if len(shares) != len(SEVERITIES):
        raise UsageError(f"{subject} must be one number or five, one for each severity.")
    return float(np.mean([as_share(share, subject) for share in shares]))


def as_share(value: object, subject: str) -> float:
    """Return a number in [0, 1]; raise a UsageError for percentages, NaN and non-numbers."""
    number = as_number(value, subject)
    if not 0 <= number <= 1:  # NaN fails this comparison, too
        hint = ": divide percent by 100" if number > 1 else ""
        raise UsageError(f"{subject} must be between 0 and 1, got {number}{hint}.")
    return number


_TABLES = (
    Baseline(
        ALEXNET,
        {},
        suites=WITH_LEVELS,
        source="Hendrycks & Dietterich 2019; github.com/hendrycks/robustness, issue 10;"
        " style transfer: appendix C",
        saved=True,
        images=IMAGENET,
    ),
    Baseline(
        NOC_ALEXNET,
        {},
        suites=("imagenet-noc", "noc-candidates"),
        source="the paper on ImageNet-NOC, figures 5 and 6",
        relative=True,
        images=IMAGENET,
    ),
    Baseline(
        ROBUSTBENCH_ALEXNET,
        {},
        suites=("imagenet-c",),
        source="RobustBench (github.com/RobustBench/robustbench)",
        saved=True,
        images=ROBUSTBENCH,
    ),
    Baseline(
        ROBUSTBENCH_3DCC,
        {},
        suites=("imagenet-3dcc",),
        source="RobustBench (github.com/RobustBench/robustbench)",
        saved=True,
        images=ROBUSTBENCH,
    ),
)
"""The built-in tables without their errors, which `built_in` reads from a CSV file."""


@cache
def built_in() -> Mapping[str, Baseline]:
    """Return the built-in tables by name."""
    errors: dict[str, dict[str, float]] = {}
    # All tables share one file; the row "clean" of each has the error on clean images.
    for row in packaged_rows("eyechart.scores", "data", "baselines.csv"):
        errors.setdefault(row["baseline"], {})[row["corruption"]] = float(row["error"])
    return MappingProxyType({table.name: _filled(table, errors[table.name]) for table in _TABLES})


def _filled(table: Baseline, errors: dict[str, float]) -> Baseline:
    clean, suite = errors.pop("clean"), table.suites[0]
    # A suite's extra corruptions are not part of its published mean.
    corruptions = list_corruptions(suite) if suite in PUBLISHED else list(errors)
    return replace(
        table, errors=MappingProxyType(errors), clean=clean, corruptions=tuple(corruptions)
    )
