"""The plan of a test set: suite, number of samples, seed, sampling, label space.

The module `samples` chooses the images and strengths of a plan.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from eyechart.core.arguments import as_flag, as_path, as_text, short_repr
from eyechart.core.errors import UsageError
from eyechart.core.randomness import check_seed, hash64
from eyechart.core.registry import unknown_name
from eyechart.core.storage.parts import file_name
from eyechart.corruptions.suites.assets import entry_mark, is_ready, left_out, ready_entries
from eyechart.corruptions.suites.catalogue import FILE_SUITES, entries_of, is_read
from eyechart.corruptions.suites.suite import Entry, load_suite
from eyechart.corruptions.suites.suite_file import entries_in
from eyechart.images.labels.spaces import NATIVE, SPACES
from eyechart.testsets.testset_settings import (
    LEVELS,
    N_SAMPLES,
    PARAMETERS,
    PILOT,
    SAMPLINGS,
    SUITE,
    TestsetSettings,
)
from eyechart.visual_change.registry import find_ruler, measures_geometry

CLEAN = "clean"
"""The name of the corruption that changes nothing."""

NAME = re.compile(r"[A-Za-z0-9_]+([-/][A-Za-z0-9_]+)*")

RESERVED = (CLEAN, "destroyed", "unreadable")
"""Names of table rows that do not belong to a corruption."""

FINGERPRINT = "strengths"
"""Key of a plan's settings under which a hash of the suite's corruptions and strengths is stored.
"""

MOVED = "visual change is undefined: the corruption moves image content"
SINGLE = "no curve: the corruption is a single condition"
"""Why a corruption has no curve over visual change."""

MOST = 10_000_000
"""Maximum number of samples per corruption; a larger plan would not fit into memory."""


@dataclass(frozen=True)
class Plan(TestsetSettings):
    """Everything that determines a test set, except for the images.

    `n`: number of samples per corruption. `sampling`: one of `SAMPLINGS`; None becomes "levels" for
    suites with published severities, otherwise "parameters". `labels`: the label space
    whose classes are sampled equally often if `balanced`; with "entry16" only images of the 16
    categories are sampled. `jpeg`: the quality at which every corrupted image is stored as JPEG and
    read back (ImageNet-C was published at 85); None for no compression. `max_images`: size of the
    class-balanced subset of images to use, None for all.
    """

    suite: str = SUITE
    n: int = N_SAMPLES
    labels: str = NATIVE

    def __post_init__(self) -> None:
        if self.sampling is None:
            as_path(self.suite, "suite")
            usual = LEVELS if has_levels(self.suite) else PARAMETERS
            object.__setattr__(self, "sampling", usual)

    def check(self) -> None:
        """Raise a UsageError unless the plan is valid."""
        as_path(self.suite, "suite")
        check_seed(self.seed)
        limits = (
            ("n", "whole number", MOST),
            ("jpeg", "quality", 100),
            ("max_images", "whole number", MOST),
        )
        for name, noun, most in limits:
            number = getattr(self, name)
            is_whole = isinstance(number, int) and not isinstance(number, bool)
            if not ((is_whole and 1 <= number <= most) or (number is None and name != "n")):
                raise UsageError(
                    f"{name} must be a {noun} from 1 to {most:,}, got {short_repr(number)}."
                )
        if (sampling := as_text(self.sampling, "sampling")) not in SAMPLINGS:
            raise unknown_name("sampling", sampling, SAMPLINGS)
        if has_levels(self.suite) and sampling != LEVELS:
            raise UsageError(
                f"{self.suite} is applied at its published severities: omit the sampling, got"
                f" '{sampling}'."
            )
        if sampling == LEVELS and not has_levels(self.suite):
            raise UsageError(
                f"The sampling '{LEVELS}' needs a suite with published severities, which"
                f" {self.suite} lacks: give one of {PARAMETERS}, {PILOT}."
            )
        if as_text(self.labels, "labels") not in SPACES:
            raise unknown_name("label space", self.labels, SPACES)
        as_flag(self.balanced, "balanced")
        find_ruler(self.ruler)
        _check_names([entry.name for entry in self.entries()])

    @property
    def is_at_levels(self) -> bool:
        """Whether every corruption is applied only at its published levels."""
        return all(entry.at_levels for entry in self.entries())

    def why_no_curve(self, entry: Entry) -> str:
        """Return why a corruption has no curve over visual change; "" if it has one."""
        if entry.geometric and not measures_geometry(self.ruler):
            return MOVED
        return SINGLE if entry.is_single else ""

    def entries(self) -> list[Entry]:
        """Return the selected corruptions, or all corruptions of the suite if none are selected."""
        for name in self.corruptions:
            as_text(name, "each of corruptions")
        if is_read(self.suite):
            return entries_of(self.suite, self.corruptions)
        if not self.corruptions:
            # Only here: a corruption that is asked for by name is rejected, not left out.
            return ready_entries(load_suite(self.suite))
        return entries_in(self.suite, self.corruptions)

    def all_names(self) -> list[str]:
        """Return the names of all corruptions of the suite, over which mean scores are taken."""
        if is_read(self.suite):
            return list(FILE_SUITES.get(self.suite, self.corruptions))
        return [entry.name for entry in load_suite(self.suite)]

    def left_out(self) -> list[str]:
        """Return the suite's corruptions that were not requested and whose assets are missing."""
        if self.corruptions or is_read(self.suite):
            return []
        return left_out(load_suite(self.suite))

    def settings(self) -> dict[str, object]:
        """Return the plan as plain values, for files."""
        # The hash detects a suite that was edited without a new name.
        entries = self.entries()
        return {
            **asdict(self),
            "corruptions": [entry.name for entry in entries],
            FINGERPRINT: f"{hash64(*map(_mark, entries)):016x}",
        }


def has_levels(suite: str) -> bool:
    """Return whether all corruptions of a suite have published levels, which leave no choice."""
    return is_read(suite) or all(entry.at_levels for entry in load_suite(suite))


def _mark(entry: Entry) -> str:
    """Return the identifier of an entry's version.

    Published style-transfer files need no network, so a missing network is not an error here.
    """
    return entry_mark(entry) if is_ready(entry) else entry.fingerprint


def _check_names(names: Sequence[str]) -> None:
    """Raise a UsageError for names that cannot be file names or that are reserved in tables."""
    files = [file_name(name) for name in names]
    for name, file in zip(names, files, strict=True):
        if not NAME.fullmatch(name) or name in RESERVED:
            raise UsageError(
                f"A corruption's name must consist of letters, digits and underscores, optionally"
                f" joined by single hyphens or slashes, and must not be reserved, got {name!r}."
            )
        # Part files are named after corruptions, with slashes replaced.
        if files.count(file) > 1:
            raise UsageError(f"{name} is listed twice, or differs from another name only by a /.")


def names_of(corruptions: Sequence[str]) -> tuple[str, ...]:
    """Return the names as a tuple; a single string is rejected as a likely mistake."""
    # A string is a sequence too, of single letters.
    if isinstance(corruptions, str) or not isinstance(corruptions, Sequence):
        raise UsageError(f"corruptions must be a list of names, got {short_repr(corruptions)}.")
    return tuple(corruptions)
