"""List corruptions by suite and family, and describe each.

Some benchmarks are only read from files: the generators of these corrupted images are not
available, so only their five published severities can be used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import as_text
from eyechart.core.errors import UsageError
from eyechart.core.randomness import ImageRandom
from eyechart.core.registry import unknown_name
from eyechart.corruptions.declaration import Corruption, Parameter, Values
from eyechart.corruptions.library import FAMILIES
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.corruptions.suites.strength import resolve
from eyechart.corruptions.suites.suite import DRAWN, Entry, all_entries, find_variant, load_suite
from eyechart.images.published_source import SEVERITIES

TABLE_SIDE = 224


def list_corruptions(suite: str | None = None, family: str | None = None) -> list[str]:
    """Return the names of all corruptions, or only of those in a suite or family.

    Args:
        suite: the name of a published suite or the path of a YAML file.
        family: the kind of corruption (noise, blur, …) or the group in which it was published.

    Returns:
        The names, in the order of the suites.

    Raises:
        UsageError: the suite or the family is unknown.

    Example:
        >>> import eyechart as ec
        >>> ec.list_corruptions(suite="imagenet-c", family="noise")
        ['gaussian_noise', 'shot_noise', 'impulse_noise']
    """
    return [entry.name for entry in select(suite, family)]


def select(suite: str | None = None, family: str | None = None) -> list[Entry]:
    """Return the entries whose names `list_corruptions` returns."""
    entries = list(all_entries().values() if suite is None else load_suite(suite))
    if family is None:
        return entries
    # groups of a custom suite count as well
    known = {*FAMILIES, *(entry.group for entry in (*all_entries().values(), *entries))}
    if as_text(family, "family") not in known:
        raise unknown_name("family", family, known)
    return [entry for entry in entries if family in (entry.group, entry.corruption.family)]


@dataclass(frozen=True)
class Description:
    """The description of one corruption; `print` it for a readable form.

    Attributes:
        severities: the values of each parameter that depends on the severity, at severities 1 to 5
            for an image of 224 px.
        towards_draw: the parameters for which severity interpolates from no change to a random
            value drawn for each image.
        monotone: whether the effect grows with severity.
        geometric: whether pixels move, so that pixel-wise comparison does not apply.
    """

    name: str
    suite: str
    summary: str
    family: str
    group: str
    parameters: tuple[Parameter, ...]
    severities: Mapping[str, tuple[float, ...]]
    towards_draw: tuple[str, ...]
    source: str
    note: str
    variant: str | None
    variants: tuple[str, ...]
    monotone: bool
    geometric: bool

    def __str__(self) -> str:
        title = self.name if self.variant is None else f"{self.name} (variant: {self.variant})"
        lines = [
            title,
            f"  {self.summary}",
            f"  suite {self.suite}, group {self.group}, family {self.family}",
            "  parameters:",
            *(f"    {describe_parameter(parameter)}" for parameter in self.parameters),
            *self._table(),
        ]
        if self.towards_draw:
            names = ", ".join(self.towards_draw)
            lines.append(
                f"  Severity interpolates from no change to a random {names} drawn for each image."
            )
        if not self.monotone:
            lines.append("  The effect does not grow monotonically with severity.")
        if self.geometric:
            lines.append("  Pixels move, so pixel-wise comparison does not apply.")
        if self.note:
            lines.append(f"  Note: {self.note}")
        others = ", ".join(variant for variant in self.variants if variant != self.variant)
        if others:
            lines.append(f"  Other variants: {others}")
        return "\n".join([*lines, f"  Source: {self.source}"])

    def _table(self) -> list[str]:
        if not self.severities:
            return []
        width = max(map(len, self.severities))
        head = " ".join(f"{level:>9}" for level in SEVERITIES)
        rows = [
            f"    {name:<{width}} " + " ".join(f"{value:>9.4g}" for value in values)
            for name, values in self.severities.items()
        ]
        return [f"  at severity ({TABLE_SIDE} px):", f"    {'':<{width}} {head}", *rows]


def describe_parameter(parameter: Parameter) -> str:
    """Return one line with the parameter's name, allowed values, unit and meaning."""
    if parameter.choices is not None:
        allowed = " or ".join(f"{choice:g}" for choice in parameter.choices)
    else:
        allowed = f"{parameter.low:g} to {parameter.high:g}"
    kind = "" if parameter.kind in ("real", "choice") else f", {parameter.kind}"
    unit = f" {parameter.unit}" if parameter.unit else ""
    drawn = "; drawn for each image" if parameter.drawn else ""
    return f"{parameter.name}: {allowed}{unit}{kind}; {parameter.meaning}{drawn}"


def describe_corruption(name: str, variant: str | None = None) -> Description:
    """Return the description of a corruption: summary, parameters, severities and source.

    Args:
        name: the corruption, such as "fog" or "noc/rain@paper".
        variant: a variant of the corruption, such as "paper".

    Returns:
        The description; `print` it for a readable form.

    Raises:
        UsageError: the corruption or the variant is unknown.

    Example:
        >>> import eyechart as ec
        >>> fog = ec.describe_corruption("fog")
        >>> fog.family, fog.severities["thickness"]
        ('weather', (1.5, 2.0, 2.5, 2.5, 3.0))
    """
    entry = find_variant(name, variant)
    return Description(
        name=entry.name,
        suite=entry.suite,
        summary=entry.corruption.summary,
        family=entry.corruption.family,
        group=entry.group,
        parameters=entry.corruption.parameters,
        severities=severity_table(entry),
        towards_draw=tuple(name for name, ends in entry.path.items() if ends == DRAWN),
        source=load_suite(entry.suite).source,
        note=entry.note,
        variant=entry.variant,
        variants=tuple(entry.variants),
        monotone=entry.monotone,
        geometric=entry.geometric,
    )


def severity_table(entry: Entry) -> dict[str, tuple[float, ...]]:
    """Return the values at severities 1…5 of the parameters that depend on the severity alone."""
    in_levels = {name for table in entry.levels.values() for name in table}
    on_path = {name for name, ends in entry.path.items() if ends != DRAWN}
    severity = np.array(SEVERITIES, dtype=np.float64)
    keys = torch.zeros(len(SEVERITIES), dtype=torch.int64)
    # `resolve` needs random numbers, but they do not affect the parameters shown here
    random = ImageRandom(keys, [0] * len(SEVERITIES), torch.device("cpu"))
    values = resolve(entry, severity, {}, TABLE_SIDE, random)
    return {
        name: tuple(map(float, some_values))
        for name, some_values in values.items()
        if name in in_levels | on_path
    }


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
