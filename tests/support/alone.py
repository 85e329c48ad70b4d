"""Lets tests that measure time run one at a time, also in several test processes."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other test that asks for this is running, and keep others waiting."""
    lock = Path(tempfile.gettempdir()) / f"eyechart-tests-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
