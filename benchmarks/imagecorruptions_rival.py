"""The rival in the corruption benchmark: the `imagecorruptions` package, installed or cloned."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.errors import UsageError

PACKAGE = "imagecorruptions"


@dataclass(frozen=True)
class Rival:
    """A rival package: the names of its corruptions, and its function that corrupts an image."""

    names: frozenset[str]
    function: Callable[..., Any]
    version: str

    def corrupt(self, image: NDArray[np.uint8], name: str, severity: int) -> None:
        """Corrupt one uint8 (H, W, 3) image at a published level."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.function(image, corruption_name=name, severity=severity)

    @staticmethod
    def failure(call: Callable[[], None]) -> str:
        """Return "crashes: …" if the rival's code raises an exception, else ""."""
        try:
            call()
        except Exception as error:  # a third-party package may raise anything
            return f"crashes: {type(error).__name__}: {' '.join(str(error).split())}"
        return ""


def load_rival(path: Path | None) -> Rival | None:
    """Return the rival from a checkout's root or a site-packages folder, or the installed one.

    Return None if no path is given and the package is not installed. Its dependencies are imported
    from this environment first.
    """
    if path is not None:
        if not (path / PACKAGE).is_dir():
            raise UsageError(f"No {PACKAGE} in {path}: give --rival the folder that contains it.")
        sys.path.append(str(path.resolve()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            package = import_module(PACKAGE)
            names = frozenset(package.get_corruption_names("all"))
    except ModuleNotFoundError as error:
        if path is None and error.name == PACKAGE:
            return None
        fix = "'setuptools<81'" if error.name == "pkg_resources" else error.name
        raise UsageError(
            f"{PACKAGE} cannot be imported because {error.name} is missing: pip install {fix}."
        ) from None
    except Exception as error:  # it fails in many ways on current NumPy
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{PACKAGE} cannot be imported ({what}).") from None
    return Rival(names, package.corrupt, str(getattr(package, "__version__", "unknown")))
