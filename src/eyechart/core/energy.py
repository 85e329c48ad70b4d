"""Energy: counters of the processor and the GPU, energy from stated watts, and g CO2e.

Nothing is estimated: without a readable counter and without stated watts, energy is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from eyechart.core.errors import install_hint
from eyechart.core.records import Record

if TYPE_CHECKING:
    import torch

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


class Meter(Protocol):
    """Counts energy from the moment it was created."""

    source: str

    def joules(self) -> float:
        """Return the energy so far; must be called every few seconds, as counters overflow."""


class StatedWatts:
    """Energy of a stated constant power."""

    source = STATED

    def __init__(self, watts: float, clock: Clock = monotonic) -> None:
        self._watts, self._clock, self._start = watts, clock, clock()

    def joules(self) -> float:
        """Return the energy so far."""
        return self._watts * (self._clock() - self._start)


class RaplMeter:
    """Energy of the processor packages and their memory, from the counters of Linux.

    Raises:
        OSError: A counter does not exist or may not be read.
    """

    source = RAPL

    def __init__(self, folder: Path = POWERCAP) -> None:
        # Packages contain their cores. Memory is a separate zone. Not counted: psys, which contains
        # the packages, and intel-rapl-mmio, a second interface to the same counters.
        zones = [
            zone
            for zone in sorted(folder.glob("intel-rapl:*"))
            if (name := (zone / "name").read_text().strip()).startswith("package") or name == "dram"
        ]
        if not zones:
            raise FileNotFoundError(f"no package in {folder}")
        self._counters = [_RaplCounter(zone) for zone in zones]

    def joules(self) -> float:
        """Return the energy so far."""
        return sum(counter.joules() for counter in self._counters)


class _RaplCounter:
    """A counter of microjoules that starts again at 0 when it exceeds its range."""

    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._range = int((zone / "max_energy_range_uj").read_text())
        self._latest, self._sum = self._read(), 0

    def joules(self) -> float:
        now = self._read()
        # a smaller reading means one overflow; readings are frequent enough that there is only one
        self._sum += now - self._latest + (self._range if now < self._latest else 0)
        self._latest = now
        return self._sum / 1e6

    def _read(self) -> int:
        return int(self._file.read_text())


class NvmlMeter:
    """Energy of NVIDIA GPUs, from NVML (nvidia-ml-py).

    Older GPUs have no energy counter; their power is read instead and integrated over time.

    Args:
        nvml: The module `pynvml`, initialized.
        uuids: The ids of the GPUs, such as "GPU-…".
        clock: A function that returns the time in seconds.
    """

    source = NVML

    # `Any`: the module has no types.
    def __init__(self, nvml: Any, uuids: Sequence[str], clock: Clock = monotonic) -> None:
        handles = [nvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        self._counters = [_nvml_counter(nvml, handle, clock) for handle in handles]

    def joules(self) -> float:
        """Return the energy so far."""
        return sum(counter.joules() for counter in self._counters)


def _nvml_counter(nvml: Any, handle: Any, clock: Clock) -> "_NvmlCounter | _NvmlPower":
    try:
        return _NvmlCounter(nvml, handle)
    except nvml.NVMLError:
        # NVML has energy counters from Volta on; older GPUs report their power only
        return _NvmlPower(nvml, handle, clock)


class _NvmlCounter:
    """Millijoules since the driver was loaded."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._read, self._handle = nvml.nvmlDeviceGetTotalEnergyConsumption, handle
        self._start = self._read(handle)

    def joules(self) -> float:
        return float(self._read(self._handle) - self._start) / 1e3


class _NvmlPower:
    """Milliwatts, integrated by the trapezoidal rule."""

    def __init__(self, nvml: Any, handle: Any, clock: Clock) -> None:
        self._read, self._handle, self._clock = nvml.nvmlDeviceGetPowerUsage, handle, clock
        self._latest, self._sum = (clock(), float(self._read(handle))), 0.0

    def joules(self) -> float:
        (before, old), (now, new) = self._latest, (self._clock(), float(self._read(self._handle)))
        self._sum += (old + new) / 2 * (now - before) / 1e3
        self._latest = now, new
        return self._sum


@dataclass(frozen=True)
class Meters:
    """All meters of a machine.

    Attributes:
        meters: Meters that can be read.
        unmeasured: Parts of the machine whose energy is unknown, each with the reason.
    """

    meters: tuple[Meter, ...] = ()
    unmeasured: tuple[str, ...] = ()


def find_meters(
    devices: "Sequence[torch.device]", watts: float | None = None, powercap: Path = POWERCAP
) -> Meters:
    """Return meters of the processor and of these devices, and of stated watts for all the rest."""
    meters: list[Meter] = []
    unmeasured = []
    # a device that is listed twice has one counter
    gpus = [device for device in dict.fromkeys(devices) if device.type != "cpu"]
    if gpus:
        nvml, why = _nvml_meter(gpus)
        meters += [] if nvml is None else [nvml]
        unmeasured += [f"GPU ({why})"] if why else []
    try:
        meters.append(RaplMeter(powercap))
    except PermissionError:
        unmeasured.append("processor (its energy counters are readable only by root)")
    except (OSError, ValueError):
        unmeasured.append("processor (no energy counters)")
    if watts is not None:
        # Stated watts are the power of everything without a counter.
        meters.append(StatedWatts(watts))
        unmeasured = []
    return Meters(tuple(meters), tuple(unmeasured))


def _nvml_meter(devices: "Sequence[torch.device]") -> tuple[NvmlMeter | None, str]:
    """Return the meter of these GPUs, or None and the reason."""
    import torch  # slow to import, and settings read a constant of this module

    if any(device.type != "cuda" for device in devices):
        return None, "only GPUs of NVIDIA have energy counters here"
    try:
        import pynvml
    except ImportError:
        return None, install_hint("energy")
    try:
        pynvml.nvmlInit()
        # By id: CUDA_VISIBLE_DEVICES changes the numbers that torch uses.
        ids = [torch.cuda.get_device_properties(device).uuid for device in devices]
        return NvmlMeter(pynvml, [f"GPU-{identity}" for identity in ids]), ""
    except (pynvml.NVMLError, AttributeError) as error:
        return None, f"NVML: {error}"
