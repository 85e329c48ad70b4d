"""SIGTERM as Ctrl-C: the same sentence and nothing lost, only the exit status is another."""

import signal
from types import FrameType

RECEIVED: list[int] = []
"""The signals that asked this process to stop, in their order; Ctrl-C that was not caught is not
among them."""


def stop_on_termination() -> None:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does, in whatever is being done."""
    signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    RECEIVED.append(number)
    raise KeyboardInterrupt


def interrupted_status() -> int:
    """Return the exit status of a process that was stopped: 143 after SIGTERM, otherwise 130."""
    return 128 + (signal.SIGTERM if signal.SIGTERM in RECEIVED else signal.SIGINT)
