"""The engine for a Ray cluster: one actor per GPU, or several actors on CPUs.

Actors read images and write part files themselves; only tasks, items and counts go through Ray.
"""

import os
import queue
import socket
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from eyechart.core.devices import find_device, keep_freed_memory
from eyechart.core.errors import UsageError, install_hint
from eyechart.core.progress import Advance
from eyechart.models.model import in_one_line
from eyechart.predictions.compute_settings import ComputeSettings
from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import PredictionTask, WorkItem, predict_items
from eyechart.predictions.processes import new_writer
from eyechart.predictions.supervision import Event, EventKind, SentTask, send_task, supervise

ADDRESS_VARIABLE = "RAY_ADDRESS"
"""Environment variable with the address of the cluster; `ray job submit` sets it."""

REPORT_SECONDS = 0.5
"""Time that an actor waits for progress to report."""

LOST_SECONDS = 40.0
"""Time after which a cluster that does not answer counts as lost. After 60 s, Ray itself would end
this process without an exception.
"""

# ray has no types
Untyped = Any


class RayActors:
    """Runs items in actors of a Ray cluster."""

    def run(
        self,
        task: PredictionTask,
        items: Sequence[WorkItem],
        folder: Path,
        advance: Advance,
        settings: ComputeSettings,
    ) -> None:
        """Connect to the cluster, start the actors, let them run all items, and end them."""
        sent, device = send_task(task), task.device.type
        with _connected(settings.address) as ray:
            # On CPUs, actors use as many threads as one process would: the last bits of a network's
            # scores depend on it.
            n_threads = torch.get_num_threads()
            actors = _choose_actors(ray.cluster_resources(), device, settings.workers, n_threads)
            team = _RayTeam(ray, sent, actors, folder.resolve())
            supervise(team, task, items, folder, advance)


RAY_ENGINE = RayActors()


class ClusterLost(UsageError):
    """The error for a cluster whose head node is gone, which no call of Ray may be sent to."""


@dataclass(frozen=True)
class _Actors:
    """How many actors there are, and what each of them needs."""

    n_actors: int
    n_cpus: float
    n_gpus: int
    n_threads: int

    @property
    def device(self) -> str:
        # Ray shows an actor only the GPU that it reserved.
        return "cuda:0" if self.n_gpus else "cpu"


