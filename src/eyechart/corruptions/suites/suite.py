"""Suites: which corruptions belong together, at which strengths, and how suites are stored.

The published suites are YAML files in the folder `data`; custom suites have the same format.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from eyechart.core.arguments import as_path, as_text, digits, regular_file, short_repr
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.yaml_text import parse_yaml
from eyechart.corruptions.declaration import Corruption, Parameter
from eyechart.corruptions.library import CORRUPTIONS
from eyechart.corruptions.suites.published import PUBLISHED

SUITE_SUFFIXES = (".yaml", ".yml")
AT = "@"
"""Separates the name of a suite from the name of a variant, as in `vcr@paper`."""
DRAWN = "drawn"
STRONGEST = 5.0
"""The largest severity."""

Range = tuple[float, float]
Fields = dict[str, Any]
"""The fields of an entry in a YAML file, by name."""


@dataclass(frozen=True)
class Entry:
    """One corruption in a suite.

    Lengths are in pixels of an image whose shorter side is `reference_side`, or in actual pixels if
    that is None.

    Attributes:
        levels: published values at severities 1…5, by image side in px.
        path: the mild and the strong value of each parameter that depends on severity ("drawn"
            instead of the two values: from clean to a value drawn for each image).
        logarithmic: the parameters that change by equal factors along the path.
        domain: the range that the paper samples uniformly.
        severity: the range from which severities are drawn, instead of parameters from the domain
            or published levels.
        version: increased when the same parameters give different pixels than before.
    """

    name: str
    suite: str
    function: str
    group: str
    geometric: bool = False
    monotone: bool = True
    eight_bit: str = "round"
    reference_side: int | None = None
    levels: Mapping[int, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    path: Mapping[str, Range | str] = field(default_factory=dict)
    logarithmic: tuple[str, ...] = ()
    domain: Mapping[str, Range] = field(default_factory=dict)
    severity: Range | None = None
    variant: str | None = None
    variants: Mapping[str, Fields] = field(default_factory=dict)
    note: str = ""
    version: int = 1

    @property
    def corruption(self) -> Corruption:
        """The function and its declared parameters."""
        return CORRUPTIONS[self.function]

    @property
    def at_levels(self) -> bool:
        """Whether the corruption is applied at each published level, not at random strengths."""
        return bool(self.levels) and self.severity is None

    @property
    def is_single(self) -> bool:
        """Whether all severities are the same condition, so that there is no strength."""
        # The parameters behind published files are unknown: their tables are empty.
        values = [values for table in self.levels.values() for values in table.values()]
        return bool(values) and all(len(set(same)) == 1 for same in values)

    @property
    def fingerprint(self) -> str:
        """A string that is equal for entries with the same declaration, regardless of notes."""
        variants = {
            name: {key: value for key, value in fields.items() if key != "note"}
            for name, fields in self.variants.items()
        }
        # notes do not affect pixels, so rewording one must not invalidate test sets
        return repr(replace(self, note="", variants=variants))

    def in_variant(self, variant: str | None) -> "Entry":
        """Return a variant of the entry, such as "paper" if the paper and its code differ."""
        if variant is None:
            return self
        if as_text(variant, "variant") not in self.variants:
            known = f"it has: {', '.join(self.variants)}" if self.variants else "it has no variants"
            raise UsageError(f"{self.name} has no variant {short_repr(variant)}; {known}.")
        return replace(self, variant=variant, **self.variants[variant])


@dataclass(frozen=True)
class Suite:
    """A named list of corruptions, with the publication it comes from."""

    name: str
    title: str
    source: str
    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that at least one corruption has."""
        return tuple(dict.fromkeys(variant for entry in self for variant in entry.variants))

    def in_variant(self, variant: str) -> "Suite":
        """Return the suite with this variant of every corruption that has it.

        Corruptions without this variant are unchanged, because paper and code agree on them.
        """
        if variant not in self.variants:
            known = f"it has: {', '.join(self.variants)}" if self.variants else "it has none"
            raise UsageError(f"The suite {self.name} has no variant '{variant}'; {known}.")
        name = f"{self.name}{AT}{variant}"
        entries = (
            entry.in_variant(variant) if variant in entry.variants else entry for entry in self
        )
        return Suite(
            name,
            f"{self.title} (variant: {variant})",
            self.source,
            tuple(replace(entry, suite=name) for entry in entries),
        )


def split_variant(name: str) -> tuple[str, str | None]:
    """Return the name of a suite and the variant after its @; None if there is no variant."""
    # the path of a file may contain an @
    if name.endswith(SUITE_SUFFIXES) or AT not in name:
        return name, None
    suite, _, variant = name.rpartition(AT)
    return suite, variant


