"""Read and write float32 tensors in the safetensors format, which contains nothing but numbers.

A file is the length of its header (8 bytes), the header (JSON: the type, shape and place of each
tensor) and the numbers. The same tensors give the same bytes, so that a file has one digest.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import regular_file

LENGTH = 8
"""Number of bytes in which the length of the header is stored."""


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
    return len(text).to_bytes(LENGTH, "little") + text + numbers


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Return the float32 tensors of a file that `safetensors_bytes` wrote."""
    data = regular_file(path).read_bytes()
    start = LENGTH + int.from_bytes(data[:LENGTH], "little")
    header = json.loads(data[LENGTH:start])
    tensors = {}
    for name, entry in header.items():
        count = math.prod(entry["shape"])
        values = np.frombuffer(data, "<f4", count, start + entry["data_offsets"][0])
        # a copy, because torch warns about memory that cannot be written
        tensors[name] = torch.from_numpy(values.astype(np.float32)).reshape(entry["shape"])
    return tensors
