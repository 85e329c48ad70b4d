"""How a subcommand ends early: with a sentence for the user and an exit status."""

from pathlib import Path

from eyechart.core.locks import LOCK


class Stop(Exception):
    """Ends the command; what was done until then is kept."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def stopped(where: Path, result: str) -> Stop:
    """Return what ends a command after Ctrl-C; `result`: was made so far, and is there."""
    # a folder that holds nothing but the lock of this command goes with it
    is_there = any(path.name != LOCK for path in where.iterdir()) if where.is_dir() else False
    if is_there or where.is_file():
        sentence = f"Stopped: {result} is in {where}; the same command goes on from there."
    else:
        sentence = "Stopped before anything was made; the same command begins anew."
    return Stop(sentence, 130)
