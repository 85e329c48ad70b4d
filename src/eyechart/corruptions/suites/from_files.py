"""Benchmarks that are only read from files: corrupted images that others published.

Their generators are not available, so only their five published severities can be used.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Corruption, Values
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.corruptions.suites.suite import Entry, load_suite

FILE_SUITES = {
    "imagenet-3dcc": (
        *("near_focus", "far_focus", "bit_error", "color_quant", "flash", "fog_3d"),
        *("h265_abr", "h265_crf", "iso_noise", "low_light", "xy_motion_blur", "z_motion_blur"),
    ),
    "imagenet-c-bar": (
        *("blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout"),
        *("cocentric_sine_waves", "inverse_sparkles", "perlin_noise", "plasma_noise"),
        *("single_frequency_greyscale", "sparkles"),
    ),
}
"""Published benchmarks with the names of their corruptions, which eyechart cannot generate."""

OTHERS = "files"
"""The suite of corruptions that do not belong to a known benchmark."""


@dataclass(frozen=True)
class FileEntry(Entry):
    """A corruption that exists only as files."""

    @property
    def corruption(self) -> Corruption:
        """A corruption without parameters, which raises an error for every image."""

        def reject(images: Tensor, random: ImageRandom, **_: Values) -> Tensor:
            raise UsageError(f"{self.name} is read from files and cannot be applied to images.")

        return Corruption(self.name, "", "Published as image files only.", (), reject)


def is_read(suite: str) -> bool:
    """Return whether a suite's corruptions exist only as files."""
    return suite == OTHERS or suite in FILE_SUITES


def entries_of(suite: str, names: Sequence[str]) -> list[Entry]:
    """Return entries for corruptions read from files; known corruptions keep their entry."""
    known = {entry.name: entry for suite_name in WITH_LEVELS for entry in load_suite(suite_name)}
    # an empty table of levels: files are used at severities 1 to 5
    return [
        known.get(name) or FileEntry(name, suite, name, "", levels={0: {}})
        for name in names or FILE_SUITES.get(suite, ())
    ]


def suite_of(names: Sequence[str]) -> str:
    """Return the suite that these corruptions belong to, or "files" if there is none."""
    benchmark, extra = ([entry.name for entry in load_suite(suite)] for suite in WITH_LEVELS)
    if set(names) <= {*benchmark, *extra}:
        return WITH_LEVELS[0] if set(names) & set(benchmark) else WITH_LEVELS[1]
    return next(
        (suite for suite, members in FILE_SUITES.items() if set(names) <= set(members)), OTHERS
    )


def known_names() -> list[str]:
    """Return the names of all corruptions recognized in files, in the order of the suites."""
    return [name for benchmark in _benchmarks() for name in benchmark]


def _benchmarks() -> list[list[str]]:
    """Return the corruption names of each benchmark; ImageNet-C includes its extra corruptions."""
    computed = [entry.name for suite in WITH_LEVELS for entry in load_suite(suite)]
    return [computed, *map(list, FILE_SUITES.values())]


def of_one_benchmark(names: Collection[str]) -> list[str]:
    """Return the names that belong to one known benchmark, in its order.

    A complete benchmark is preferred, then ImageNet-C, then an incomplete one.
    """
    parts = [[name for name in benchmark if name in names] for benchmark in _benchmarks()]
    extra = {entry.name for entry in load_suite(WITH_LEVELS[1])}
    for benchmark, part in zip(_benchmarks(), parts, strict=True):
        # the extra corruptions are optional: ImageNet-C is complete without them
        if set(benchmark) - extra <= set(part):
            return part
    return parts[0] or [name for part in parts for name in part]


def together_with(suite: str) -> set[str]:
    """Return all corruption names of a suite's benchmark; for "files", of every benchmark."""
    if suite in WITH_LEVELS:
        return set(_benchmarks()[0])
    return set(FILE_SUITES.get(suite, known_names()))
