"""Progress of long work: the callback type, and objects that follow it.

Progress bars, with rate and time left, are drawn by `cli/shared/progress.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

Advance = Callable[[int, str], None]
"""Called with the number of steps done since the last call, and a message or ""."""


class Progress(Protocol):
    """Follows work that has several parts, such as a progress bar for each."""

    def begin(self, title: str, total: int) -> Advance:
        """Start a part of the work that has `total` steps; return its callback."""


def no_advance(n_done: int, message: str) -> None:
    """Ignore the progress of one part of the work."""


class NoProgress:
    """Ignores all progress."""

    def begin(self, title: str, total: int) -> Advance:
        """Return a callback that does nothing."""
        return no_advance


NO_PROGRESS = NoProgress()


class JointProgress:
    """Counts all parts of the work on one callback."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def begin(self, title: str, total: int) -> Advance:
        """Return the common callback."""
        return self.advance


@contextmanager
def counted_to(total: int, advance: Advance) -> Iterator[Advance]:
    """Yield a callback for one job; when it ends, report the steps up to `total` not yet counted.

    A job that was done before, or by another process, counts no steps itself.
    """
    n_counted = 0

    def count(n_done: int, message: str) -> None:
        nonlocal n_counted
        n_counted += n_done
        advance(n_done, message)

    yield count
    # not in a finally block: a job that failed is not done
    advance(total - n_counted, "")
