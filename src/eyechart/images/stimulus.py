"""The stimulus: the image that humans and models see, computed once from an image file."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import as_list, as_number, short_repr
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.images.image_files import Window


@dataclass(frozen=True)
class Stimulus:
    """How an image is resized and cropped to its final size; all sizes in px.

    If `resize` is given, the shorter side is resized to this length, and the center square of side
    `crop` is kept (the whole image if `crop` is None). If `size` is given, the image is resized to
    this width and height regardless of its aspect ratio. If neither is given, the image keeps
    its size. `window` maps gray values of more than 8 bits to 8 bits when an image is read.
    """

    name: str
    resize: int | None
    crop: int | None
    size: tuple[int, int] | None = None
    window: Window | None = None

    def __call__(self, image: Image.Image) -> Tensor:
        """Return the image as uint8 (3, H, W)."""
        # `convert` copies the image even if it is in this mode already.
        color = image if image.mode == "RGB" else image.convert("RGB")
        if self.size is not None:
            color = color.resize(self.size, Image.Resampling.BILINEAR)
        elif self.resize is not None:
            share = self.resize / min(color.size)
            # Rounding may leave a side below the crop, hence the lower bound.
            width, height = (max(self.crop or 1, round(side * share)) for side in color.size)
            color = color.resize((width, height), Image.Resampling.BILINEAR)
            if self.crop is not None:
                left, top = (width - self.crop) // 2, (height - self.crop) // 2
                color = color.crop((left, top, left + self.crop, top + self.crop))
        levels = np.ascontiguousarray(np.asarray(color).transpose(2, 0, 1))
        return torch.from_numpy(levels)

    @property
    def width_and_height(self) -> tuple[int, int] | None:
        """Width and height of every stimulus in px; None if images differ in size."""
        return self.size if self.crop is None else (self.crop, self.crop)

    @property
    def description(self) -> str:
        """A short description of how images are resized and cropped."""
        if self.window is not None:
            low, high = self.window
            plain = replace(self, window=None).description
            return f"gray values {low:.12g} to {high:.12g} mapped to 0 to 255; {plain}"
        if self.size is not None:
            width, height = self.size
            return f"resized to {width} × {height} px (width × height), not cropped"
        if self.crop is not None:
            return f"shorter side resized to {self.resize} px, center crop of {self.crop} px"
        if self.resize is not None:
            return f"shorter side resized to {self.resize} px, not cropped"
        return "original size"


STIMULI = {
    "224": Stimulus("224", 256, 224),
    "uncropped": Stimulus("uncropped", 256, None),
    "native": Stimulus("native", None, None),
}
"""ImageNet's usual preprocessing (shorter side 256 px, center crop of 224 px), the same without the
crop, and the original size.
"""

FILES = "files"
"""Name of the stimulus for corrupted images that are read from files and used unchanged."""

AUTO = "auto"
"""Name that requests a stimulus chosen from the sizes of the images: see `usual_stimulus`."""

USUAL = "224"
"""The default stimulus, used unless all images are small and have the same size."""

WINDOW = ":window="
"""Separates the size from the window in a stimulus name; runs record the window in this name."""

SMALLEST_SIDE, LARGEST_SIDE = 18, 1024
"""Minimum and maximum height or width in px: visual change is undefined for smaller images, and no
model uses larger ones.
"""

MUCH_SMALLER = 0.5
"""An image is much smaller than a stimulus if its shorter side is below this fraction of the
stimulus's shorter side.
"""

_SIDES = re.compile(r"([0-9]+)(?:x([0-9]+))?")


def find_stimulus(name: str) -> Stimulus:
    """Return the stimulus with this name.

    Args:
        name: "224" or another side in px: the shorter side is resized to 8/7 of this number, then
            the center is cropped. "uncropped": the shorter side is resized to 256 px without
            cropping, so images may differ in size. "224x224" or another width and height: a plain
            resize. "native": the original size of the image. A window may follow, as in
            "224:window=0,4095"; see `with_window`.

    Raises:
        UsageError: If the name is unknown or a side is out of range.

    Example:
        >>> find_stimulus("112").description
        'shorter side resized to 128 px, center crop of 112 px'
    """
    if not isinstance(name, str):
        raise UsageError(
            f"stimulus must be a string such as 224 or native, got {short_repr(name)}."
        )
    base, window = split_window(name)
    if window is not None:
        return replace(find_stimulus(base), name=with_window(base, window), window=window)
    if name in STIMULI:
        return STIMULI[name]
    sides = _SIDES.fullmatch(name)
    if sides is None:
        raise unknown_name("stimulus", name, (*STIMULI, "a side in px", "WIDTHxHEIGHT in px"))
    width, height = _side(name, sides[1]), _side(name, sides[2] or sides[1])
    if sides[2]:
        return Stimulus(f"{width}x{height}", None, None, (width, height))
    # Other sides keep the proportion of resize to crop, 256 : 224.
    usual = STIMULI["224"]
    assert usual.resize is not None and usual.crop is not None
    return Stimulus(str(width), round(width * usual.resize / usual.crop), width)


def with_window(stimulus: str, window: object) -> str:
    """Return the name of a stimulus with this window, or the same name if `window` is None.

    Args:
        stimulus: See `find_stimulus`; "auto" is also accepted.
        window: The two gray values that become black and white in images of more than 8 bits.

    Raises:
        UsageError: If the window is not two increasing finite numbers.

    Example:
        >>> with_window("224", (0, 4095))
        '224:window=0,4095'
    """
    if window is None or not isinstance(stimulus, str):
        return stimulus
    ends = [as_number(end, "Each end of window") for end in as_list(window, "window")]
    if len(ends) != 2 or not -math.inf < ends[0] < ends[1] < math.inf:
        shown = ", ".join(f"{end:.12g}" for end in ends)
        raise UsageError(f"window must be two increasing finite numbers, got ({shown}).")
    return f"{split_window(stimulus)[0]}{WINDOW}{ends[0]:.12g},{ends[1]:.12g}"


def split_window(stimulus: str) -> tuple[str, Window | None]:
    """Return the name of a stimulus without its window, and the window (None if it has none).

    Example:
        >>> split_window("native:window=-160,240")
        ('native', (-160.0, 240.0))
    """
    base, mark, text = stimulus.partition(WINDOW)
    if not mark:
        return stimulus, None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise UsageError(
            f"The window of a stimulus must be two increasing numbers, as in 224{WINDOW}0,4095,"
            f" got {short_repr(stimulus)}."
        )
    return base, (low, high)


def resolve_auto(stimulus: str) -> Stimulus:
    """Return the stimulus with this name, where "auto" stands for the usual one."""
    if isinstance(stimulus, str) and split_window(stimulus)[0] == AUTO:
        stimulus = with_window(USUAL, split_window(stimulus)[1])
    return find_stimulus(stimulus)


def usual_stimulus(sizes: Iterable[tuple[int, int] | None]) -> str:
    """Return the name of the stimulus that suits the image sizes of a dataset.

    The name is "native" if all images have the same small size, as in CIFAR, because enlarging them
    would add no information; otherwise it is "224". No more sizes are read than needed.

    Args:
        sizes: Height and width of each image in px; None for an image that cannot be read.

    Example:
        >>> usual_stimulus([(32, 32), (32, 32)]), usual_stimulus([(32, 32), (375, 500)])
        ('native', '224')
    """
    first = None
    for size in filter(None, sizes):
        first = first or size
        is_small = min(size) >= SMALLEST_SIDE and max(size) < MUCH_SMALLER * int(USUAL)
        if not is_small or size != first:
            return USUAL
    return USUAL if first is None else "native"


def _side(name: str, digits: str) -> int:
    # int() raises a ValueError on strings of more than 4,300 digits.
    side = int(digits) if len(digits) < 9 else LARGEST_SIDE + 1
    if not SMALLEST_SIDE <= side <= LARGEST_SIDE:
        raise UsageError(
            f"stimulus must be native, uncropped, a side from {SMALLEST_SIDE} to {LARGEST_SIDE} px,"
            f" or two such sides as WIDTHxHEIGHT, got {name}."
        )
    return side
