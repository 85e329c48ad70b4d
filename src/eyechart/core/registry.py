"""A registry of items by name that rejects duplicates and suggests names for misspelled ones."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Generic, TypeVar

from eyechart.core.errors import UsageError

Item = TypeVar("Item")

LONGEST = 60
"""Length in characters to which a name is cut in an error message."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown name, with the closest known names as suggestions."""
    known = sorted(known)
    # names without a prefix first: "fog" is nearer to fog than to a suite's vcr/fog
    near = near_names(name, sorted(known, key=lambda other: "/" in other))
    hint = f"Did you mean {one_of(map(repr, near))}?" if near else f"Known: {', '.join(known)}."
    return UsageError(f"Unknown {kind} '{shortened(name)}'. {hint}")


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to two known names that an unknown name may stand for, closest first.

    The part after a slash is compared as well, so that "frots" is near "vcr/frost". Among names
    that are equally close, the first one counts.

    Example:
        >>> near_names("--sev", ["--seed", "--severity"])
        ['--severity']
    """
    # a longer name resembles no known one, and comparing takes time quadratic in its length
    text = name.lower()[: 2 * LONGEST]
    by_text: dict[str, str] = {}
    alike, begin = [], []
    for other in known:
        short = stem(other)
        by_text.setdefault(other, other)
        by_text.setdefault(short, other)
        if short == stem(text):
            alike.append(other)
        elif text and (short.startswith(text) or other.startswith(text)):
            begin.append(other)
    if alike or 0 < len(begin) <= 2:
        return (alike or begin)[:2]
    # twice as many, because a name can be close both as a whole and after its slash
    close = difflib.get_close_matches(text, by_text, n=4, cutoff=0.6)
    return list(dict.fromkeys(by_text[other] for other in close))[:2]


def stem(name: str) -> str:
    """Return a name without the prefix before its last slash."""
    return name.rsplit("/", 1)[-1]


def shortened(name: str) -> str:
    """Return a name as it is quoted in error messages."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def one_of(names: Iterable[str]) -> str:
    """Return names joined into one phrase, for help and error messages.

    Example:
        >>> one_of(["max", "mean", "sum"])
        'max, mean or sum'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class _Source:
    """The location of an item that has not been imported yet: `module:attribute`."""

    address: str


class Registry(Generic[Item]):
    """Items by name, in the order in which they were added.

    Example:
        >>> colors = Registry("color")
        >>> colors.add("red", 0xFF0000)
        16711680
        >>> list(colors), "blue" in colors
        (['red'], False)
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, Item | _Source] = {}

    def add(self, name: str, item: Item) -> Item:
        """Add `item` under `name` and return it; raise if the name is already registered."""
        self._reject_twice(name)
        self._items[name] = item
        return item

    def add_lazily(self, name: str, address: str) -> None:
        """Add the item at `module:attribute`; it is imported on first access.

        This way help texts can list names without importing slow modules.
        """
        self._reject_twice(name)
        self._items[name] = _Source(address)

    def _reject_twice(self, name: str) -> None:
        if name in self._items:
            raise ValueError(f"{self.kind} '{name}' is registered twice.")

    def __getitem__(self, name: str) -> Item:
        try:
            item = self._items[name]
        except KeyError:
            raise unknown_name(self.kind, name, self._items) from None
        if isinstance(item, _Source):
            item = self._items[name] = resolve_name(item.address)
        return item

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[Item]:
        """Yield the items in the order in which they were added."""
        return (self[name] for name in self._items)
