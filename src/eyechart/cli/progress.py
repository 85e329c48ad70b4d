"""A progress bar on the terminal, with rate and time left; silent in pipes and logs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Give a function that counts one more as done and prints a message, if there is one."""
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
            return Text("" if speed is None else f"{speed:,.1f}/s")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task(escape(title), total=total)

        def step(message: str) -> None:
            if message:
                progress.console.print(escape(message), highlight=False, soft_wrap=True)
            progress.advance(task)

        yield step


def _print_message(message: str) -> None:
    if message:
        print(message, file=sys.stderr)
