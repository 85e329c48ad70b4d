"""What made a result: the versions of everything that has a say in the pixels."""

from importlib.metadata import PackageNotFoundError, version

from eyechart.core.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "pillow", "opencv-python-headless")


def versions() -> dict[str, str]:
    """Return the versions of eyechart and of the packages it computes with."""
    found = {"eyechart": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
