"""The engines by name. To add an engine, write its module and add one line here."""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    # The command line lists the engines without importing torch.
    from eyechart.predictions.engine import Engine

IN_PROCESS = "in-process"

ENGINES: "Registry[Engine]" = Registry("engine")
ENGINES.add_lazily(IN_PROCESS, "eyechart.predictions.engine:IN_PROCESS_ENGINE")
