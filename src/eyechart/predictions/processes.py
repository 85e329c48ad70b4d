"""The engine for several devices of one machine: one process per device."""

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch

from eyechart.core.devices import find_device, keep_freed_memory
from eyechart.core.errors import UsageError
from eyechart.core.process import stop_on_termination
from eyechart.core.progress import Advance
from eyechart.predictions.compute_settings import ComputeSettings
from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import PredictionTask, WorkItem, predict_items
from eyechart.predictions.supervision import Event, EventKind, SentTask, send_task, supervise
from eyechart.predictions.worker_process import run_worker

STOP_SECONDS = 10.0
"""Time that workers get to store what they have computed."""

Pipe = connection.Connection


class Processes:
    """Runs items in one process per device of this machine."""

    def run(
        self,
        task: PredictionTask,
        items: Sequence[WorkItem],
        folder: Path,
        advance: Advance,
        settings: ComputeSettings,
    ) -> None:
        """Start the processes, let them run all items, and end them."""
        devices = settings.devices
        if settings.workers is not None and len(devices) == 1:
            devices *= settings.workers
        team = _ProcessTeam(send_task(task), devices, folder)
        supervise(team, task, items, folder, advance)


PROCESSES_ENGINE = Processes()


def new_writer() -> int:
    """Return a number that no other writer has, not even an orphan of a killed run."""
    return 1 + int.from_bytes(os.urandom(4), "big")


@dataclass(frozen=True)
class _Order:
    """What a new process needs to start."""

    sent: SentTask
    folder: Path
    device: str
    n_threads: int
    writer: int


@dataclass(frozen=True, eq=False)
class _Member:
    process: SpawnProcess
    pipe: "Pipe[Any, Any]"


class _ProcessTeam:
    """Processes with a pipe each.

    No queue is shared: a process that is killed while it holds a queue's lock blocks all others.
    """

    def __init__(self, sent: SentTask, devices: Sequence[str], folder: Path) -> None:
        self.n_places = len(devices)
        self.sent, self.devices, self.folder = sent, devices, folder
        # Also where processes share a CPU: the last bits of a network's scores depend on it.
        self.n_threads = torch.get_num_threads()
        self.members: dict[int, _Member] = {}

    def start(self, place: int) -> None:
        device = self.devices[place]
        order = _Order(self.sent, self.folder, device, self.n_threads, new_writer())
        context = get_context("spawn")
        pipe, far_end = context.Pipe()
        # As bytes, because reading the order imports torch.
        given = (far_end, pickle.dumps(order))
        process = context.Process(target=run_worker, args=given, name=f"eyechart {device}")
        # Ctrl-C goes to every process of a terminal; here it is handled by the driver alone.
        with _ignored_interrupts():
            process.start()
        # Without this end in the driver, a dead worker's pipe ends.
        far_end.close()
        self.members[place] = _Member(process, pipe)

    def give(self, place: int, number: int, item: WorkItem) -> None:
        # A worker that is dead already is reported by `events`.
        with suppress(OSError):
            self.members[place].pipe.send((number, item))

    def events(self, seconds: float) -> list[Event]:
        places = {member.pipe: place for place, member in self.members.items()}
        events = []
        for pipe in connection.wait(list(places), seconds):
            assert isinstance(pipe, connection.Connection)
            place = places[pipe]
            try:
                kind, details = pipe.recv()
                events.append(Event(kind=EventKind[kind], place=place, **details))
            # Also unpickling errors: a process may be killed while it writes.
            except (EOFError, OSError):
                events.append(Event(kind=EventKind.DIED, place=place, text=self._bury(place)))
        return events

    def _bury(self, place: int) -> str:
        """Forget a dead worker and return how it died, as part of a sentence."""
        member = self.members.pop(place)
        member.pipe.close()
        member.process.join(STOP_SECONDS)
        status = member.process.exitcode
        # A process may close its pipe and hang.
        member.process.kill()
        where = f"on {self.devices[place]} "
        if status is not None and status < 0:
            return f"{where}was killed by signal {-status}"
        return f"{where}ended with exit status {status}"

    def stop(self, is_done: bool) -> None:
        for member in self.members.values():
            # An idle worker ends when its pipe does; a busy one must be interrupted.
            member.pipe.close()
            if not is_done:
                member.process.terminate()
        for member in self.members.values():
            member.process.join(STOP_SECONDS)
            member.process.kill()
            member.process.join()
        self.members.clear()


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C from their first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def work(pipe: "Pipe[Any, Any]", order: bytes) -> None:
    """Run items in a worker process until the pipe ends."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop_on_termination()
        _run_items(pipe, pickle.loads(order))
    # The driver has ended the pipe, or the process.
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass
    except UsageError as error:
        _tell(pipe, EventKind.FAILED, text=str(error), is_usage=True)
    except Exception:
        _tell(pipe, EventKind.FAILED, text=traceback.format_exc())


def _run_items(pipe: "Pipe[Any, Any]", order: _Order) -> None:
    torch.set_num_threads(order.n_threads)
    keep_freed_memory()
    task = order.sent.receive(find_device(order.device))
    parts = part_files(task, order.folder, order.writer)
    batch_size = task.first_batch_size
    _tell(pipe, EventKind.READY)
    while True:
        number, item = pipe.recv()

        def advance(n_samples: int, message: str, number: int = number) -> None:
            _tell(pipe, EventKind.PROGRESS, item=number, n_samples=n_samples, text=message)

        predict_items(task, [item], parts.write, advance, batch_size)
        _tell(pipe, EventKind.FINISHED, item=number)


def _tell(pipe: "Pipe[Any, Any]", kind: EventKind, **details: object) -> None:
    pipe.send((kind.name, details))