def load_suite(name: str) -> Suite:
    """Return a published suite by name, or the suite in a YAML file.

    `name@variant`, such as `vcr@paper`, uses that variant of every corruption that has it.

    Example:
        >>> len(load_suite("imagenet-c"))
        15
    """
    plain, variant = split_variant(os.fspath(as_path(name, "suite")))
    # a published name takes precedence over a file with the same name
    suite = _published(plain) if plain in PUBLISHED else _read(plain)
    return suite if variant is None else suite.in_variant(variant)


def _read(name: str) -> Suite:
    """Return the suite in a custom YAML file."""
    path = Path(name)
    if path.suffix not in SUITE_SUFFIXES:
        if path.is_file():
            raise UsageError(f"{path} is not a suite: a custom suite is a file that ends in .yaml.")
        raise unknown_name("suite", name, PUBLISHED)
    try:
        text = regular_file(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot read the suite {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The suite {path} is not a text file in UTF-8.") from None
    return parse_suite(text, path.name)


@cache
def _published(name: str) -> Suite:
    text = (
        files("eyechart.corruptions.suites")
        .joinpath("data", f"{name}.yaml")
        .read_text(encoding="utf-8")
    )
    return parse_suite(text, name)


def parse_suite(text: str, where: str) -> Suite:
    """Return the suite described by a YAML text; `where` names it in errors."""
    try:
        return _suite(parse_yaml(text))
    # a value of another type than the field's lacks its methods
    except (ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"The suite {where} is not well formed: {reason}.") from None


def _suite(data: object) -> Suite:
    if not isinstance(data, dict):
        raise ValueError("it must have name, title, source and corruptions")
    for key in ("name", "title", "source"):
        if not isinstance(data.get(key), str):
            raise ValueError(f"{key} is required and must be a string")
    if not isinstance(data.get("corruptions"), list) or not data["corruptions"]:
        raise ValueError("corruptions must be a list with at least one entry")
    # defaults of the suite, which an entry may override
    shared = {key: data[key] for key in ("eight_bit", "reference_side") if key in data}
    entries = tuple(_entry(item, data["name"], shared) for item in data["corruptions"])
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is listed twice")
    return Suite(data["name"], data["title"], data["source"], entries)


KEYS = {
    "name": str, "function": str, "group": str, "geometric": bool, "monotone": bool,
    "eight_bit": str, "reference_side": int, "levels": dict, "path": dict, "logarithmic": list,
    "domain": dict, "severity": list, "variant": str, "variants": dict, "note": str, "version": int,
}  # fmt: skip

BESIDE_SAME_AS = ("same_as", "severity", "variant")
"""The keys allowed in an entry that refers to another suite."""


def _entry(item: object, suite: str, shared: Fields) -> Entry:
    if not isinstance(item, dict):
        raise ValueError(f"an entry must have a name and a group, got {item!r}")
    if "same_as" in item:
        return _same_as(item, suite)
    fields = {**shared, **item}
    for key, value in fields.items():
        if key not in KEYS:
            raise unknown_name("key", str(key), KEYS)
        if not isinstance(value, KEYS[key]):
            raise ValueError(f"{key} must be of type {KEYS[key].__name__}, got {value!r}")
    for key in ("name", "group"):
        if key not in fields:
            raise ValueError(f"{key} is missing in an entry")
    fields = _with_tuples(fields)
    variants = {name: _with_tuples(changes) for name, changes in fields.pop("variants", {}).items()}
    # usually the function has the name of the corruption
    fields.setdefault("function", fields["name"])
    entry = Entry(suite=suite, variants=variants, **fields)
    # variants are validated now, not on first use
    for name in (None, *variants):
        _check(entry.in_variant(name))
    return entry


def _same_as(item: Fields, suite: str) -> Entry:
    """Return an entry from another suite, with the variant and the severity range in `item`."""
    for key in item:
        if key not in BESIDE_SAME_AS:
            raise ValueError(
                f"with same_as, only {' and '.join(BESIDE_SAME_AS[1:])} are allowed, got {key}"
            )
    reference = str(item["same_as"])
    source, colon, name = reference.partition(":")
    if not colon:
        raise ValueError(f"same_as must be suite:name, got {reference}")
    entries = {entry.name: entry for entry in load_suite(source)}
    if name not in entries:
        raise unknown_name("corruption", name, entries)
    entry = replace(entries[name].in_variant(item.get("variant")), suite=suite)
    if "severity" in item:
        entry = replace(entry, severity=_severity(item["severity"]))
        _check(entry)
    return entry


def _levels(tables: Fields) -> dict[int, dict[str, tuple[float, ...]]]:
    return {
        int(side): {name: _numbers(name, values) for name, values in table.items()}
        for side, table in tables.items()
    }


def _ranges(ranges: Fields) -> Fields:
    return {name: ends if ends == DRAWN else _numbers(name, ends) for name, ends in ranges.items()}


def _severity(values: object) -> Range:
    numbers = _numbers("severity", values)
    if len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= STRONGEST:
        raise ValueError(f"severity must be two increasing numbers in [0, 5], got {values}")
    return numbers[0], numbers[1]


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(
        isinstance(number, int | float) for number in values
    ):
        raise ValueError(f"{name} must be a list of numbers, got {values!r}")
    # as floats, because fingerprints are texts in which 3 and 3.0 would differ
    return tuple(map(float, values))


IN_TUPLES: Mapping[str, Callable[..., object]] = {
    "levels": _levels,
    "severity": _severity,
    "logarithmic": tuple,
    "path": _ranges,
    "domain": _ranges,
}


def _with_tuples(fields: Fields) -> Fields:
    """Return the fields of an entry with tuples instead of lists."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"a variant must be a mapping, got {fields!r}")
    for key in ("levels", "path", "domain"):
        if not isinstance(fields.get(key, {}), Mapping):
            raise ValueError(f"{key} must be a mapping, got {fields[key]!r}")
    return {
        **fields,
        **{key: convert(fields[key]) for key, convert in IN_TUPLES.items() if key in fields},
    }


def _check(entry: Entry) -> None:
    """Raise a ValueError if an entry is inconsistent."""
    named = {*entry.path, *entry.domain, *entry.logarithmic}
    for side, table in entry.levels.items():
        if set(table) != set(next(iter(entry.levels.values()))):
            raise ValueError(f"{entry.name}: the levels for {side} px have different parameters")
        for name, values in table.items():
            if len(values) != 5 or not all(map(isfinite, values)):
                raise ValueError(f"{entry.name}: {name} needs five numbers for {side} px")
        named |= set(table)
    for name, ends in (*entry.path.items(), *entry.domain.items()):
        if ends != DRAWN and (len(ends) != 2 or not all(isfinite(float(end)) for end in ends)):
            raise ValueError(f"{entry.name}: {name} needs two numbers, a mild and a strong value")
    for name in sorted(named):
        _check_range(entry, entry.corruption.parameter(name))
    if entry.severity is not None and not (entry.levels or entry.path):
        raise ValueError(f"{entry.name}: severity requires levels or a path")
    if entry.eight_bit not in ("truncate", "round"):
        raise ValueError(f"{entry.name}: eight_bit must be truncate or round")
    if entry.reference_side is not None and entry.reference_side < 1:
        raise ValueError(f"{entry.name}: reference_side must be a number of pixels")


def _check_range(entry: Entry, parameter: Parameter) -> None:
    """Raise a ValueError for numbers outside the parameter's range."""
    numbers = [value for table in entry.levels.values() for value in table.get(parameter.name, ())]
    for ends in (entry.path.get(parameter.name), entry.domain.get(parameter.name)):
        numbers += [float(end) for end in ends or () if ends != DRAWN]
    for number in numbers:
        if not parameter.low <= number <= parameter.high:
            raise ValueError(
                f"{entry.name}: {parameter.name} must be in"
                f" [{parameter.low:g}, {parameter.high:g}], got {digits(number)}"
            )


@cache
def all_entries() -> dict[str, Entry]:
    """Return every published corruption once, by name, in the order of the suites."""
    entries: dict[str, Entry] = {}
    for name in PUBLISHED:
        for entry in _published(name):
            # a corruption that is in several suites belongs to the first one
            entries.setdefault(entry.name, entry)
    return entries


def find_entry(name: str, variant: str | None = None) -> Entry:
    """Return the corruption with this name, such as fog (in ImageNet-C), vcr/frost or noc/rain.

    A name without a prefix that is not in ImageNet-C is accepted if only one suite has it.
    """
    entries = all_entries()
    if as_text(name, "The corruption's name") not in entries and "/" not in name:
        # "rain" is understood as "noc/rain" if no other suite has it
        same = [other for other in entries if other.endswith(f"/{name}")]
        if len(same) == 1:
            name = same[0]
        elif same:
            raise UsageError(f"'{name}' is in two suites: give '{same[0]}' or '{same[1]}'.")
    if name not in entries:
        raise unknown_name("corruption", name, entries)
    return entries[name].in_variant(variant)


def find_variant(name: str, variant: str | None = None) -> Entry:
    """Return the corruption called `name`, which may include its variant: `noc/rain@paper`."""
    plain, named_variant = split_variant(as_text(name, "The corruption's name"))
    if named_variant is not None and variant not in (None, named_variant):
        raise UsageError(f"'{name}' includes a variant, but variant is '{variant}': give it once.")
    return find_entry(plain, variant if named_variant is None else named_variant)
