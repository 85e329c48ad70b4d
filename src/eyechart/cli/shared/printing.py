"""What commands print: tables, notes, and the files that were written or logged."""

import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.errors import UsageError
from eyechart.reports.terminal.columns import stacked

if TYPE_CHECKING:
    from rich.console import Console

    from eyechart.results.schema import Results


WIDE = 160


def wide_console(width: int = WIDE) -> "Console":
    """Return a console as wide as the terminal, or of a width if the output is a pipe."""
    from rich.console import Console

    console = Console()
    # rich assumes 80 columns where there is no terminal
    return console if console.is_terminal else Console(width=width)


def note_left_out(names: Iterable[str]) -> None:
    """Print a note for each corruption that is skipped because a file it needs is missing."""
    from eyechart.corruptions.suites.assets import left_out_notes

    print_notes(left_out_notes(names))


def print_table(
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    left: Collection[int] = (0,),
    last_apart: bool = False,
    kept: int = 1,
) -> None:
    """Print a table as wide as the terminal; columns that do not fit are printed below it.

    The first `kept` columns are repeated there.
    """
    from rich.markup import escape

    head, rows = table
    console = wide_console()
    for part in stacked(
        [escape(cell) for cell in head],
        [[escape(cell) for cell in row] for row in rows],
        width=console.width,
        kept=kept,
        left=left,
        last_apart=last_apart,
    ):
        console.print(part)


def print_notes(notes: Iterable[str]) -> None:
    """Print each note on its own line; an empty one is no note."""
    for note in filter(None, notes):
        print(f"Note: {note}")


def print_written(paths: Iterable[Path | None]) -> None:
    """Print the files that were written."""
    written = [path for path in paths if path is not None]
    if written:
        print("Written:", *written, sep="\n  ")


IMAGE_LOGGER = "eyechart.images"


class _NotePrinter(logging.Handler):
    """Prints each note once on standard error; under torchrun only in the first process."""

    def __init__(self) -> None:
        super().__init__()
        self.printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # slow to import, and most commands have nothing to print
        from eyechart.training.distributed import is_first_process

        note = record.getMessage()
        if note not in self.printed and is_first_process():
            print(note, file=sys.stderr)
        self.printed.add(note)


@contextmanager
def print_image_notes() -> Iterator[None]:
    """Print log messages about images while a command runs."""
    log, printer = logging.getLogger(IMAGE_LOGGER), _NotePrinter()
    level, propagates = log.level, log.propagate
    log.addHandler(printer)
    log.setLevel(logging.INFO)
    # other packages may have a handler for everything, which would print a note again
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(printer)
        log.setLevel(level)
        log.propagate = propagates


def log_to(results: "Results", loggers: Sequence[str], report: Path | None = None) -> list[str]:
    """Log results, print where they are, and return a sentence for each logger that failed."""
    if not loggers:
        return []
    from eyechart.integrations.loggers.log_results import log_results

    failed = []
    for name in dict.fromkeys(loggers):
        try:
            print(log_results(results, name, report))
        except UsageError as error:
            failed.append(str(error))
    return failed
