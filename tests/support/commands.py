"""What the tests of the command share: its result, pictures to give to it, a refusal."""

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


def image_file(path: Path, seed: int = 0, size: tuple[int, int] = (24, 20)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(levels).save(path)
    return path


def without_plan(err: str) -> list[str]:
    """The lines on standard error, except the plan and the first figures of an evaluation."""
    lines = err.strip().splitlines()
    return [line for line in lines if not line.startswith(("Plan: ", "Correct for the first "))]


def assert_rejected(result: Result, *words: str) -> None:
    """One sentence on standard error, exit status 2, no traceback."""
    assert result.status == 2, result.err
    assert len(without_plan(result.err)) == 1, result.err
    assert "Traceback" not in result.err
    assert result.err.strip().endswith((".", "?")), result.err
    for word in words:
        assert word in result.err, result.err


def hear_interrupts() -> None:
    """For a process that is started: Ctrl-C counts, also where tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder and its folders, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def pipe(path):
    """A named pipe that must not be opened: reading from it would wait for its writer for ever.

    A writer is ready, so that a command which opens it ends, and is found out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    was_opened = []

    def write():
        writing = os.open(path, os.O_WRONLY)
        was_opened.append(not is_over)
        os.close(writing)

    is_over = False
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield path
    finally:
        is_over = True
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reading)
    assert was_opened == [False], f"{path} was opened"
