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

SMALLEST_SIDE, LARGEST_SIDE = 18, 1024
"""In px: below the one there is no visual change, beyond the other no model looks."""


def find_stimulus(name: str) -> Stimulus:
    """Return the stimulus of that name: a side in px, framed as the usual 224, or "native"."""
    if not isinstance(name, str):
        raise UsageError(f"stimulus must be 224 or native, or another side, got {name!r}.")
    if name in STIMULI:
        return STIMULI[name]
    if not (name.isascii() and name.isdecimal()):
        raise unknown_name("stimulus", name, (*STIMULI, "a side in px"))
    # Python turns no more than a few thousand digits into a number
    side = int(name) if len(name) < 9 else LARGEST_SIDE + 1
    if not SMALLEST_SIDE <= side <= LARGEST_SIDE:
        raise UsageError(
            f"stimulus must be native or a side from {SMALLEST_SIDE} to {LARGEST_SIDE} px,"
            f" got {name}."
        )
    usual = STIMULI["224"]
    assert usual.resize is not None and usual.crop is not None
    return Stimulus(str(side), round(side * usual.resize / usual.crop), side)
