"""The errors that corruption errors are divided by: published tables, and where they hold.

A baseline measured by the user is the same record, without a claim about pictures.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.curves.bins import Numbers
from eyechart.labels.imagenet import wordnet_ids
from eyechart.suites.catalogue import list_corruptions

SEVERITIES = (1, 2, 3, 4, 5)

Error = float | Sequence[float] | Mapping[int, float] | Numbers
"""An error share 0…1: the mean over severities, or one for each severity 1…5."""

Errors = Mapping[str, Error]

PICTURES, CLASSES, SIDE, QUALITY = 50_000, 1_000, 224, 85
"""ImageNet's validation set, and how ImageNet-C's files were written from it."""

NAME = re.compile(r"(?:.*[/\\])?ILSVRC2012_val_(\d{8})(?:\.\w+)?")

ROBUSTBENCH_PICTURES = "b03ccff6d05e129cb1b9cd2b27b30c1a81031dfde52a7c44be9c6d93077407ed"
"""`names_digest` of the 5,000 validation pictures that RobustBench uses (robustbench 1.1.1)."""

INSTEAD = "name a baseline model with --baseline, or read plain error"


@dataclass(frozen=True)
class Baseline:
    """Errors to divide by, as shares 0…1, by corruption: the mean over the five severities.

    `clean`: its error on clean pictures, which relative corruption errors need. `corruptions`:
    those that the mean is taken over; all of `errors` if there are none. `suites`: where the
    errors were measured, empty for a baseline measured by the user. `relative`: whether the
    suite's published score is the relative form. `saved`: whether they were measured on files of
    JPEG quality 85.
    """

    name: str
    errors: Mapping[str, float]
    clean: float | None = None
    corruptions: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    source: str = ""
    relative: bool = False
    saved: bool = False


def find_baseline(name: str) -> Baseline:
    """Return the built-in table of that name."""
    if name == "robustbench-alexnet":
        raise UsageError(
            "RobustBench's AlexNet errors are not among the built-in tables: evaluate AlexNet on"
            " its 5,000 pictures and give those errors as the baseline."
        )
    if name not in built_in():
        raise unknown_name("baseline", name, built_in())
    return built_in()[name]


def as_baseline(baseline: Baseline | str | Errors) -> Baseline:
    """Return the built-in table of that name, the baseline itself, or one made of errors."""
    if isinstance(baseline, Baseline):
        return baseline
    if isinstance(baseline, str):
        return find_baseline(baseline)
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
    return Baseline(name, mean_errors(errors, "baseline"), start, tuple(corruptions), source=source)


def mean_errors(errors: Errors, role: str = "errors") -> dict[str, float]:
    """Return the error of each corruption, the mean over severities where there are five."""
    if not isinstance(errors, Mapping) or not errors:
        raise UsageError(f"{role} must map names of corruptions to error shares 0…1.")
    return {name: _mean_error(value, name, role) for name, value in errors.items()}


def _mean_error(value: Error, name: str, role: str) -> float:
    what = f"{role} of '{name}'"
    if isinstance(value, Mapping):
        if set(value) != set(SEVERITIES):
            raise UsageError(f"{what} must be given for severities 1…5, got {sorted(value)}.")
        value = [value[severity] for severity in SEVERITIES]
    if np.ndim(value) == 0:
        return as_share(value, what)
    if isinstance(value, float) or np.shape(value) != (len(SEVERITIES),):
        raise UsageError(f"{what} must be one number or five, one for each severity, got {value}.")
    return float(np.mean([as_share(each, what) for each in value]))


def as_share(value: Any, what: str) -> float:
    """Return a share 0…1 as a number; refuse percent, NaN and what is no number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be a number between 0 and 1, got {value!r}.") from None
    if not 0 <= number <= 1:  # NaN fails as well
        hint = ": divide percent by 100" if number > 1 else ""
        raise UsageError(f"{what} must be a share between 0 and 1, got {number}{hint}.")
    return number


