"""Train a network step by step, and save the state next to the checkpoint for resuming.

The modules `training_loop` and `style_transfer` define what a step computes.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from torch import nn
from torch.optim import Optimizer

from eyechart.core.errors import UsageError
from eyechart.core.process import RECEIVED
from eyechart.core.storage.files import write_torch
from eyechart.core.storage.run_folder import Settings, first_change
from eyechart.models.checkpoint import load, read_checkpoint
from eyechart.training.distributed import ProcessGroup

SUFFIX = ".state"
SAVE_EVERY = 60.0
"""Seconds between two saves of the state."""

Batch = TypeVar("Batch")


def state_path(path: Path) -> Path:
    """Return the path of an unfinished training's state, given its checkpoint's path."""
    return path.with_suffix(SUFFIX)


def is_finished(path: Path, settings: Settings) -> bool:
    """Return whether the checkpoint exists; raise an error if its configuration differs."""
    if not path.exists():
        return False
    # Mapped, because only the settings are compared: large weights need not be read.
    check_same_training(
        path, read_checkpoint(path, mapped=True).recipe.get("settings", {}), settings
    )
    return True


class TrainingState:
    """The state of a training run: the module, its optimizer, and the number of steps done.

    After any interruption, the training resumes from the state file next to `path`, with the same
    result.
    """

    def __init__(
        self, path: Path, settings: Settings, module: nn.Module, optimizer: Optimizer
    ) -> None:
        self.path, self.settings = path, settings
        self.module, self.optimizer = module, optimizer
        self.n_done = self._resume()
        self.saved_at = time.monotonic()

    def run(
        self,
        n_steps: int,
        prepare: Callable[[], Batch],
        learn: Callable[[Batch], None],
        advance: Callable[[], None],
        world: ProcessGroup,
    ) -> None:
        """Run all remaining steps.

        Args:
            n_steps: Total number of steps.
            prepare: Returns the batch for the next step, which depends on `n_done`.
            learn: Updates the module.
            advance: Called after every step.
            world: The processes that share the training; the first one writes files.
        """
        is_between_steps = True
        with interrupt_noticed() as interrupted:
            try:
                while self.n_done < n_steps:
                    batch = prepare()
                    is_between_steps = False
                    learn(batch)
                    self.n_done += 1
                    is_between_steps = True
                    advance()
                    # All processes must stop after the same step; otherwise some would wait for the
                    # gradients of others.
                    if world.any(interrupted()):
                        raise KeyboardInterrupt
                    if time.monotonic() - self.saved_at > SAVE_EVERY:
                        self._save(world)
            except KeyboardInterrupt:
                # In the middle of a step, weights are neither the old nor the new ones.
                if is_between_steps:
                    self._save(world)
                raise

    def _resume(self) -> int:
        """Restore the module and optimizer, and return the number of steps done."""
        path = state_path(self.path)
        if not path.exists():
            return 0
        held = load(path)
        # Any torch file can be read, even one that is not a training state.
        if "settings" not in held:
            raise UsageError(f"{path} is not a training state: delete it to start again.")
        check_same_training(path, held["settings"], self.settings)
        self.module.load_state_dict(held["weights"])
        self.optimizer.load_state_dict(held["optimizer"])
        return int(held["step"])

    def _save(self, world: ProcessGroup) -> None:
        if world.is_first:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            held = {
                "settings": dict(self.settings),
                "step": self.n_done,
                "weights": self.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            }
            write_torch(held, state_path(self.path))
        self.saved_at = time.monotonic()


def check_same_training(path: Path, old: Settings, new: Settings) -> None:
    """Raise a UsageError if the state or checkpoint at `path` has a different configuration."""
    change = first_change(old, new)
    if change is not None:
        raise UsageError(
            f"{path} belongs to a training run with a different configuration ({change}): choose"
            " another --out, or delete it."
        )


@contextmanager
def interrupt_noticed() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C or SIGTERM was received.

    The current step is completed first; otherwise weights would be only partly updated.
    """
    asked = False
    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            # A second interrupt means that the user does not want to wait.
            raise KeyboardInterrupt
        asked = True
        RECEIVED.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A signal with its default action is not intercepted; it ends the process at once.
    ours = [number for number, handler in before.items() if callable(handler)]
    for number in ours:
        signal.signal(number, note)
    try:
        yield lambda: asked
    finally:
        for number in ours:
            signal.signal(number, before[number])
