"""A name-to-thing table that refuses duplicates and suggests names for misspelt ones."""

import difflib
from collections.abc import Iterable, Iterator
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


class Registry(Generic[Item]):
    """Things by name, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, Item] = {}

    def add(self, name: str, item: Item) -> Item:
        """Add `item` under `name` and return it; a name can be taken only once."""
        if name in self._items:
            raise ValueError(f"{self.kind} '{name}' is registered twice.")
        self._items[name] = item
        return item

    def __getitem__(self, name: str) -> Item:
        try:
            return self._items[name]
        except KeyError:
            raise unknown_name(self.kind, name, self._items) from None

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[Item]:
        """Yield the things in the order in which they were added."""
        return iter(self._items.values())
