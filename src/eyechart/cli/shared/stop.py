"""How a subcommand ends early: with a sentence for the user and an exit status."""

from pathlib import Path

from eyechart.core.locks import LOCK


class Stop(Exception):
    """Ends the command; finished work is kept."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def stopped(where: Path, result: str) -> Stop:
    """Return what ends a command after Ctrl-C; `result`: what was kept."""
    # a folder that holds only the lock of this command is removed with it
    is_there = any(path.name != LOCK for path in where.iterdir()) if where.is_dir() else False
    if is_there or where.is_file():
        sentence = f"Stopped: {result} is in {where}; run the same command again to resume."
    else:
        sentence = "Stopped before anything was written; run the same command again to start over."
    return Stop(sentence, 130)
