"""The engines by name. To add an engine, write its module and add one line here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    # The command line lists the engines without importing torch.
    from eyechart.predictions.engine import Engine

IN_PROCESS, PROCESSES, RAY = "in-process", "processes", "ray"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What an engine may use.

    Attributes:
        devices: Names of the devices; the device of the task if there are none.
        workers: Number of workers; None for one per device, or as many as the engine finds useful.
        address: Address of a cluster; None to start one on this machine.
    """

    devices: tuple[str, ...] = ()
    workers: int | None = None
    address: str | None = None


ENGINES: "Registry[Engine]" = Registry("engine")
ENGINES.add_lazily(IN_PROCESS, "eyechart.predictions.engine:IN_PROCESS_ENGINE")
ENGINES.add_lazily(PROCESSES, "eyechart.predictions.processes:PROCESSES_ENGINE")
ENGINES.add_lazily(RAY, "eyechart.predictions.ray_actors:RAY_ENGINE")
