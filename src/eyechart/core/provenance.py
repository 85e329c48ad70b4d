"""What made a result: the versions of everything that has a say in the pixels."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from eyechart.core.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "pillow", "opencv-python-headless", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of eyechart and of the packages it computes with."""
    by_package = {"eyechart": __version__}
    for package in PACKAGES:
        try:
            by_package[package] = version(package)
        except PackageNotFoundError:
            by_package[package] = "unknown"
    return by_package


@cache
def git_hash() -> str | None:
    """Return the commit of the source tree that runs, "+" behind it if it was changed since.

    None where the package was installed without its history.
    """
    folder = Path(__file__).resolve().parent
    try:
        # a user's own repository around an installed package is not meant
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
