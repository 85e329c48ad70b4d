"""A name-to-thing table that refuses duplicates and suggests names for misspelt ones."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

from eyechart.core.errors import UsageError

Item = TypeVar("Item")

LONGEST = 60
"""Letters of a name that are repeated in an error."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that is not there, with the nearest known names in it."""
    known = sorted(known)
    # what is longer than any name resembles none, and looking would take its time
    near = difflib.get_close_matches(name.lower()[: 2 * LONGEST], known, n=2, cutoff=0.6)
    if not near:
        # `noc/fog` or `imagenet-c/fog`: the part behind the slash may still be right.
        stem = name.rsplit("/", 1)[-1]
        near = [other for other in known if other.rsplit("/", 1)[-1] == stem][:2]
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
    if near:
        hint = "Did you mean " + " or ".join(f"'{other}'" for other in near) + "?"
    else:
        hint = f"Known: {', '.join(known)}."
    return UsageError(f"Unknown {kind} '{name}'. {hint}")


def one_of(names: Iterable[str]) -> str:
    """Return names as help and errors list them.

    Example:
        >>> one_of(["max", "mean", "sum"])
        'max, mean or sum'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class _Source:
    """Where a thing is that has not been asked for yet: `module:attribute`."""

    address: str


class Registry(Generic[Item]):
    """Things by name, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, Item | _Source] = {}

    def add(self, name: str, item: Item) -> Item:
        """Add `item` under `name` and return it; a name can be taken only once."""
        self._refuse_twice(name)
        self._items[name] = item
        return item

    def add_lazily(self, name: str, address: str) -> None:
        """Add what `module:attribute` names; it is imported when it is first asked for.

        Help texts list names without waiting for what stands behind them.
        """
        self._refuse_twice(name)
        self._items[name] = _Source(address)

    def _refuse_twice(self, name: str) -> None:
        if name in self._items:
            raise ValueError(f"{self.kind} '{name}' is registered twice.")

    def __getitem__(self, name: str) -> Item:
        try:
            item = self._items[name]
        except KeyError:
            raise unknown_name(self.kind, name, self._items) from None
        if isinstance(item, _Source):
            module, _, attribute = item.address.partition(":")
            item = self._items[name] = getattr(import_module(module), attribute)
        return item

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[Item]:
        """Yield the things in the order in which they were added."""
        return (self[name] for name in self._items)
