"""Where a training stands: a file beside the checkpoint, from which it goes on to the same end."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from eyechart.core.errors import UsageError
from eyechart.core.files import write_torch
from eyechart.core.run_folder import Settings, first_change
from eyechart.core.signals import RECEIVED
from eyechart.models.checkpoint import load, read_checkpoint

SUFFIX = ".state"


def state_path(path: Path) -> Path:
    """Return where the state of an unfinished training is, given its checkpoint's path."""
    return path.with_suffix(SUFFIX)


def is_finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Return whether the checkpoint is there; one of another configuration is refused."""
    if not path.exists():
        return False
    check_same_training(
        path, read_checkpoint(path, mapped=True).recipe.get("settings", {}), settings
    )
    return True


def write_state(
    path: Path, settings: Mapping[str, Any], step: int, module: nn.Module, optimiser: Optimizer
) -> None:
    """Write all that is needed to go on after so many steps."""
    held = {
        "settings": dict(settings),
        "step": step,
        "weights": module.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    write_torch(held, state_path(path))


def read_state(
    path: Path, settings: Mapping[str, Any], module: nn.Module, optimiser: Optimizer
) -> int:
    """Bring module and optimiser to where they were, and return after how many steps that was."""
    where = state_path(path)
    if not where.exists():
        return 0
    held = load(where)
    if "settings" not in held:
        raise UsageError(f"{where} is no state of a training: delete it to begin anew.")
    check_same_training(where, held["settings"], settings)
    module.load_state_dict(held["weights"])
    optimiser.load_state_dict(held["optimiser"])
    return int(held["step"])


def check_same_training(path: Path, old: Settings, new: Settings) -> None:
    """Raise a UsageError if the state or checkpoint at `path` is of another configuration."""
    change = first_change(old, new)
    if change is not None:
        raise UsageError(
            f"{path} is of a training with another configuration ({change}): choose another"
            " --out, or delete it."
        )


@contextmanager
def interrupt_noticed() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C or SIGTERM came, which within this stop nothing.

    Stopped in the middle of a step, weights would be half updated.
    """
    asked = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            # whoever asks twice does not want to wait
            raise KeyboardInterrupt
        asked = True
        RECEIVED.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # where SIGTERM is left to the system, it ends the process at once
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, note)
    try:
        yield lambda: asked
    finally:
        for number in ours:
            signal.signal(number, before[number])
