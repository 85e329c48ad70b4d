"""Handle SIGTERM like Ctrl-C, without losing data; only the exit status differs."""

import signal
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
