"""The version of eyechart, and of all software that can influence pixels."""

import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__version__ = "0.1.0"


PACKAGES = ("torch", "numpy", "scipy", "pillow", "opencv-python-headless", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of eyechart and of the packages it computes with."""
    by_package = {"eyechart": __version__, **dict.fromkeys(PACKAGES, "unknown")}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


@cache
def git_hash() -> str | None:
    """Return the commit of the source tree, followed by "+" if files of the package have changed.

    Return None if the package was installed without its git history.
    """
    file = Path(__file__).resolve()
    package = file.parents[1]
    try:
        # an installed package may be inside an unrelated repository of the user
        _git(package, "ls-files", "--error-unmatch", str(file.relative_to(package)))
        commit = _git(package, "rev-parse", "HEAD")
        return commit + ("+" if _git(package, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
