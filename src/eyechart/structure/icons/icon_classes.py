"""Assign emoji to the 50 classes of ICONS-50, using a table of name patterns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import yaml

TABLE = "icon_classes.yaml"


@dataclass(frozen=True)
class Rule:
    """Name patterns of the emoji in a class; names that match `but` are excluded.

    If `group` is given, all emoji must be in this group. Names and groups are defined by Unicode,
    such as "hot_beverage" in "Food & Drink".
    """

    names: tuple[str, ...]
    but: tuple[str, ...] = ()
    group: str = ""

    def holds(self, name: str, group: str) -> bool:
        """Return whether an emoji belongs to the class."""
        if self.group and group != self.group:
            return False
        return _matches(name, self.names) and not _matches(name, self.but)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    # fnmatchcase: fnmatch would ignore case on some systems.
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def icon_classes() -> Mapping[str, Rule]:
    """Return the classes in alphabetical order, each with its rule."""
    text = (files("eyechart.structure.icons") / TABLE).read_text(encoding="utf-8")
    return {name: _rule(entry) for name, entry in sorted(yaml.safe_load(text).items())}


def _rule(entry: str | Mapping[str, str]) -> Rule:
    if isinstance(entry, str):
        return Rule(tuple(entry.split()))
    return Rule(
        tuple(entry["names"].split()), tuple(entry.get("but", "").split()), entry.get("group", "")
    )


def class_of(name: str, group: str) -> str | None:
    """Return the class of an emoji, or None if it does not belong to any."""
    # Classes are visited in alphabetical order; the first match is used.
    return next((label for label, rule in icon_classes().items() if rule.holds(name, group)), None)
