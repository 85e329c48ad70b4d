"""Time and energy of a run: each process that works on it is a session with a separate file.

Sessions can be added up: of a run that was resumed, of several processes, and of shards. Energy is
never estimated: without a readable counter and without stated watts it is unknown.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import install_hint
from eyechart.core.progress import Repeated
from eyechart.core.records import Record
from eyechart.core.storage.files import atomic_file

if TYPE_CHECKING:
    import torch

SESSIONS_FOLDER = "sessions"

READ_SECONDS = 1.0
"""Time between two readings of the meters: counters of the processor overflow within minutes, and
the power of GPUs without a counter is integrated."""

WRITE_SECONDS = 5.0
"""Time between two writes of the session's file: this much is lost if the process is killed."""

WORLD_AVERAGE = 458.0
"""Emissions per kWh of the world's electricity in 2025, in g CO2e."""

WORLD_AVERAGE_SOURCE = "world average of 2025, Ember, Global Electricity Review 2026"

NVML, RAPL, STATED = "nvml", "rapl", "stated"
"""Sources of energy: counters of NVIDIA GPUs, counters of the processor, and stated watts."""

POWERCAP = Path("/sys/class/powercap")
"""Folder in which Linux has the counters of the processor, also of AMD's."""

JOULES_PER_KWH = 3.6e6

Clock = Callable[[], float]
"""A function that returns the time in seconds, like `time.monotonic`."""


class Measured(Record):
    """Energy from one source."""

    joules: float
    """The energy."""
    seconds: float
    """The time over which it was counted."""

    def __add__(self, other: "Measured") -> "Measured":
        return Measured(joules=self.joules + other.joules, seconds=self.seconds + other.seconds)


class SourceEnergy(Record):
    """Energy from one source, as part of the energy of a run."""

    kwh: float
    """The energy in kWh."""
    seconds: float
    """The time over which it was counted; less than the run time if a counter was missing."""


class EnergyUse(Record):
    """Energy and emissions of a run."""

    kwh: float
    """Energy from all sources, in kWh."""
    co2e_g: float
    """Emissions in g CO2e: `kwh` times `carbon_intensity`."""
    carbon_intensity: float
    """Emissions per kWh, in g CO2e."""
    carbon_source: str
    """Where the carbon intensity comes from; "stated" if it was given with the run."""
    sources: Mapping[str, SourceEnergy]
    """Energy by source: "nvml" (counters of NVIDIA GPUs), "rapl" (counters of the processor and its
    memory), "stated" (stated watts times the run time)."""


def energy_use(
    by_source: Mapping[str, Measured], carbon_intensity: float = WORLD_AVERAGE
) -> EnergyUse | None:
    """Return the energy in kWh with its emissions; None without any source.

    kg CO2e = kW × hours × kg CO2e per kWh (VCR paper, appendix E.2).

    Example:
        >>> an_hour = {"stated": Measured(joules=250 * 3600, seconds=3600)}
        >>> use = energy_use(an_hour, carbon_intensity=25)
        >>> use.kwh, use.co2e_g
        (0.25, 6.25)
    """
    if not by_source:
        return None
    kwh = sum(measured.joules for measured in by_source.values()) / JOULES_PER_KWH
    return EnergyUse(
        kwh=kwh,
        co2e_g=kwh * carbon_intensity,
        carbon_intensity=carbon_intensity,
        carbon_source=WORLD_AVERAGE_SOURCE if carbon_intensity == WORLD_AVERAGE else "stated",
        sources={
            name: SourceEnergy(kwh=measured.joules / JOULES_PER_KWH, seconds=measured.seconds)
            for name, measured in by_source.items()
        },
    )


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
    with suppress(OSError, ValueError):
        return Cost.model_validate_json(file.read_text("utf-8"))
    return Cost()


class Meter:
    """Counts energy from one source, from the moment it was created.

    Args:
        source: One of the sources of energy.
        counters: Functions that return the joules of a part so far.
    """

    def __init__(self, source: str, counters: Sequence[Callable[[], float]]) -> None:
        self.source, self._counters = source, counters

    def joules(self) -> float:
        """Return the energy so far; must be called every few seconds, as counters overflow."""
        return sum(joules() for joules in self._counters)


def stated_watts(watts: float, clock: Clock = monotonic) -> Meter:
    """Return a meter for a stated constant power."""
    start = clock()
    return Meter(STATED, [lambda: watts * (clock() - start)])


def rapl_meter(folder: Path = POWERCAP) -> Meter:
    """Return a meter of the processor packages and their memory, from the counters of Linux.

    Raises:
        OSError: A counter does not exist or may not be read.
    """
    # Packages contain their cores. Memory is a separate zone. Not counted: psys, which contains
    # the packages, and intel-rapl-mmio, a second interface to the same counters.
    zones = [
        zone
        for zone in sorted(folder.glob("intel-rapl:*"))
        if (name := (zone / "name").read_text().strip()).startswith("package") or name == "dram"
    ]
    if not zones:
        raise FileNotFoundError(f"no package in {folder}")
    return Meter(RAPL, [_rapl_counter(zone) for zone in zones])


