"""Progress with rate and time left: a bar on the terminal, a line every few seconds in a log."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from eyechart.core.progress import Advance, Progress, Repeated, duration_text

INTERVAL_S = 10.0
"""Seconds between two lines if standard error is not a terminal."""


class ProgressBars(ExitStack, Progress):
    """Successive progress bars, one for each part of a task; the last ends with the block."""

    def begin(self, title: str, total: int) -> Advance:
        """End the current bar, start the next one and return its callback."""
        self.close()
        return self.enter_context(progress_bar(title, total))


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Advance]:
    """Yield a function that advances the bar and prints its message unless it is empty.

    If standard error is not a terminal, a line is printed every `INTERVAL_S` seconds instead.
    """
    if not sys.stderr.isatty():
        with ProgressLines(title, total) as lines:
            yield lines.advance
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            # the first call counts work of an earlier run, which must not affect the rate
            young = (task.elapsed or 0) < 1
            return Text("" if speed is None or young else f"{speed:,.1f}/s")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        # rich would read square brackets in a title as markup
        task = progress.add_task(escape(title), total=total)

        def advance(n_done: int, message: str) -> None:
            if message:
                progress.console.print(escape(message), highlight=False, soft_wrap=True)
            progress.advance(task, n_done)

        yield advance


class ProgressLines:
    """Prints a log line on standard error every `INTERVAL_S` seconds; shorter tasks print none.

    A separate thread prints the lines, since a single step may take minutes.
    """

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._n_done = self._n_printed = 0
        self._first: tuple[float, int] | None = None
        self._latest = self._start = time.monotonic()
        self._lock = threading.Lock()
        self._printing = Repeated(self._print, INTERVAL_S)

    def __enter__(self) -> "ProgressLines":
        self._printing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._printing.stop()
        # Work that printed lines also gets a last one, so that a log shows that it ended.
        if self._n_printed and self._n_done >= self._total:
            seconds = duration_text(time.monotonic() - self._start)
            _print_line(f"{self._title}: {self._counts()}, finished after {seconds}")

    def advance(self, n_done: int, message: str) -> None:
        """Count steps, and print the message unless it is empty."""
        with self._lock:
            self._n_done += n_done
            self._latest = time.monotonic()
            # The first call counts work of an earlier run, which must not affect the rate.
            if self._first is None:
                self._first = self._latest, self._n_done
        if message:
            _print_line(message)

    def line(self) -> str:
        """Return the number of finished steps, with rate and time left once they are known."""
        with self._lock:
            text = f"{self._title}: {self._counts()}"
            start, n_before = self._first or (self._latest, self._n_done)
            n_new, seconds = self._n_done - n_before, self._latest - start
            if n_new <= 0 or seconds <= 0:
                return text
            rate = n_new / seconds
            left = duration_text(max(self._total - self._n_done, 0) / rate)
            return f"{text}, {rate:,.{1 if rate >= 1 else 3}f}/s, {left} left"

    def _counts(self) -> str:
        return f"{self._n_done:,} of {self._total:,}"

    def _print(self) -> None:
        _print_line(self.line())
        self._n_printed += 1


def _print_line(text: str) -> None:
    # Flushed, since standard error may be buffered in a log, where a late line is of no use.
    print(text, file=sys.stderr, flush=True)
