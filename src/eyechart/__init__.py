"""An eye chart for vision models: how well does a model see as an image degrades?

The public names below are loaded when they are first used, so that importing the package is quick
and has no side effects.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import UsageError
from eyechart.core.version import __version__

if TYPE_CHECKING:
    from eyechart.suites.apply import corrupt
    from eyechart.suites.catalogue import describe_corruption, list_corruptions

__all__ = [
    "UsageError",
    "__version__",
    "corrupt",
    "describe_corruption",
    "list_corruptions",
]

_HOMES = {
    "corrupt": "eyechart.suites.apply",
    "describe_corruption": "eyechart.suites.catalogue",
    "list_corruptions": "eyechart.suites.catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eyechart' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
