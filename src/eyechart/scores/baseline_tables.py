"""The errors that corruption errors are divided by: built-in tables, or measured by the user.

A baseline measured by the user is the same record, without a claim about pictures.
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
from eyechart.images.published_source import SEVERITIES
from eyechart.scores.baseline_names import (
    ALEXNET,
    NOC_ALEXNET,
    ROBUSTBENCH_3DCC,
    ROBUSTBENCH_ALEXNET,
)
from eyechart.suites.catalogue import list_corruptions
from eyechart.suites.published import PUBLISHED, WITH_LEVELS

IMAGENET, ROBUSTBENCH = "imagenet-val", "robustbench-5000"
"""Sets of images that built-in tables were measured on."""

Error = float | Sequence[float] | Mapping[int, float] | FloatArray
"""An error share 0…1: the mean over severities, or one for each severity 1…5."""

Errors = Mapping[str, Error]


@dataclass(frozen=True)
class Baseline:
    """Errors to divide by, as shares 0…1, by corruption: the mean over the five severities.

    `clean`: its error on clean pictures, which relative corruption errors need. `corruptions`:
    those that the mean is taken over; all of `errors` if there are none. `suites`: where the
    errors were measured, empty for a baseline measured by the user. `relative`: whether the
    suite's published score is the relative form. `saved`: whether they were measured on files of
    JPEG quality 85. `images`: the image set that a published table was measured on.
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
    """Return the built-in table of that name, or its sibling for other corruptions.

    AlexNet's errors were published suite by suite: "alexnet" for corruptions of ImageNet-NOC is
    the table "noc-alexnet". Only tables of the same images are siblings. `corruptions`: what the
    table must hold, `suite`: what it must be of; the table that is named where none does.
    """
    if name not in built_in():
        raise unknown_name("baseline", name, built_in())
    named, wanted = built_in()[name], set(corruptions)
    for table in (named, *siblings(named)):
        if (not suite or suite in table.suites) and wanted <= set(table.errors):
            return table
    return named


def siblings(table: Baseline) -> list[Baseline]:
    """Return the other built-in tables of errors on the same images."""
    rest = (other for other in built_in().values() if other is not table)
    return [other for other in rest if other.images == table.images]


def joined_baseline(name: str, corruptions: Sequence[str]) -> Baseline:
    """Return a built-in table for corruptions of one suite or of several.

    Those of several suites are looked up in the tables of the same images; what comes back is
    called after all of them ("alexnet + noc-alexnet") and has just these corruptions.
    """
    named = find_baseline(name, corruptions)
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
        errors=MappingProxyType(
            {corruption: table.errors[corruption] for corruption, table in homes.items()}
        ),
        corruptions=(),
        suites=tuple(suite for table in tables.values() for suite in table.suites),
        source="; ".join(table.source for table in tables.values()),
    )


def as_baseline(baseline: Baseline | str | Errors, corruptions: Iterable[str] = ()) -> Baseline:
    """Return the built-in table of that name, the baseline itself, or one made of errors."""
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
    """Return a baseline of a model's or people's own errors, measured on the same pictures."""
    start = None if clean is None else as_share(clean, "clean")
    chosen = as_texts(corruptions, "corruptions")
    return Baseline(
        as_text(name, "name"), mean_errors(errors, "baseline"), start, chosen, source=source
    )


def mean_errors(errors: Errors, role: str = "errors") -> dict[str, float]:
    """Return the error of each corruption, the mean over severities where there are five."""
    if not isinstance(errors, Mapping) or not errors:
        raise UsageError(f"{role} must map names of corruptions to error shares 0…1.")
    return {
        as_text(name, f"each name of {role}"): _mean_error(value, name, role)
        for name, value in errors.items()
    }


def _mean_error(value: Error, name: str, role: str) -> float:
    subject = f"{role} of '{name}'"
    if isinstance(value, Mapping):
        if set(value) != set(SEVERITIES):
            raise UsageError(
                f"{subject} must be given for severities 1…5, got {len(value)} others."
            )
        value = [value[severity] for severity in SEVERITIES]
    if isinstance(value, int | float | str | bytes) or not isinstance(value, Iterable):
        return as_share(value, subject)
    if getattr(value, "ndim", 1) == 0:
        # one number of NumPy's or torch's
        return as_share(cast(Any, value).item(), subject)
    shares = list(islice(value, len(SEVERITIES) + 1))
    if len(shares) != len(SEVERITIES):
        raise UsageError(f"{subject} must be one number or five, one for each severity.")
    return float(np.mean([as_share(share, subject) for share in shares]))


def as_share(value: object, subject: str) -> float:
    """Return a share 0…1 as a number; refuse percent, NaN and what is no number."""
    number = as_number(value, subject)
    if not 0 <= number <= 1:  # NaN fails as well
        hint = ": divide percent by 100" if number > 1 else ""
        raise UsageError(f"{subject} must be a share between 0 and 1, got {number}{hint}.")
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
"""The built-in tables, but for their errors."""


@cache
def built_in() -> Mapping[str, Baseline]:
    """Return the built-in tables, by name."""
    errors: dict[str, dict[str, float]] = {}
    for row in packaged_rows("eyechart.scores", "data", "baselines.csv"):
        errors.setdefault(row["baseline"], {})[row["corruption"]] = float(row["error"])
    return MappingProxyType({table.name: _filled(table, errors[table.name]) for table in _TABLES})


def _filled(table: Baseline, errors: dict[str, float]) -> Baseline:
    clean, suite = errors.pop("clean"), table.suites[0]
    # the extras of a suite do not enter its mean
    corruptions = list_corruptions(suite) if suite in PUBLISHED else list(errors)
    return replace(
        table, errors=MappingProxyType(errors), clean=clean, corruptions=tuple(corruptions)
    )
