"""What a model wants done to an 8-bit picture first: size, mean, deviation, order of channels."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Channels = tuple[float, float, float]

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
ORDERS = ("rgb", "bgr")


@dataclass(frozen=True)
class Preprocessing:
    """By default nothing but the step to 0…1: a model of the user's does the rest itself."""

    side: int | None = None
    """To what height and width pictures are resized, in pixels; None: as they come."""
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    """Both of red, green and blue, as fractions of full scale."""
    interpolation: str = "bicubic"
    """How pictures are resized, with antialiasing: one of `INTERPOLATIONS`."""
    channels: str = "rgb"
    """In which order the model takes the channels: one of `ORDERS`."""

    def __call__(self, pictures: Tensor) -> Tensor:
        """Return 8-bit pictures (B, 3, H, W) as the model's float32 input, (x/255 − mean)/std."""
        return self.on_unit(pictures.float() / 255)

    def on_unit(self, ready: Tensor) -> Tensor:
        """Return float pictures in 0…1 as the model's input."""
        if self.side is not None and ready.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            smooth = self.interpolation != "nearest"
            mode = self.interpolation if smooth else "nearest-exact"
            # Bicubic weights overshoot at edges; a picture file could not hold such values.
            ready = interpolate(ready, size, mode=mode, antialias=smooth).clamp(0, 1)
        if self.mean != (0.0, 0.0, 0.0) or self.std != (1.0, 1.0, 1.0):
            ready = (ready - _as_tensor(self.mean, ready)) / _as_tensor(self.std, ready)
        return ready if self.channels == "rgb" else ready.flip(1)

    def __str__(self) -> str:
        size = "as it comes" if self.side is None else f"{self.side} px ({self.interpolation})"
        mean, std = _in_words(self.mean), _in_words(self.std)
        return f"side {size}, mean {mean}, std {std}, {self.channels.upper()}"


def _in_words(channels: Channels) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in channels)}]"


def _as_tensor(channels: Channels, like: Tensor) -> Tensor:
    # Filled on the device: copying three numbers from the host would make a GPU wait.
    parts = [torch.full((1, 1, 1, 1), value, device=like.device) for value in channels]
    return torch.cat(parts, dim=1)
