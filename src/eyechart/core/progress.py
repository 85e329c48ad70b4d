"""Progress of long tasks: the callback type, objects that track progress, and calls meanwhile.

Progress bars, with rate and time left, are drawn by `cli/shared/progress.py`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, str], None]
"""Callback that receives the number of steps since its last call, and a possibly empty message."""


def no_advance(n_done: int, message: str) -> None:
    """Ignore the progress of one part of the task."""


class Progress:
    """Ignores the progress of a task that has several parts; subclasses show it, such as bars."""

    def begin(self, title: str, total: int) -> Advance:
        """Start a part of the task that has `total` steps; return its callback."""
        return no_advance


NO_PROGRESS = Progress()


class JointProgress(Progress):
    """Reports all parts of the task to one callback."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def begin(self, title: str, total: int) -> Advance:
        """Return the callback that all parts of the task share."""
        return self.advance


@contextmanager
def counted_to(total: int, advance: Advance) -> Iterator[Advance]:
    """Yield a callback for one job; when the job ends, report the remaining steps up to `total`.

    A job that was already done, or done by another process, reports no steps itself.
    """
    n_counted = 0

    def count(n_done: int, message: str) -> None:
        nonlocal n_counted
        n_counted += n_done
        advance(n_done, message)

    yield count
    # not in a finally block: a job that failed is not done
    advance(total - n_counted, "")


class Repeated:
    """Calls a function every few seconds in a separate thread, between `start` and `stop`.

    Example:
        >>> calls = []
        >>> repeated = Repeated(lambda: calls.append("call"), 0.001)
        >>> repeated.start()
        >>> while not calls:
        ...     pass
        >>> repeated.stop()
    """

    def __init__(self, call: Callable[[], None], seconds: float) -> None:
        self._call, self._seconds = call, seconds
        self._ended = threading.Event()
        # A daemon, so that a process that is interrupted before `stop` ends.
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def start(self) -> None:
        """Start the thread; the first call is after the first few seconds."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after a call that is in progress."""
        self._ended.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.wait(self._seconds):
            self._call()


def duration_text(seconds: float) -> str:
    """Return a duration as text, with at most two units.

    Example:
        >>> duration_text(42.4), duration_text(200), duration_text(7_300)
        ('42 s', '3 min 20 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
