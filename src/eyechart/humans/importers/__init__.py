"""Formats of human data; each module is named after its format and has a function `read`.

This package imports nothing slow, because the command line lists the formats.
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
"""Function that returns the responses in files; the settings supply values that the files lack."""

FORMATS: Registry[Importer] = Registry("format")

# In order of file names, so that a new format needs no entry in a list.
for _module in iter_modules(__path__):
    FORMATS.add_lazily(_module.name.replace("_", "-"), f"{__name__}.{_module.name}:read")
