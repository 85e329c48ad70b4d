"""Formats of human data: every module here declares one, by its name, as the function `read`.

Nothing slow is imported here: the command line lists the formats.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from eyechart.core.registry import Registry

if TYPE_CHECKING:
    from eyechart.humans.human_responses import HumanResponses
    from eyechart.humans.import_settings import ImportSettings

Importer = Callable[[Sequence[Path], "ImportSettings"], "HumanResponses"]
"""Returns the responses in files of its format; the settings say what the files do not."""

FORMATS: Registry[Importer] = Registry("format")

# in the order of their file names, so that a new file is all that a new format takes
for _module in iter_modules(__path__):
    FORMATS.add_lazily(_module.name.replace("_", "-"), f"{__name__}.{_module.name}:read")
