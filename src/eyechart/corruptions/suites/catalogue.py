"""List corruptions by suite and family, and describe each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from eyechart.core.arguments import as_text
from eyechart.core.randomness import ImageRandom
from eyechart.core.registry import unknown_name
from eyechart.corruptions.declaration import Parameter
from eyechart.corruptions.library import FAMILIES
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
        other_variants = [variant for variant in self.variants if variant != self.variant]
        if other_variants:
            lines.append(f"  Other variants: {', '.join(other_variants)}")
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


def moved_by_severity(entry: Entry) -> list[Parameter]:
    """Return the parameters whose values depend on the severity alone."""
    in_levels = {name for table in entry.levels.values() for name in table}
    on_path = {name for name, ends in entry.path.items() if ends != DRAWN}
    return [
        parameter
        for parameter in entry.corruption.parameters
        if parameter.name in in_levels | on_path
    ]


def severity_table(entry: Entry, side: int = TABLE_SIDE) -> dict[str, tuple[float, ...]]:
    """Return the values of these parameters at severities 1…5, for images of `side` px."""
    severity = np.array(SEVERITIES, dtype=np.float64)
    keys = torch.zeros(len(SEVERITIES), dtype=torch.int64)
    # `resolve` needs random numbers, but they do not affect the parameters shown here
    random = ImageRandom(keys, [0] * len(SEVERITIES), torch.device("cpu"))
    values = resolve(entry, severity, {}, side, random)
    return {
        parameter.name: tuple(float(value) for value in values[parameter.name])
        for parameter in moved_by_severity(entry)
    }
