"""Progress of long work: the one callback type, and who may follow it.

Bars on a terminal are drawn by the command line, not here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

Advance = Callable[[int, str], None]
"""Called with the number of steps done since the last call, and a message or ""."""


class Progress(Protocol):
    """Follows long work that has several parts."""

    def begin(self, title: str, total: int) -> Advance:
        """Begin a part of the work that has `total` steps."""


def no_advance(n_done: int, message: str) -> None:
    """Ignore the progress of one part of the work."""


class NoProgress:
    """Follows nothing."""

    def begin(self, title: str, total: int) -> Advance:
        """Return a callback that does nothing."""
        return no_advance


NO_PROGRESS = NoProgress()


class JointProgress:
    """Counts every part of the work on one callback."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def begin(self, title: str, total: int) -> Advance:
        """Return the one callback."""
        return self.advance


@contextmanager
def counted_to(total: int, advance: Advance) -> Iterator[Advance]:
    """Give a callback for one job; at the end, steps up to `total` that it did not count are.

    A job that was done before, or by another process, counts none of its own.
    """
    n_counted = 0

    def count(n_done: int, message: str) -> None:
        nonlocal n_counted
        n_counted += n_done
        advance(n_done, message)

    yield count
    advance(total - n_counted, "")
