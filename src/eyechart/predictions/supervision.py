"""Run work items in other processes: send the task, hand out items, replace dead workers.

How workers are started and asked is up to a `Team`: see `processes` and `ray_actors`. A model is
loaded again by the process that needs it if it has an origin; otherwise it is copied.
"""

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, auto
from io import BytesIO
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from eyechart.core.devices import image_device
from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.storage.parts import PartFiles
from eyechart.models.model import Model, in_one_line, lay_out
from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import PredictionTask, WorkItem

MAX_DEATHS = 2
"""Number of workers that may die on the same batch, or before they are ready, until a run ends."""

MIN_ITEMS = 3
"""Number of items per worker below which items are split, so that no worker waits for long."""

START_SECONDS = 600.0
"""Time after which a run ends if no worker is ready."""

POLL_SECONDS = 1.0

Received = TypeVar("Received")


class EventKind(Enum):
    """What a team reports about a worker."""

    READY = auto()
    PROGRESS = auto()
    FINISHED = auto()
    FAILED = auto()
    DIED = auto()


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to the worker at a place (0, 1, …) of a team.

    `item`: number of the work item that the worker was given. `n_samples`: samples newly written.
    `text`: a message, or why the worker failed or died. `is_usage`: whether a failure is a usage
    error, whose text is a sentence for users.
    """

    kind: EventKind
    place: int
    item: int = -1
    n_samples: int = 0
    text: str = ""
    is_usage: bool = False


class Team(Protocol):
    """Workers at numbered places, each in its own process; a worker runs one item at a time."""

    n_places: int

    def start(self, place: int) -> None:
        """Start a worker, or replace a dead one; it reports when it is ready."""

    def give(self, place: int, number: int, item: WorkItem) -> None:
        """Let a worker run an item."""

    def events(self, seconds: float) -> list[Event]:
        """Return what happened; wait for at most this time if nothing did."""

    def stop(self, is_done: bool) -> None:
        """End all workers; unless all work is done, let them store what they have computed."""


@dataclass(eq=False)
class _Assignment:
    """A work item, with what is known about its progress."""

    item: WorkItem
    n_reported: int = 0
    n_deaths: int = 0

    @property
    def n_samples(self) -> int:
        # Images without content have negative row numbers and are not samples.
        return int((self.item >= 0).sum())


def supervise(
    team: Team,
    task: PredictionTask,
    items: Sequence[WorkItem],
    folder: Path,
    advance: Advance,
) -> None:
    """Run all items with a team of workers.

    Args:
        team: The workers; they are started and ended here, and write the part files.
        task: What to predict.
        items: The items.
        folder: Folder of the part files.
        advance: Receives the progress of all workers.

    Raises:
        UsageError: If a worker reports one, or if workers keep dying.
    """
    supervisor = _Supervisor(team, part_files(task, folder), advance)
    is_done = False
    try:
        supervisor.run(split_items(task, items, MIN_ITEMS * team.n_places))
        is_done = True
    finally:
        team.stop(is_done)


def split_items(task: PredictionTask, items: Sequence[WorkItem], n_items: int) -> list[WorkItem]:
    """Return at least `n_items` items, if there are enough corruptions to split them by.

    Samples of one corruption stay together, so that batches do not depend on the splitting.
    """
    # Images without content are an item of their own, which takes one batch.
    n_blocks = max(1, sum(bool((item >= 0).any()) for item in items))
    if n_blocks >= n_items:
        return list(items)
    n_parts = -(-n_items // n_blocks)
    parts = []
    for item, groups in zip(items, task.samples(items), strict=True):
        blank = item[item < 0]
        if len(blank):
            parts.append(blank)
        for numbers in np.array_split(np.arange(len(groups)), n_parts):
            if len(numbers):
                parts.append(np.concatenate([groups[number].row for number in numbers]))
    return parts


class _Supervisor:
    """The state of a supervised run: items that wait, and who works on which."""

    def __init__(self, team: Team, parts: PartFiles, advance: Advance) -> None:
        self.team, self.parts, self.advance = team, parts, advance
        self.assignments: list[_Assignment] = []
        self.waiting: deque[int] = deque()
        self.current: dict[int, int] = {}
        self.idle: list[int] = []
        self.starting: set[int] = set()
        self.n_failed_starts = 0

    def run(self, items: Sequence[WorkItem]) -> None:
        self.assignments = [_Assignment(item) for item in items]
        self.waiting.extend(range(len(items)))
        for place in range(min(self.team.n_places, len(items))):
            self._start(place)
        since = time.monotonic()
        while self.waiting or self.current:
            for event in self.team.events(POLL_SECONDS):
                self._handle(event)
            if self.current:
                since = time.monotonic()
            elif time.monotonic() - since > START_SECONDS:
                raise UsageError(
                    f"No worker was ready within {START_SECONDS / 60:g} minutes: use fewer workers,"
                    " or check that the machines have free CPUs or GPUs; finished work is kept."
                )

    def _start(self, place: int) -> None:
        self.starting.add(place)
        self.team.start(place)

    def _handle(self, event: Event) -> None:
        if event.kind is EventKind.READY:
            self.starting.discard(event.place)
            self.n_failed_starts = 0
            self.idle.append(event.place)
            self._give()
        elif event.kind is EventKind.PROGRESS:
            self._report(event)
        elif event.kind is EventKind.FINISHED:
            self._finish(event.item, self.assignments[event.item].n_samples)
            del self.current[event.place]
            self.idle.append(event.place)
            self._give()
        elif event.kind is EventKind.FAILED:
            # An error that is no usage error is a defect: its traceback is kept.
            raise (UsageError if event.is_usage else RuntimeError)(event.text)
        else:
            self._replace(event)

    def _give(self) -> None:
        while self.waiting and self.idle:
            place, number = self.idle.pop(0), self.waiting.popleft()
            self.current[place] = number
            self.team.give(place, number, self.assignments[number].item)

    def _report(self, event: Event) -> None:
        n_samples = event.n_samples
        # A report may arrive after its item was finished or counted from part files.
        if self.current.get(event.place) != event.item:
            n_samples = 0
        else:
            self.assignments[event.item].n_reported += n_samples
        if n_samples or event.text:
            self.advance(n_samples, event.text)

    def _finish(self, number: int, n_stored: int) -> None:
        """Report the samples that are stored, but were not reported by their worker."""
        assignment = self.assignments[number]
        self.advance(n_stored - assignment.n_reported, "")
        assignment.n_reported = n_stored

    def _replace(self, event: Event) -> None:
        """Let another worker do what a dead worker has not stored."""
        if event.place in self.idle:
            self.idle.remove(event.place)
        number = self.current.pop(event.place, None)
        if number is not None:
            self._repeat(number, event.text)
        elif event.place in self.starting:
            self.n_failed_starts += 1
            if self.n_failed_starts >= MAX_DEATHS * self.team.n_places:
                raise UsageError(
                    f"Worker processes end before they are ready (the last one {event.text}): check"
                    " that there is enough memory and, in a script, call evaluate under"
                    " if __name__ == '__main__'."
                )
        self._give()
        # Idle workers take the item; a new worker is needed only if there are none.
        if self.waiting:
            self._start(event.place)

    def _repeat(self, number: int, how: str) -> None:
        assignment = self.assignments[number]
        stored = self.parts.rows()
        left = assignment.item[~np.isin(assignment.item, stored)]
        has_progress = len(left) < len(assignment.item)
        self._finish(number, assignment.n_samples - int((left >= 0).sum()))
        if not len(left):
            return
        # Deaths on the same batch: a worker that stored something got beyond the last one.
        n_deaths = 1 if has_progress else assignment.n_deaths + 1
        if n_deaths >= MAX_DEATHS:
            raise UsageError(
                f"{n_deaths} workers died on the same samples (the last one {how}): if memory ran"
                " out, use a smaller --batch-size or fewer workers; finished work is kept."
            )
        self.advance(0, f"A worker {how}; another one continues its work.")
        self.assignments[number] = _Assignment(left, 0, n_deaths)
        self.waiting.appendleft(number)


@dataclass(frozen=True)
class SentTask:
    """A prediction task as bytes; it contains no pixels of images that are read from files."""

    task: bytes
    models: tuple[bytes, ...]
    folder: str
    """The current directory of the sender, which relative paths start from."""

    def receive(self, device: torch.device) -> PredictionTask:
        """Return the task with its models on a device.

        Raises:
            UsageError: If the task or a model cannot be restored in this process.
        """
        # A machine of a cluster may not have this folder; absolute paths still work there.
        with suppress(OSError):
            os.chdir(self.folder)
        task: PredictionTask = _restored(lambda: pickle.loads(self.task), "The images")
        models = [_receive_model(content, device) for content in self.models]
        return replace(task, models=models, device=image_device(device))


def send_task(task: PredictionTask) -> SentTask:
    """Return a task in a form that can be sent to other processes.

    Raises:
        UsageError: If a model or the images cannot be sent.
    """
    # Without the cache of decoded images: the receiver reads the files that it needs.
    images = replace(task.images, kept={})
    try:
        content = pickle.dumps(replace(task, models=(), images=images))
    except Exception as error:
        raise _not_sent("The images", error) from error
    return SentTask(content, tuple(map(_send_model, task.models)), str(os.getcwd()))


def _send_model(model: Model) -> bytes:
    buffer = BytesIO()
    sent = copy(model)
    sent._forward = _not_loaded
    try:
        pickle.dump(sent, buffer)
        if model.origin is None:
            # Not pickled with the rest: torch.save lets the receiver choose the device.
            torch.save(model._forward, buffer)
    # Objects raise whatever they like when they cannot be pickled.
    except Exception as error:
        raise _not_sent(f"Model '{model.name}'", error) from error
    return buffer.getvalue()


def _receive_model(content: bytes, device: torch.device) -> Model:
    buffer = BytesIO(content)
    model: Model = _restored(lambda: pickle.load(buffer), "A model")
    model.device = device
    if model.origin is None:
        network = BytesIO(buffer.read())
        model._forward = _restored(
            lambda: torch.load(network, map_location=device, weights_only=False),
            f"Model '{model.name}'",
        )
        return model
    loaded = model.origin.load(device)
    if loaded.identity != model.origin.identity:
        raise UsageError(
            f"Model '{model.name}' has other weights in this process than when the run began: do"
            " not change its file during a run."
        )
    model._forward = loaded._forward
    # The first call may have changed the layout, and the user the precision.
    if isinstance(loaded._forward, nn.Module):
        if loaded.dtype != model.dtype:
            loaded.use_precision(model.dtype)
        lay_out(loaded._forward, model._layout)
    return model


def _not_loaded(_images: torch.Tensor) -> object:
    raise AssertionError("the network must be loaded first")


def _restored(restore: Callable[[], Received], what: str) -> Received:
    try:
        return restore()
    except Exception as error:
        raise _not_sent(what, error) from error


def _not_sent(what: str, error: BaseException) -> UsageError:
    return UsageError(
        f"{what} cannot be sent to another process ({in_one_line(error)}): give a name, a file or"
        " module:attribute instead of an object, or use one device and engine in-process."
    )
