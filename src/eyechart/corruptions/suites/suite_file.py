"""Compose suites from other suites, and write them to files from which they load unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import yaml

from eyechart.core.errors import UsageError
from eyechart.core.registry import near_names, one_of, shortened, stem, unknown_name
from eyechart.core.storage.files import atomic_file
from eyechart.corruptions.suites.published import PUBLISHED, WITH_LEVELS
from eyechart.corruptions.suites.suite import (
    SUITE_SUFFIXES,
    Entry,
    Suite,
    all_entries,
    load_suite,
    parse_suite,
)

WIDTH = 100


def choose_entries(
    suites: Sequence[Suite],
    names: Sequence[str],
    name: str,
    title: str,
    source: str,
) -> Suite:
    """Return a suite with the corruptions called `names`, in this order, from these suites.

    A name without its prefix, such as "rain" for "noc/rain", suffices if only one suite has it.
    """
    if not names:
        raise UsageError("Name at least one corruption: a suite cannot be empty.")
    chosen = [_find(suites, corruption) for corruption in names]
    full_names = [entry.name for entry in chosen]
    for full_name in full_names:
        if full_names.count(full_name) > 1:
            raise UsageError(f"{full_name} is given twice: give every corruption once.")
    return Suite(name, title, source, tuple(replace(entry, suite=name) for entry in chosen))


def entries_in(suite: str, names: Sequence[str]) -> list[Entry]:
    """Return the corruptions of a suite with these names; ImageNet-C also has its extras.

    A name without its prefix, such as "frost" for "vcr/frost", is enough.
    """
    benchmark, extra = WITH_LEVELS
    more = load_suite(extra) if suite == benchmark else ()
    known = {entry.name: entry for entry in (*load_suite(suite), *more)}
    chosen = []
    for name in names:
        full = next((key for key in known if name in (key, key.rpartition("/")[2])), None)
        if full is None:
            raise unknown_corruption(name, [load_suite(suite)])
        chosen.append(known[full])
    return chosen


def _find(suites: Sequence[Suite], name: str) -> Entry:
    """Return the corruption with this name, which several suites may contain."""
    every = [entry for suite in suites for entry in suite]
    matches = [entry for entry in every if entry.name == name]
    if not matches and "/" not in name:
        matches = [entry for entry in every if entry.name.rpartition("/")[2] == name]
    if not matches:
        raise unknown_corruption(name, suites)
    first = matches[0]
    other = next((entry for entry in matches if replace(entry, suite=first.suite) != first), None)
    if other is None:
        return first
    if other.name != first.name:
        raise UsageError(f"'{name}' can be '{first.name}' or '{other.name}': write the full name.")
    raise UsageError(
        f"{first.suite} and {other.suite} define different corruptions named {other.name}: omit "
        "one of the suites."
    )


def unknown_corruption(name: str, suites: Sequence[Suite]) -> UsageError:
    """Return the error for a corruption that the suites lack, which may be in another suite."""
    given = [entry.name for suite in suites for entry in suite]
    suite_names = [suite.name for suite in suites]
    for other in PUBLISHED:
        names = [entry.name for entry in load_suite(other)]
        # `fog`, `rain` for `noc/rain`, and `imagenet-c/fog`
        texts = {text for full in names for text in (full, stem(full), f"{other}/{stem(full)}")}
        if name in texts and other not in suite_names:
            return UsageError(
                f"There is no corruption '{shortened(name)}' in {one_of(suite_names)}, but"
                f" {other} has it: use that suite."
            )
    # the given suites come first, which counts where another suite has the same name
    near = near_names(name, dict.fromkeys([*given, *all_entries()]))
    if not near:
        return unknown_name("corruption", name, given)
    suggestions = [
        f"'{other}'" if other in given else f"'{other}' in {all_entries()[other].suite}"
        for other in near
    ]
    return UsageError(
        f"Unknown corruption '{shortened(name)}'. Did you mean {one_of(suggestions)}?"
    )


def write_suite(suite: Suite, path: Path) -> None:
    """Write a suite to a file from which `load_suite` reads the same entries.

    An existing suite file is replaced; if any other file exists there, an error is raised.
    """
    check_suite_path(path)
    text = suite_text(suite)
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None


def check_suite_path(path: Path) -> None:
    """Raise an error unless a suite can be written to this path."""
    if path.suffix not in SUITE_SUFFIXES:
        raise UsageError(f"A suite's file must end in .yaml, got {path}.")
    if not path.parent.is_dir():
        raise UsageError(f"No such folder: {path.parent}.")
    if path.exists():
        try:
            load_suite(str(path))
        except UsageError:
            raise UsageError(
                f"{path} already exists and is not a suite: choose another name, or delete it."
            ) from None


def suite_text(suite: Suite) -> str:
    """Return a suite as YAML."""
    content = {
        "name": suite.name,
        "title": suite.title,
        "source": suite.source,
        "corruptions": [_item(entry) for entry in suite],
    }
    text = yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, indent=2
    )
    # a suite that cannot be read back must not replace a valid file
    if parse_suite(text, suite.name).entries != suite.entries:
        raise UsageError(f"The suite {suite.name} has entries that cannot be written to a file.")
    return text


def _item(entry: Entry) -> dict[str, object]:
    """Return an entry for YAML: a reference to a published entry, or all non-default fields."""
    published = _published_as(entry)
    if published is not None:
        item: dict[str, object] = {"same_as": f"{published.suite}:{published.name}"}
        if entry.variant is not None:
            item["variant"] = entry.variant
        if entry.severity is not None:
            item["severity"] = _plain(entry.severity)
        return item if len(item) == 1 else _Flow(item)
    usual = Entry(entry.name, entry.suite, function=entry.name, group="")
    item = {"name": entry.name}
    for attribute in fields(Entry):
        value = getattr(entry, attribute.name)
        # the group has no default
        if attribute.name == "group" or value != getattr(usual, attribute.name):
            item[attribute.name] = _plain(value)
    return item


def _published_as(entry: Entry) -> Entry | None:
    """Return the published entry that differs only in variant and severities; None if none does."""
    for published in (published for suite in PUBLISHED for published in load_suite(suite)):
        if published.name == entry.name and entry.variant in (None, *published.variants):
            # the suite's name always differs, and variant and severity are written with same_as
            same = replace(
                published.in_variant(entry.variant), suite=entry.suite, severity=entry.severity
            )
            if same == entry:
                return published
    return None


class _Flow(dict[str, object]):
    """A table that is written on one line."""


def _plain(value: object) -> object:
    """Return a value as YAML: lists instead of tuples, integers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        plain = {key: _plain(item) for key, item in value.items()}
        is_ranges = all(isinstance(item, list | str) for item in plain.values())
        return _Flow(plain) if is_ranges else plain
    return value


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their keys, which PyYAML does not do by default."""
        super().increase_indent(flow, indentless=False)


def _flow(dumper: yaml.SafeDumper, table: _Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", table.items(), flow_style=True)


def _list(dumper: yaml.SafeDumper, values: list[object]) -> yaml.Node:
    # numbers on one line, tables on several
    is_short = all(isinstance(value, int | float | str) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=is_short)


_Dumper.add_representer(_Flow, _flow)
_Dumper.add_representer(list, _list)
