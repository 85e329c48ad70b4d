"""The engines by name, and the settings of where and how predictions are computed.

These settings do not change results. To add an engine, write its module and add one line here.
Nothing slow is imported, because the command line is built from these records.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from eyechart.core.arguments import as_int, as_text, as_within
from eyechart.core.cost import WORLD_AVERAGE, WORLD_AVERAGE_SOURCE
from eyechart.core.errors import UsageError
from eyechart.core.options import Option, ShardOption
from eyechart.core.registry import Registry, one_of, unknown_name

if TYPE_CHECKING:
    from eyechart.predictions.engine import Engine

IN_PROCESS, PROCESSES, RAY = "in-process", "processes", "ray"


ENGINES: "Registry[Engine]" = Registry("engine")
ENGINES.add_lazily(IN_PROCESS, "eyechart.predictions.engine:IN_PROCESS_ENGINE")
ENGINES.add_lazily(PROCESSES, "eyechart.predictions.processes:PROCESSES_ENGINE")
ENGINES.add_lazily(RAY, "eyechart.predictions.ray_actors:RAY_ENGINE")

MAX_BATCH = 100_000
"""Maximum batch size."""

MAX_WORKERS = 10_000
"""Maximum number of workers."""


@dataclass(frozen=True, kw_only=True)
class ComputeSettings:
    """Options of devices, engines, energy and shards."""

    batch_size: Annotated[int | None, Option(help="Batch size.", group="Compute")] = None
    device: Annotated[
        str,
        Option(
            help="Device: cpu, cuda, cuda:all, mps or auto.",
            group="Compute",
            python="Also a list such as cuda:0,cuda:1; several devices work in parallel.",
        ),
    ] = "cpu"
    engine: Annotated[
        str | None,
        Option(
            help=f"Engine that computes predictions: {one_of(ENGINES)}; {PROCESSES} if there are"
            f" several devices, otherwise {IN_PROCESS}.",
            group="Compute",
            is_advanced=True,
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(
            help=f"Number of workers of the engines {PROCESSES} and {RAY}; one per device if"
            f" omitted; for {RAY} on CPUs, the cluster's cores divided by torch's threads.",
            group="Compute",
            is_advanced=True,
        ),
    ] = None
    address: Annotated[
        str | None,
        Option(
            help=f"Ray cluster of the engine {RAY}: auto or HOST:PORT; a new one on this machine"
            " if omitted.",
            group="Compute",
            metavar="ADDRESS",
            is_advanced=True,
        ),
    ] = None
    watts: Annotated[
        float | None,
        Option(
            help="Power in W of all parts of the machine without a readable energy counter.",
            group="Compute",
            metavar="NUMBER",
            is_advanced=True,
        ),
    ] = None
    carbon_intensity: Annotated[
        float,
        Option(
            help=f"Emissions of the electricity in g CO2e per kWh ({WORLD_AVERAGE_SOURCE}).",
            group="Compute",
            metavar="NUMBER",
            is_advanced=True,
        ),
    ] = WORLD_AVERAGE
    shard: ShardOption = None

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices."""
        # here rather than at the top, because `devices` imports torch, which is slow
        from eyechart.core.devices import split_devices

        return split_devices(self.device)

    @property
    def engine_name(self) -> str:
        """The engine that is used."""
        has_several = len(self.devices) > 1
        return self.engine or (PROCESSES if has_several else IN_PROCESS)

    def check_compute(self) -> None:
        """Raise a UsageError if a setting is invalid, or the engine cannot use it."""
        if self.batch_size is not None:
            as_int(self.batch_size, "batch_size", 1, MAX_BATCH)
        if self.watts is not None:
            as_within(self.watts, "watts", 0, 1e7)
        as_within(self.carbon_intensity, "carbon_intensity", 0, 1e4)
        if self.engine is not None and as_text(self.engine, "engine") not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        if self.workers is not None:
            as_int(self.workers, "workers", 1, MAX_WORKERS)
        if self.address is not None and as_text(self.address, "address") and self.engine != RAY:
            raise UsageError(f"address is for --engine {RAY}, got --engine {self.engine_name}.")
        n_devices = len(self.devices)
        if self.engine_name == IN_PROCESS and (self.workers or n_devices) > 1:
            raise UsageError(
                f"Engine {IN_PROCESS} has one worker, got {self.workers or n_devices}: use --engine"
                f" {PROCESSES} or {RAY}."
            )
        if n_devices > 1 and self.engine == RAY:
            raise UsageError(
                f"Engine {RAY} selects devices itself, got '{self.device}': give --device cuda or"
                " cpu."
            )
        if n_devices > 1 and self.workers not in (None, n_devices):
            raise UsageError(
                f"There is one worker per device, got {n_devices} devices and {self.workers}"
                " workers: omit --workers."
            )
