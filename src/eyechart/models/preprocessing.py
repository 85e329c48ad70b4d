"""A model's preprocessing of 8-bit images: size, mean, standard deviation, channel order."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Channels = tuple[float, float, float]

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
ORDERS = ("rgb", "bgr")


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of a model; by default it only scales to 0…1, as for custom models."""

    side: int | None = None
    """Height and width to which images are resized, in px; None for no resizing."""
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    """Mean and standard deviation of red, green and blue, as fractions of full scale."""
    interpolation: str = "bicubic"
    """How images are resized, with antialiasing: one of `INTERPOLATIONS`."""
    channels: str = "rgb"
    """The order in which the model takes the channels: one of `ORDERS`."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return 8-bit images (B, 3, H, W) as the model's float32 input, (x/255 − mean)/std."""
        return self.on_unit(images.float() / 255)

    def on_unit(self, ready: Tensor) -> Tensor:
        """Return float images in 0…1 as the model's input."""
        if self.side is not None and ready.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            smooth = self.interpolation != "nearest"
            # torch's "nearest" has a known offset; "nearest-exact" agrees with Pillow.
            mode = self.interpolation if smooth else "nearest-exact"
            # Bicubic weights overshoot at edges; image files cannot contain these values.
            ready = interpolate(ready, size, mode=mode, antialias=smooth).clamp(0, 1)
        if self.mean != (0.0, 0.0, 0.0) or self.std != (1.0, 1.0, 1.0):
            ready = (ready - _as_tensor(self.mean, ready)) / _as_tensor(self.std, ready)
        return ready if self.channels == "rgb" else ready.flip(1)

    def __str__(self) -> str:
        size = "unchanged" if self.side is None else f"{self.side} px ({self.interpolation})"
        mean, std = _in_words(self.mean), _in_words(self.std)
        return f"side {size}, mean {mean}, std {std}, {self.channels.upper()}"


def _in_words(channels: Channels) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in channels)}]"


def _as_tensor(channels: Channels, like: Tensor) -> Tensor:
    # Filled on the device: copying three numbers from the host would synchronize a GPU.
    parts = [torch.full((1, 1, 1, 1), value, device=like.device) for value in channels]
    return torch.cat(parts, dim=1)
