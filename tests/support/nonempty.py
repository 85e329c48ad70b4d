"""What a test goes through: a test whose loop is never entered would pass and test nothing."""

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def at_least_one(items: Iterable[Item]) -> list[Item]:
    """Return the items as a list, of which there must be at least one."""
    found = list(items)
    assert found, "there is nothing to test"
    return found
