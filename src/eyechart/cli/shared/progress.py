"""A progress bar on the terminal, with rate and time left; silent in pipes and logs."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from eyechart.core.progress import Advance


class ProgressBars:
    """One bar after the other, for work that has several parts."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def __enter__(self) -> "ProgressBars":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def begin(self, title: str, total: int) -> Advance:
        """End the current bar and return the callback of the next one."""
        self._open.close()
        return self._open.enter_context(progress_bar(title, total))


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Advance]:
    """Yield a function that advances the bar and prints a message, if there is one."""
    if not sys.stderr.isatty():
        yield _print_message
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
        task = progress.add_task(escape(title), total=total)

        def advance(n_done: int, message: str) -> None:
            if message:
                progress.console.print(escape(message), highlight=False, soft_wrap=True)
            progress.advance(task, n_done)

        yield advance


def _print_message(n_done: int, message: str) -> None:
    if message:
        print(message, file=sys.stderr)
