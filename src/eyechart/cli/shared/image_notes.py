"""Notes on image files, such as skipped files, printed by every command."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "eyechart.images"


class _Printer(logging.Handler):
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
    log, printer = logging.getLogger(NAME), _Printer()
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
