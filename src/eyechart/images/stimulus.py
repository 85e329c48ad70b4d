"""The stimulus: what people and models look at, made from a picture file once."""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name


@dataclass(frozen=True)
class Stimulus:
    """How a picture is brought to size: shorter side to `resize`, then the middle `crop`, in px."""

    name: str
    resize: int | None
    crop: int | None

    def __call__(self, picture: Image.Image) -> Tensor:
        """Return the picture as uint8 (3, H, W)."""
        colour = picture.convert("RGB")
        if self.resize is not None and self.crop is not None:
            share = self.resize / min(colour.size)
            width, height = (max(self.crop, round(side * share)) for side in colour.size)
            colour = colour.resize((width, height), Image.Resampling.BILINEAR)
            left, top = (width - self.crop) // 2, (height - self.crop) // 2
            colour = colour.crop((left, top, left + self.crop, top + self.crop))
        levels = np.ascontiguousarray(np.asarray(colour).transpose(2, 0, 1))
        return torch.from_numpy(levels)


STIMULI = {
    "224": Stimulus("224", 256, 224),
    "native": Stimulus("native", None, None),
}
"""The usual one of ImageNet (shorter side 256, middle 224), and the file's own size."""

FILES = "files"
"""The name of a stimulus that comes from a file, corrupted, as it is to be looked at."""


def find_stimulus(name: str) -> Stimulus:
    """Return the stimulus of that name."""
    if not isinstance(name, str):
        raise UsageError(f"stimulus must be 224 or native, got {name!r}.")
    if name not in STIMULI:
        raise unknown_name("stimulus", name, STIMULI)
    return STIMULI[name]
