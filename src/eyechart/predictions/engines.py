"""The engines by name. A new engine is its module and one line here."""

from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    # the command line lists the engines, and does not wait for torch
    from eyechart.predictions.engine import Engine

IN_PROCESS = "in-process"

ENGINES: "Registry[Engine]" = Registry("engine")
ENGINES.add_lazily(IN_PROCESS, "eyechart.predictions.engine:IN_PROCESS_ENGINE")
