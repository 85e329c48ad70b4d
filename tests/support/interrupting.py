"""Pressing Ctrl-C in the middle of work, and file systems without locks."""

import os
import signal

from eyechart.cli.shared import progress
from eyechart.core.storage import shards


def stopping(title, after, monkeypatch):
    """Press Ctrl-C after so many steps of the part of the work that begins with a title."""
    begin = progress.ProgressBars.begin

    def hooked(self, name, total):
        step, left = begin(self, name, total), [after]

        def count(done, message):
            step(done, message)
            left[0] -= 1
            # reading "training images" is no part of the training
            is_part = name.startswith(title) and not name.endswith("images")
            if is_part and left[0] == 0:
                os.kill(os.getpid(), signal.SIGINT)

        return count

    monkeypatch.setattr(progress.ProgressBars, "begin", hooked)


def reject_locks(monkeypatch):
    """Let whoever takes a lock of a job queue fail."""

    def reject(path):
        raise AssertionError(f"{path} was locked")

    monkeypatch.setattr(shards, "try_lock", reject)
