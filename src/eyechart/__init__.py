"""An eye chart for vision models: how well does a model see as an image degrades?

The public names are declared in `__init__.pyi`, which type checkers and this module read. Each name
is imported on first use, so that importing the package is fast and has no side effects.
"""

import re
from importlib import import_module

# the stub __init__.pyi is in the same folder
with open(f"{__file__}i", encoding="utf-8") as _stub:
    _LINES = re.findall(r"from ([\w.]+) import \(?\s*(\w+) as", _stub.read())
_HOMES = {name: module for module, name in _LINES}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'eyechart' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    # cached, so that the next access does not call this function
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
