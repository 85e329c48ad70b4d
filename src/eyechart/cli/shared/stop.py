"""End a subcommand early, with a sentence for the user and one of these exit statuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eyechart.core.storage.locks import LOCK
from eyechart.core.storage.shards import Shard

FAILED = 1
"""Exit status if memory runs out, or a check fails: `--fail-under`, `models check`, `gate`."""

USAGE = 2
"""Exit status for invalid input."""

BUG = 70
"""Exit status for an internal error (EX_SOFTWARE in sysexits.h)."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells: 128 plus the signal number."""

BROKEN_PIPE = 141
"""Exit status if the program that reads the output pipe has ended."""


class Stop(Exception):
    """An exception that ends the command; finished work is kept."""

    def __init__(self, sentence: str, status: int = INTERRUPTED) -> None:
        super().__init__(sentence)
        self.status = status


@contextmanager
def on_interrupt(sentence: str) -> Iterator[None]:
    """End the command with this sentence if Ctrl-C is pressed in the block."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stop(sentence) from None


@contextmanager
def resumable(where: Path, result: str, shown: str = "") -> Iterator[None]:
    """End the command with a sentence about its output if Ctrl-C is pressed in the block.

    Args:
        where: the folder or file that the command writes.
        result: a name of its output so far.
        shown: the folder as the user gave it, if that is a URL.
    """
    try:
        yield
    except KeyboardInterrupt:
        # a folder that contains only this command's lock is removed with it
        is_there = any(path.name != LOCK for path in where.iterdir()) if where.is_dir() else False
        if is_there or where.is_file():
            place = shown or where
            sentence = f"Stopped: {result} is in {place}; run the same command again to resume."
        else:
            sentence = (
                "Stopped before anything was written; run the same command again to start over."
            )
        raise Stop(sentence) from None


def shard_done(shard: Shard | None, where: Path) -> str:
    """Return the sentence at the end of a shard of a study if other shards are not done."""
    return (
        f"Shard {shard} is done: its networks are in {where}. The results follow when all shards"
        " are done; if none prints them, run the same command without --shard."
    )
