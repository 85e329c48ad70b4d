"""What a model wants done to an 8-bit picture first: size, mean and standard deviation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.nn.functional import interpolate

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Preprocessing:
    """By default nothing but the step to 0…1: a model of the user's does the rest itself."""

    side: int | None = None
    """To what height and width pictures are resized, in pixels; None: as they come."""
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    """Both of red, green and blue, as fractions of full scale."""

    def __call__(self, pictures: Tensor) -> Tensor:
        """Return 8-bit pictures (B, 3, H, W) as the model's float32 input, (x/255 − mean)/std."""
        ready = pictures.float() / 255
        if self.side is not None and ready.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            # Bicubic weights overshoot at edges; a picture file could not hold such values.
            ready = interpolate(ready, size, mode="bicubic", antialias=True).clamp(0, 1)
        if self.mean != (0.0, 0.0, 0.0) or self.std != (1.0, 1.0, 1.0):
            ready = (ready - _as_tensor(self.mean, ready)) / _as_tensor(self.std, ready)
        return ready


def read_sidecar(path: Path) -> Preprocessing:
    """Return what a YAML file with any of `side`, `mean` and `std` says."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{path} is not well-formed YAML: {what}.") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path} must hold any of side, mean and std, got {data!r}.")
    for key in data:
        if key not in ("side", "mean", "std"):
            raise unknown_name(f"entry in {path}", str(key), ("side", "mean", "std"))
    found: dict[str, Any] = {}
    if "side" in data:
        found["side"] = _side(data["side"], path)
    for key in ("mean", "std"):
        if key in data:
            found[key] = _channels(data[key], key, path)
    return Preprocessing(**found)


def _side(value: object, path: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 8192:
        raise UsageError(f"side in {path} must be a whole number of pixels, got {value!r}.")
    return value


def _channels(value: object, key: str, path: Path) -> Channels:
    least = "numbers above 0 and at most 1" if key == "std" else "numbers from 0 to 1"
    numbers = value if isinstance(value, list) else []
    right = [
        isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1
        for number in numbers
    ]
    if len(right) != 3 or not all(right) or (key == "std" and 0 in numbers):
        raise UsageError(
            f"{key} in {path} must be three {least} (red, green, blue, as fractions of full scale),"
            f" got {value!r}."
        )
    return (float(numbers[0]), float(numbers[1]), float(numbers[2]))


def _as_tensor(channels: Channels, like: Tensor) -> Tensor:
    # Filled on the device: copying three numbers from the host would make a GPU wait.
    parts = [torch.full((1, 1, 1, 1), value, device=like.device) for value in channels]
    return torch.cat(parts, dim=1)
