"""What concerns the whole process: SIGTERM, which stops it like Ctrl-C, and quicker imports."""

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RECEIVED: list[int] = []
"""The signals that asked this process to stop, in order; Ctrl-C is not included, because it is not
handled here."""


def stop_on_termination() -> None:
    """Make SIGTERM raise KeyboardInterrupt, like Ctrl-C."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    RECEIVED.append(number)
    raise KeyboardInterrupt


def interrupted_status() -> int:
    """Return the exit status of an interrupted process: 143 after SIGTERM, otherwise 130."""
    # shells report 128 + the number of the signal
    return 128 + (signal.SIGTERM if signal.SIGTERM in RECEIVED else signal.SIGINT)


@contextmanager
def quick_imports() -> Iterator[None]:
    """Collect no garbage during the imports in this block, nor ever among what they import.

    Collections search all that was imported so far, again and again, which takes a sixth of the
    time. Modules stay until the process ends, so there is nothing to find.
    """
    # What is imported already has no cost, and objects of a caller must remain collectable.
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