def holds(
    baseline: Baseline | str,
    *,
    suite: str,
    corruptions: Sequence[str],
    names: Sequence[str],
    labels_per_class: Mapping[str, int] | Mapping[int, int],
    side: int,
    published_files: bool,
    jpeg: int | None,
) -> str:
    """Return "" if a table holds for these pictures, else one sentence: why not, and what to do.

    `names`: the file names of the clean pictures. `labels_per_class`: how many pictures each class
    has, by WordNet id or index. `side`: of the corrupted pictures, in px. `published_files`:
    whether they were read from the benchmark's own files; `jpeg`: the quality they were saved with
    otherwise. A baseline that the user measured holds wherever the user says.
    """
    table = find_baseline(baseline) if isinstance(baseline, str) else baseline
    if not table.suites:
        return ""
    reason = (
        _suite_reason(table, suite, corruptions)
        or _picture_reason(names, labels_per_class)
        or ("" if side == SIDE else f"at {SIDE} px, and these have {side} px")
        or _file_reason(table, published_files, jpeg)
    )
    return f"The table '{table.name}' holds {reason}: {INSTEAD}." if reason else ""


def names_digest(names: Sequence[str]) -> str:
    """Return the SHA-256 of the sorted file names, without folders and endings, one a line."""
    stems = sorted(PurePath(name).stem for name in names)
    return sha256("\n".join(stems).encode()).hexdigest()


def are_robustbench_pictures(names: Sequence[str]) -> bool:
    """Return whether these file names are those of RobustBench's 5,000 validation pictures."""
    return names_digest(names) == ROBUSTBENCH_PICTURES


def _suite_reason(table: Baseline, suite: str, corruptions: Sequence[str]) -> str:
    if suite not in table.suites:
        return f"for {' and '.join(table.suites)}, and these are corruptions of {suite}"
    unknown = [name for name in corruptions if name not in table.errors]
    return f"for {len(table.errors)} corruptions, and '{unknown[0]}' is none" if unknown else ""


def _picture_reason(
    names: Sequence[str], labels_per_class: Mapping[str, int] | Mapping[int, int]
) -> str:
    whole = f"for the {PICTURES:,} pictures of ImageNet's validation set"
    if are_robustbench_pictures(names):
        return f"{whole}, and these are RobustBench's 5,000"
    if len(names) != PICTURES:
        return f"{whole}, and these are {len(names):,}"
    found = [NAME.fullmatch(name) for name in names]
    if {int(match[1]) for match in found if match} != set(range(1, PICTURES + 1)):
        return f"{whole}, ILSVRC2012_val_00000001 to {PICTURES:08d}, and these have other names"
    classes: set[object] = set(labels_per_class)
    each = PICTURES // CLASSES
    if classes not in (set(wordnet_ids()), set(range(CLASSES))):
        return f"{whole} with its {CLASSES:,} classes, and these have others"
    if any(count != each for count in labels_per_class.values()):
        return f"{whole} with {each} pictures in each class, and these have other labels"
    return ""


def _file_reason(table: Baseline, published_files: bool, jpeg: int | None) -> str:
    if not table.saved:
        if published_files or jpeg is None:
            return ""
        return "for pictures that were never saved, and these were saved as JPEG"
    if published_files or jpeg == QUALITY:
        return ""
    # in memory the same corruptions give other errors: hendrycks/robustness#14
    how = "were never saved as JPEG" if jpeg is None else f"have JPEG quality {jpeg}"
    return f"for files of JPEG quality {QUALITY} (--jpeg {QUALITY}), and these {how}"


@cache
def built_in() -> Mapping[str, Baseline]:
    """Return the built-in tables, by name."""
    alexnet = Baseline(
        **_published("alexnet"),
        corruptions=tuple(list_corruptions("imagenet-c")),
        suites=("imagenet-c", "imagenet-c-extra"),
        source="Hendrycks & Dietterich 2019; github.com/hendrycks/robustness, issue 10",
        saved=True,
    )
    noc = Baseline(
        **_published("noc-alexnet"),
        corruptions=tuple(list_corruptions("imagenet-noc")),
        suites=("imagenet-noc", "noc-candidates"),
        source="the paper on ImageNet-NOC, figures 5 and 6",
        relative=True,
    )
    return MappingProxyType({table.name: table for table in (alexnet, noc)})


def _published(name: str) -> dict[str, Any]:
    text = files("eyechart.scores").joinpath("data", "baselines.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    errors = {row["corruption"]: float(row["error"]) for row in rows if row["baseline"] == name}
    return {"name": name, "clean": errors.pop("clean"), "errors": MappingProxyType(errors)}
