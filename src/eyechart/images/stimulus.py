"""The stimulus: what people and models look at, made from a picture file once."""

import re
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import brief
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name


@dataclass(frozen=True)
class Stimulus:
    """How an image is brought to size, in px.

    Either the shorter side is resized to `resize` and the middle `crop` kept, all of it if that is
    None; or the whole image is resized to `size`, width and height, whatever its shape was; without
    either it stays as is.
    """

    name: str
    resize: int | None
    crop: int | None
    size: tuple[int, int] | None = None

    def __call__(self, picture: Image.Image) -> Tensor:
        """Return the picture as uint8 (3, H, W)."""
        colour = picture.convert("RGB")
        if self.size is not None:
            colour = colour.resize(self.size, Image.Resampling.BILINEAR)
        elif self.resize is not None:
            share = self.resize / min(colour.size)
            width, height = (max(self.crop or 1, round(side * share)) for side in colour.size)
            colour = colour.resize((width, height), Image.Resampling.BILINEAR)
            if self.crop is not None:
                left, top = (width - self.crop) // 2, (height - self.crop) // 2
                colour = colour.crop((left, top, left + self.crop, top + self.crop))
        levels = np.ascontiguousarray(np.asarray(colour).transpose(2, 0, 1))
        return torch.from_numpy(levels)

    @property
    def width_and_height(self) -> tuple[int, int] | None:
        """What every image is brought to, in px; None where images differ."""
        return self.size if self.crop is None else (self.crop, self.crop)

    @property
    def description(self) -> str:
        """What is done to an image, in a few words."""
        if self.size is not None:
            width, height = self.size
            return f"resized to {width} × {height} px (width × height), not cropped"
        if self.crop is not None:
            return f"shorter side resized to {self.resize} px, the middle {self.crop} px"
        if self.resize is not None:
            return f"shorter side resized to {self.resize} px, not cropped"
        return "as large as the file"


STIMULI = {
    "224": Stimulus("224", 256, 224),
    "uncropped": Stimulus("uncropped", 256, None),
    "native": Stimulus("native", None, None),
}
"""The usual one of ImageNet (shorter side 256, middle 224), the same before it is cropped, and the
file's own size."""

FILES = "files"
"""The name of a stimulus that comes from a file, corrupted, as it is to be looked at."""

SMALLEST_SIDE, LARGEST_SIDE = 18, 1024
"""In px: below the one there is no visual change, beyond the other no model looks."""

_SIDES = re.compile(r"([0-9]+)(?:x([0-9]+))?")


def find_stimulus(name: str) -> Stimulus:
    """Return the stimulus of that name.

    Args:
        name: "224" or another side in px: the shorter side is resized to 8/7 of it, then the middle
            is cropped. "uncropped": the shorter side is resized to 256 px and nothing is cropped,
            so images may differ in size. "224x224" or another width and height: a plain resize.
            "native": the file's own size.

    Raises:
        UsageError: if there is none of that name, or a side is out of range.
    """
    if not isinstance(name, str):
        raise UsageError(f"stimulus must be 224 or native, or another side, got {brief(name)}.")
    if name in STIMULI:
        return STIMULI[name]
    sides = _SIDES.fullmatch(name)
    if sides is None:
        raise unknown_name("stimulus", name, (*STIMULI, "a side in px", "WIDTHxHEIGHT in px"))
    width, height = _side(name, sides[1]), _side(name, sides[2] or sides[1])
    if sides[2]:
        return Stimulus(f"{width}x{height}", None, None, (width, height))
    usual = STIMULI["224"]
    assert usual.resize is not None and usual.crop is not None
    return Stimulus(str(width), round(width * usual.resize / usual.crop), width)


def _side(name: str, digits: str) -> int:
    # Python turns no more than a few thousand digits into a number
    side = int(digits) if len(digits) < 9 else LARGEST_SIDE + 1
    if not SMALLEST_SIDE <= side <= LARGEST_SIDE:
        raise UsageError(
            f"stimulus must be native, uncropped, a side from {SMALLEST_SIDE} to {LARGEST_SIDE} px,"
            f" or two such sides as WIDTHxHEIGHT, got {name}."
        )
    return side
