"""Time and energy of a run: each process that works on it is a session with a separate file.

Sessions can be added up: of a run that was resumed, of several processes, and of shards.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType

from eyechart.core.energy import Clock, Measured, Meters
from eyechart.core.errors import UsageError
from eyechart.core.progress import Repeated
from eyechart.core.records import Record
from eyechart.core.storage.files import atomic_file

SESSIONS_FOLDER = "sessions"

READ_SECONDS = 1.0
"""Time between two readings of the meters: counters of the processor overflow within minutes, and
the power of GPUs without a counter is integrated."""

WRITE_SECONDS = 5.0
"""Time between two writes of the session's file: this much is lost if the process is killed."""


class Cost(Record):
    """Time and energy of one session, or of several together."""

    n_sessions: int = 1
    """Number of sessions."""
    seconds: Mapping[str, float] = {}
    """Wall time by stage."""
    energy: Mapping[str, Measured] = {}
    """Energy by source."""
    unmeasured: tuple[str, ...] = ()
    """Parts of the machine whose energy is unknown, each with the reason."""


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the sum of several costs; stages and sources are in the order of their first use.

    Example:
        >>> total = total_cost([Cost(seconds={"scoring": 2.0}), Cost(seconds={"scoring": 1.0})])
        >>> total.n_sessions, dict(total.seconds)
        (2, {'scoring': 3.0})
    """
    n_sessions = 0
    seconds: dict[str, float] = {}
    energy: dict[str, Measured] = {}
    # a dict rather than a set, because it keeps the order of first use
    unmeasured: dict[str, None] = {}
    for cost in costs:
        n_sessions += cost.n_sessions
        for stage, spent in cost.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
        for source, measured in cost.energy.items():
            energy[source] = energy[source] + measured if source in energy else measured
        unmeasured |= dict.fromkeys(cost.unmeasured)
    return Cost(n_sessions=n_sessions, seconds=seconds, energy=energy, unmeasured=tuple(unmeasured))


def kept_cost(folder: Path) -> Cost:
    """Return the cost of all sessions that worked in a run folder."""
    return total_cost(map(_read, sorted((folder / SESSIONS_FOLDER).glob("*.json"))))


def _read(file: Path) -> Cost:
    """Return the cost in a session's file; no cost if the session ended before it was written."""
    with suppress(OSError, ValueError, UsageError):
        return Cost.from_plain(json.loads(file.read_text("utf-8")))
    return Cost()


class Session:
    """Measures the stages of a run in this process, and the energy while it is open.

    Example:
        >>> with Session() as session:
        ...     with session.stage("predictions"):
        ...         pass
        >>> list(session.cost().seconds)
        ['predictions']
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._meters, self._start = Meters(), clock()
        self._seconds: dict[str, float] = {}
        self._stage: tuple[str, float] | None = None
        self._energy: dict[str, Measured] = {}
        self._file: Path | None = None
        # The thread reads while stages begin and end.
        self._lock = threading.Lock()
        self._written = clock()
        self._measuring = Repeated(self._measure, READ_SECONDS)

    def __enter__(self) -> "Session":
        self._measuring.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # the thread ends first, so that two threads never write the file at once
        self._measuring.stop()
        self.write()

    def measure(self, meters: Meters) -> None:
        """From now on, measure energy with these meters."""
        with self._lock:
            # under the lock, so that no reading pairs new meters with the old start
            self._meters, self._start = meters, self._clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time within this context to a stage; stages are not nested."""
        with self._lock:
            self._stage = name, self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] = self._seconds_of(name)
                self._stage = None

    def keep_in(self, folder: Path) -> None:
        """From now on, keep the cost of the session in this run folder."""
        sessions = folder / SESSIONS_FOLDER
        sessions.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            try:
                # Fails if the file exists, so that no two processes have the same number.
                (sessions / f"{number:04d}.json").touch(exist_ok=False)
                break
            except FileExistsError:
                number += 1
        self._file = sessions / f"{number:04d}.json"
        self.write()

    def cost(self) -> Cost:
        """Return the cost so far."""
        with self._lock:
            self._read_meters()
            seconds = dict(self._seconds)
            if self._stage is not None:
                seconds[self._stage[0]] = self._seconds_of(self._stage[0])
            return Cost(
                seconds=seconds, energy=dict(self._energy), unmeasured=self._meters.unmeasured
            )

    def write(self) -> None:
        """Write the cost so far to the session's file, if there is one."""
        if self._file is None:
            return
        # A full disk is reported where the results are written, not here.
        with suppress(OSError), atomic_file(self._file) as temporary:
            temporary.write_text(self.cost().model_dump_json(indent=1) + "\n", encoding="utf-8")

    def _seconds_of(self, name: str) -> float:
        begun = self._clock() if self._stage is None else self._stage[1]
        return self._seconds.get(name, 0.0) + self._clock() - begun

    def _read_meters(self) -> None:
        for meter in self._meters.meters:
            # A counter that fails is not counted any further, which its time shows.
            with suppress(Exception):
                joules = meter.joules()
                seconds = self._clock() - self._start
                self._energy[meter.source] = Measured(joules=joules, seconds=seconds)

    def _measure(self) -> None:
        with self._lock:
            self._read_meters()
        # outside the lock, which `write` takes again and which is not reentrant
        if self._clock() - self._written >= WRITE_SECONDS:
            self.write()
            self._written = self._clock()