def _rapl_counter(zone: Path) -> Callable[[], float]:
    """Return the joules of a counter of microjoules, which starts again at 0 beyond its range."""
    file, limit = zone / "energy_uj", int((zone / "max_energy_range_uj").read_text())
    latest, total = int(file.read_text()), 0

    def joules() -> float:
        nonlocal latest, total
        now = int(file.read_text())
        # a smaller reading means one overflow; readings are frequent enough that there is only one
        total += now - latest + (limit if now < latest else 0)
        latest = now
        return total / 1e6

    return joules


# `Any`: the module has no types.
def nvml_meter(nvml: Any, uuids: Sequence[str], clock: Clock = monotonic) -> Meter:
    """Return a meter of NVIDIA GPUs, from NVML (nvidia-ml-py).

    Args:
        nvml: The module `pynvml`, initialized.
        uuids: The ids of the GPUs, such as "GPU-…".
        clock: A function that returns the time in seconds.
    """
    return Meter(NVML, [_nvml_counter(nvml, uuid, clock) for uuid in uuids])


def _nvml_counter(nvml: Any, uuid: str, clock: Clock) -> Callable[[], float]:
    """Return the joules of a GPU: from its counter of millijoules, or integrated from its power."""
    handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    with suppress(nvml.NVMLError):
        # since the driver was loaded
        start = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        return lambda: float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - start) / 1e3
    # NVML has energy counters from Volta on; older GPUs report only their power, in milliwatts,
    # which is integrated by the trapezoidal rule
    before, old, total = clock(), float(nvml.nvmlDeviceGetPowerUsage(handle)), 0.0

    def joules() -> float:
        nonlocal before, old, total
        now, new = clock(), float(nvml.nvmlDeviceGetPowerUsage(handle))
        total += (old + new) / 2 * (now - before) / 1e3
        before, old = now, new
        return total

    return joules


def find_meters(
    devices: "Sequence[torch.device]", watts: float | None = None, powercap: Path = POWERCAP
) -> tuple[list[Meter], list[str]]:
    """Return meters of the processor and of these devices, and of stated watts for all the rest.

    Also returned: the parts of the machine whose energy is unknown, each with the reason.
    """
    meters: list[Meter] = []
    unmeasured = []
    # a device that is listed twice has one counter
    gpus = [device for device in dict.fromkeys(devices) if device.type != "cpu"]
    if gpus:
        try:
            meters.append(_nvml_meter(gpus))
        except OSError as error:
            unmeasured.append(f"GPU ({error})")
    try:
        meters.append(rapl_meter(powercap))
    except PermissionError:
        unmeasured.append("processor (its energy counters are readable only by root)")
    except (OSError, ValueError):
        unmeasured.append("processor (no energy counters)")
    if watts is not None:
        # Stated watts are the power of everything without a counter.
        meters.append(stated_watts(watts))
        unmeasured = []
    return meters, unmeasured


def _nvml_meter(devices: "Sequence[torch.device]") -> Meter:
    """Return the meter of these GPUs; raise an OSError with the reason if there is none."""
    import torch  # slow to import, and settings read a constant of this module

    if any(device.type != "cuda" for device in devices):
        raise OSError("only GPUs of NVIDIA have energy counters here")
    try:
        import pynvml

        pynvml.nvmlInit()
        # By id: CUDA_VISIBLE_DEVICES changes the numbers that torch uses.
        ids = [torch.cuda.get_device_properties(device).uuid for device in devices]
        return nvml_meter(pynvml, [f"GPU-{identity}" for identity in ids])
    except ImportError:
        raise OSError(install_hint("energy")) from None
    except (pynvml.NVMLError, AttributeError) as error:
        raise OSError(f"NVML: {error}") from None


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
        self._meters: Sequence[Meter] = ()
        self._unmeasured: tuple[str, ...] = ()
        self._start = clock()
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

    def measure(self, meters: Sequence[Meter], unmeasured: Sequence[str] = ()) -> None:
        """From now on, measure energy with these meters; see `find_meters`."""
        with self._lock:
            # under the lock, so that no reading pairs new meters with the old start
            self._meters, self._unmeasured = meters, tuple(unmeasured)
            self._start = self._clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time within this context to a stage; stages are not nested."""
        with self._lock:
            self._stage = name, self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._seconds = self._seconds_so_far()
                self._stage = None

    def keep_in(self, folder: Path) -> None:
        """From now on, keep the cost of the session in this run folder."""
        sessions = folder / SESSIONS_FOLDER
        sessions.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            file = sessions / f"{number:04d}.json"
            with suppress(FileExistsError):
                # Fails if the file exists, so that no two processes have the same number.
                file.touch(exist_ok=False)
                break
        self._file = file
        self.write()

    def cost(self) -> Cost:
        """Return the cost so far."""
        with self._lock:
            self._read_meters()
            seconds, energy = self._seconds_so_far(), dict(self._energy)
            return Cost(seconds=seconds, energy=energy, unmeasured=self._unmeasured)

    def write(self) -> None:
        """Write the cost so far to the session's file, if there is one."""
        if self._file is None:
            return
        # A full disk is reported where the results are written, not here.
        with suppress(OSError), atomic_file(self._file) as temporary:
            temporary.write_text(self.cost().model_dump_json(indent=1) + "\n", encoding="utf-8")

    def _seconds_so_far(self) -> dict[str, float]:
        if self._stage is None:
            return dict(self._seconds)
        name, begun = self._stage
        return {**self._seconds, name: self._seconds.get(name, 0.0) + self._clock() - begun}

    def _read_meters(self) -> None:
        for meter in self._meters:
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