def _choose_actors(
    available: dict[str, float], device: str, workers: int | None, n_threads: int
) -> _Actors:
    """Return the actors for a cluster with these resources."""
    if device == "cuda":
        n_gpus = int(available.get("GPU", 0))
        if n_gpus < (workers or 1):
            raise UsageError(
                f"The Ray cluster must have a GPU for each of {workers or 1} workers, has {n_gpus}:"
                " use fewer --workers, or --device cpu."
            )
        return _Actors(workers or n_gpus, 1, 1, 1)
    n_cpus = available.get("CPU", 1)
    if workers is None and n_cpus >= n_threads:
        return _Actors(int(n_cpus) // n_threads, n_threads, 0, n_threads)
    n_actors = workers or 1
    # Ray takes fractions below 1; an actor that asks for more than there is would never start.
    return _Actors(n_actors, min(1, int(1000 * n_cpus / n_actors) / 1000), 0, n_threads)


@contextmanager
def _connected(address: str | None) -> Iterator[Untyped]:
    """Yield the module ray, connected to a cluster; start one on this machine without an address.

    A connection that the caller has made before is used, and kept.
    """
    try:
        ray: Untyped = import_module("ray")
    except ModuleNotFoundError:
        raise UsageError(f"Engine ray needs ray: {install_hint('ray')}.") from None
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get(ADDRESS_VARIABLE)
    # Only the driver's log is of interest; what fails in an actor is reported as an event.
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            ray.init(address=address, **options)
        else:
            ray.init(address="local", include_dashboard=False, **options)
    except Exception as error:
        where = f"to the Ray cluster at '{address}'" if address else "to a new Ray cluster"
        raise UsageError(
            f"Cannot connect {where}: {in_one_line(error)}; start one with  ray start --head, or"
            " omit --address to use this machine alone."
        ) from error
    try:
        yield ray
    except ClusterLost:
        raise  # Ray shuts down at exit, after the sentence: it waits for the cluster once more
    except BaseException:
        ray.shutdown()
        raise
    ray.shutdown()


class _Actor:
    """A worker in a Ray actor; `report` runs in a second thread while `run` computes."""

    def __init__(self, sent: SentTask, folder: Path, writer: int, actors: _Actors) -> None:
        # Nothing can fail here: Ray would only say that the actor died.
        self.sent, self.folder, self.writer, self.actors = sent, folder, writer, actors
        self.reports: queue.SimpleQueue[tuple[int, int, str]] = queue.SimpleQueue()
        self.task: PredictionTask | None = None

    def prepare(self) -> tuple[str, bool] | None:
        """Load the models; return why this failed, and whether that is a usage error."""
        try:
            # Ray allows as many threads as an actor reserves cores.
            torch.set_num_threads(self.actors.n_threads)
            keep_freed_memory()
            self.task = self.sent.receive(find_device(self.actors.device))
            if not self.folder.is_dir():
                raise UsageError(
                    f"{self.folder} must be on storage that all machines of the Ray cluster share."
                )
            self.parts = part_files(self.task, self.folder, self.writer)
            self.batch_size = self.task.first_batch_size
        except Exception as error:
            return _failure(error)
        return None

    def run(self, number: int, item: WorkItem) -> tuple[str, bool] | None:
        """Run an item; return why this failed, and whether that is a usage error."""
        assert self.task is not None

        def advance(n_samples: int, message: str) -> None:
            self.reports.put((number, n_samples, message))

        try:
            predict_items(self.task, [item], self.parts.write, advance, self.batch_size)
        except Exception as error:
            return _failure(error)
        return None

    def report(self) -> list[tuple[int, int, str]]:
        """Return the progress since the last call, or nothing after a while."""
        reports = []
        with suppress(queue.Empty):
            reports.append(self.reports.get(timeout=REPORT_SECONDS))
            while True:
                reports.append(self.reports.get_nowait())
        return reports


def _failure(error: Exception) -> tuple[str, bool]:
    is_usage = isinstance(error, UsageError)
    return (str(error) if is_usage else traceback.format_exc()), is_usage


@dataclass(frozen=True)
class _Call:
    """A call of an actor's method whose result is awaited; `item` is −1 except for `run`."""

    place: int
    method: str
    item: int = -1


class _RayTeam:
    """Actors, and their calls that have not returned yet."""

    def __init__(self, ray: Untyped, sent: SentTask, actors: _Actors, folder: Path) -> None:
        self.ray, self.actors, self.folder = ray, actors, folder
        self.n_places = actors.n_actors
        # Stored once, for all actors.
        self.sent = ray.put(sent)
        self.kind = ray.remote(_Actor).options(
            num_cpus=actors.n_cpus, num_gpus=actors.n_gpus, max_concurrency=2, max_restarts=0
        )
        self.members: dict[int, Untyped] = {}
        self.calls: dict[Untyped, _Call] = {}
        self.head = ray.get_runtime_context().gcs_address

    def start(self, place: int) -> None:
        self.members[place] = self.kind.remote(self.sent, self.folder, new_writer(), self.actors)
        self._call(_Call(place, "prepare"))

    def give(self, place: int, number: int, item: WorkItem) -> None:
        self._call(_Call(place, "run", number), number, item)
        if not any(call == _Call(place, "report") for call in self.calls.values()):
            self._call(_Call(place, "report"))

    def _call(self, call: _Call, *arguments: object) -> None:
        method = getattr(self.members[call.place], call.method)
        self.calls[method.remote(*arguments)] = call

    def events(self, seconds: float) -> list[Event]:
        if not self.calls:
            return []
        returned, _ = self.ray.wait(list(self.calls), num_returns=1, timeout=seconds)
        events: list[Event] = []
        for reference in returned:
            call = self.calls.pop(reference)
            try:
                events += self._events_of(call, self.ray.get(reference))
            except self.ray.exceptions.RayError as error:
                self._check_head()
                self._bury(call.place)
                text = f"of Ray was lost ({in_one_line(error)})"
                events.append(Event(kind=EventKind.DIED, place=call.place, text=text))
        return events

    def _events_of(self, call: _Call, result: Untyped) -> Iterator[Event]:
        place = call.place
        if call.method == "report":
            for item, n_samples, text in result:
                yield Event(
                    kind=EventKind.PROGRESS, place=place, item=item, n_samples=n_samples, text=text
                )
            # Asked again only while there is an item, so that an idle actor is left alone.
            if any(c.place == place and c.method == "run" for c in self.calls.values()):
                self._call(call)
        elif result is not None:
            text, is_usage = result
            yield Event(kind=EventKind.FAILED, place=place, text=text, is_usage=is_usage)
        elif call.method == "prepare":
            yield Event(kind=EventKind.READY, place=place)
        else:
            yield Event(kind=EventKind.FINISHED, place=place, item=call.item)

    def _check_head(self) -> None:
        """Raise an error if the head node, without which nothing can be started, is gone."""
        if not answers(self.head, LOST_SECONDS):
            self.members.clear()
            raise ClusterLost(
                f"The Ray cluster at {self.head} was lost; finished work is kept: start the cluster"
                " again and run the same command to resume."
            )

    def _bury(self, place: int) -> None:
        """Forget a lost actor and all its calls, which fail as well."""
        # An actor on an unreachable machine may still run.
        with suppress(Exception):
            self.ray.kill(self.members.pop(place))
        self.calls = {ref: call for ref, call in self.calls.items() if call.place != place}

    def stop(self, is_done: bool) -> None:
        # What is stored is complete, because files are written atomically.
        for place in list(self.members):
            self._bury(place)


def answers(address: str, seconds: float) -> bool:
    """Return whether anything accepts connections at HOST:PORT, now or within some time."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
                return True
        except OSError:
            if time.monotonic() > end:
                return False
        time.sleep(1)
