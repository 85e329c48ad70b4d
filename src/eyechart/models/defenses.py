"""Models with defenses, which change a model's input images or combine its scores.

A defended model is used like any other model: it has its own name and identity, and shares
everything else with the model that it wraps.

Lightness is equalized by OpenCV's CLAHE (contrast-limited adaptive histogram equalization). Noise
is estimated by the method of Donoho and Johnstone and reduced with non-local means. Their weights
are defined as in the paper by Buades, Coll and Morel, but the difference between patches that is
expected from noise alone is subtracted first.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import Any

import cv2
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from eyechart.core.arguments import as_list, as_text
from eyechart.core.devices import image_device
from eyechart.core.errors import UsageError
from eyechart.core.parallel import on_all_cores
from eyechart.core.registry import unknown_name
from eyechart.images.image_types import to_rgb_levels
from eyechart.models.label_map import log_probabilities
from eyechart.models.model import Model
from eyechart.models.registries import DEFENSES, TEN_CROP

Ask = Callable[[Tensor], Tensor]
"""Function from 8-bit images (B, 3, H, W) to scores (B, K)."""


@dataclass(frozen=True)
class Setting:
    """A numeric setting of a defense, which must be above 0 and at most `most`."""

    name: str
    usual: float
    most: float
    step: int = 0
    """Which values are accepted: any number if `step` is 0, integers if 1, odd integers if 2."""

    def read(self, value: float, defense: str) -> float:
        """Return the value, as an int if `step` is not 0; raise a UsageError if it is invalid."""
        if 0 < value <= self.most:
            # Odd numbers are 1, 3, 5, …: one more than a multiple of the step.
            if self.step == 0:
                return float(value)
            if value % self.step == 1 % self.step:
                return int(value)
        kind = ("a number above 0 and", "a whole number from 1 to", "an odd whole number from 1 to")
        at_most = " at most" if self.step == 0 else ""
        raise UsageError(
            f"{self.name} of the defense {defense} must be {kind[self.step]}{at_most}"
            f" {self.most:g}, got {value!r}."
        )


@dataclass(frozen=True)
class DefenseType:
    """A kind of defense: its settings, and the function that computes scores.

    `scores` is called with (ask, images, **settings).
    """

    settings: tuple[Setting, ...]
    scores: Callable[..., Tensor]


@dataclass(frozen=True)
class Defense:
    """A defense with all its settings, in the order in which they are declared."""

    name: str
    settings: Mapping[str, float]

    def __str__(self) -> str:
        """The name as users type it, followed by the settings that differ from their defaults."""
        usual = {setting.name: setting.usual for setting in DEFENSES[self.name].settings}
        unusual = [f"{k}={v:.12g}" for k, v in self.settings.items() if v != usual[k]]
        return f"{self.name}:{','.join(unusual)}" if unusual else self.name

    def __call__(self, ask: Ask, images: Tensor) -> Tensor:
        """Return the scores of images with this defense; `ask` calls the defended model."""
        return DEFENSES[self.name].scores(ask, images, **self.settings)


def read_defenses(names: Sequence[str | Defense]) -> tuple[Defense, ...]:
    """Return the defenses with these names; raise a UsageError if one is invalid."""
    return tuple(
        name if isinstance(name, Defense) else _read(as_text(name, "Each of defenses"))
        for name in as_list(names, "defenses")
    )


def before_model(change: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the scores function of a defense that only changes the images.

    On a CPU, every core processes one image at a time.
    """

    def scores(ask: Ask, images: Tensor, **settings: float) -> Tensor:
        if images.device.type != "cpu":
            return ask(change(images, **settings))
        # By position, since cores finish in any order.
        changed: dict[int, Tensor] = {}

        def work(position: int) -> None:
            changed[position] = change(images[position : position + 1], **settings)

        on_all_cores(work, range(len(images)))
        return ask(torch.cat([changed[position] for position in range(len(images))]))

    return scores


def _read(text: str) -> Defense:
    name, colon, pairs = text.partition(":")
    items = [pair.partition("=") for pair in pairs.split(",")] if colon else []
    try:
        settings = {key: float(number) for key, _, number in items}
    except ValueError:
        settings = {}
    if len(settings) < len(items):
        raise UsageError(
            "A defense must be a name, optionally followed by numeric settings, such as"
            f" clahe:clip=3,tiles=4, got '{text}'."
        )
    known = {setting.name: setting for setting in DEFENSES[name].settings}
    for key in settings:
        if key not in known:
            raise unknown_name(f"setting of the defense {name}", key, known)
    filled = {key: settings.get(key, setting.usual) for key, setting in known.items()}
    return Defense(name, {key: known[key].read(value, name) for key, value in filled.items()})


class Defended(Model):
    """A model with a defense; attributes set by its first call do not affect the original model."""

    def __init__(self, model: Model, defense: Defense) -> None:
        # Shares the network but not the attributes, which the first call may set.
        vars(self).update(vars(model))
        self.defenses: tuple[Defense, ...] = (defense, *vars(model).get("defenses", ()))
        self.name = f"{defense}+{model.name}"
        self.mark(defense.name, sorted(defense.settings.items()))

    def __call__(self, images: Any, wait: bool = True, padded_to: int = 0) -> Tensor:
        """Return the scores of images; see `Model`."""
        levels = to_rgb_levels(images)
        ask: Ask = partial(super().__call__, wait=wait, padded_to=padded_to)
        # From the innermost defense to the outermost, so that the first one listed sees images
        # first.
        for defense in reversed(self.defenses):
            ask = partial(defense, ask)
        with torch.inference_mode():
            return ask(levels.to(image_device(self.device)))


def apply_defenses(model: Model, names: Sequence[str | Defense]) -> Model:
    """Return the model with defenses; the first defense in the list is applied to the images first.

    `names`: names in `DEFENSES`, with settings as in `clahe:clip=3,tiles=4`.
    """
    for defense in reversed(read_defenses(names)):
        model = Defended(model, defense)
    return model


def crop_of_crop_note(defenses: Sequence[Defense], sizes: Sequence[tuple[int, int]]) -> str:
    """Return a note if images for ten crops are no larger than a crop; otherwise return "".

    `sizes`: height and width of the images, in px.
    """
    for defense in defenses:
        small = [size for size in sizes if min(size) <= defense.settings.get("side", 0)]
        if defense.name == TEN_CROP and small:
            return (
                f"{defense} resizes crops of {min(small[0])} px images; the ImageNet-C paper takes "
                "crops from uncropped images. Clean accuracy may therefore fall although it rises "
                "in the paper; use --stimulus uncropped for 256 px images, if the files are larger."
            )
    return ""


def ten_views(images: Tensor, share: float, side: int = 224) -> Iterator[Tensor]:
    """Yield the four corner crops, the center crop, and the mirror images of these five.

    If images are larger than `side` px, crops are `side` × `side` px. Otherwise the height and
    width of a crop are `share` times the image's, and the crop is resized to the image size.
    """
    size = images.shape[2:]
    is_larger = min(size) > side
    height, width = (side if is_larger else max(round(share * length), 1) for length in size)
    down, along = size[0] - height, size[1] - width
    corners = [(0, 0), (0, along), (down, 0), (down, along), (down // 2, along // 2)]
    for mirrored in (False, True):
        for top, left in corners:
            view = images[..., top : top + height, left : left + width]
            if not is_larger:
                # Bicubic weights overshoot at edges: without the clamp, the cast would wrap around.
                grown = interpolate(view.float(), size, mode="bicubic", antialias=True)
                view = grown.round_().clamp_(0, 255).to(torch.uint8)
            yield view.flip(3) if mirrored else view.contiguous()


def _ten_crops(ask: Ask, images: Tensor, share: float, side: int) -> Tensor:
    each = torch.stack([log_probabilities(ask(view)) for view in ten_views(images, share, side)])
    # The logarithm of the mean probability, computed from logarithms for numerical stability.
    return each.logsumexp(dim=0) - math.log(len(each))


def _center_crop(ask: Ask, images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    if min(height, width) <= side:
        return ask(images)
    top, left = (height - side) // 2, (width - side) // 2
    return ask(images[..., top : top + side, left : left + side].contiguous())


SIDE = Setting("side", 224, 1024, 1)
TEN_CROP_DEFENSE = DefenseType((Setting("share", 0.875, 1), SIDE), _ten_crops)
CENTER_CROP_DEFENSE = DefenseType((SIDE,), _center_crop)


QUARTILE = 0.6744897501960817
"""The third quartile of the standard normal distribution: |x| is smaller with probability 0.5."""

HIGH_PASS = (-0.12940952255126037, -0.22414386804201338, 0.8365163037378079, -0.48296291314453414)
"""The high-pass filter of Daubechies' wavelet with four taps."""

FLAT = 1e-3
"""Details below this number of gray levels are ignored as rounding errors."""

FARTHEST = 80.0
"""Weights below exp(−80) are raised to exp(−80), because denormal numbers are slow."""


def equalize(images: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) with Lab lightness equalized in tiles, on their device.

    They are computed on the CPU, which needs 0.6 ms per core for an image of 224 px. Hues do not
    change, since Lab's a and b are not modified.

    `tiles`: number of tiles in each row and in each column of the grid.
    `clip`: maximum count of a histogram bin, as a multiple of its count in a uniform histogram.
    """
    pixels = images.permute(0, 2, 3, 1).cpu().contiguous().numpy()
    equalized = torch.empty(pixels.shape, dtype=torch.uint8)

    def work(index: int) -> None:
        lab = cv2.cvtColor(pixels[index], cv2.COLOR_RGB2LAB)
        # An object for each image, because it keeps buffers that threads would share.
        lightness = cv2.createCLAHE(clip, (tiles, tiles)).apply(cv2.extractChannel(lab, 0))
        cv2.insertChannel(lightness, lab, 0)
        equalized[index] = torch.from_numpy(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))

    on_all_cores(work, range(len(pixels)))
    return equalized.permute(0, 3, 1, 2).contiguous().to(images.device)


def noise_level(images: Tensor) -> Tensor:
    """Return the noise's standard deviation in gray levels, (B, C), for 8-bit images (B, C, H, W).

    σ̂ = median |HH₁| / 0.6745 over the finest diagonal details, excluding flat regions; 0 if the
    whole image is flat.
    """
    details = _details(_details(images.float(), 3), 2).flatten(2).abs()
    # Flat regions (such as clipped ones) have no detail and would bias the median to 0.
    seen = details > FLAT
    count = seen.sum(dim=2, keepdim=True)
    inf = torch.full((), torch.inf, device=details.device)
    ranked = torch.where(seen, details, inf).sort(dim=2).values
    # The two middle ranks, which coincide for an odd count: their mean is the median.
    middle = [ranked.gather(2, (count - 1 + k).clamp(min=0) // 2) for k in (0, 1)]
    return torch.where(count > 0, (middle[0] + middle[1]) / 2 / QUARTILE, 0.0).squeeze(2)


def denoise(images: Tensor, strength: float = 0.8, patch: int = 5, window: int = 13) -> Tensor:
    """Return denoised 8-bit images (B, C, H, W): each pixel is a mean over similar patches.

    Patches of patch × patch px are searched within window × window px. The weight is exp(−max(d² −
    2σ̂², 0) / h²), where d² is the mean squared difference of two patches over pixels and channels,
    σ̂ the noise averaged over channels, and h = strength · σ̂. Images without noise do not change.
    """
    variance = noise_level(images).mean(dim=1).square().reshape(-1, 1, 1, 1)
    # Without noise only identical patches count: the floor avoids a division by zero.
    scale = (strength**2 * variance).clamp(min=1e-9)
    reach, half = window // 2, patch // 2
    channels, height, width = images.shape[1:]
    levels = _surrounded(images.float(), reach + half)
    center = _part(levels, reach, reach, height + 2 * half, width + 2 * half)
    total, weights = torch.zeros_like(images, dtype=torch.float32), torch.zeros_like(variance)
    # One shift at a time for all pixels: every pixel is compared with its neighbor at that shift.
    for down, along in product(range(window), repeat=2):
        other = _part(levels, down, along, height + 2 * half, width + 2 * half)
        square = _summed((center - other).square_().sum(dim=1, keepdim=True), patch)
        # Two noisy versions of the same patch differ by 2σ² on average.
        excess = square / (channels * patch**2) - 2 * variance
        weight = excess.div_(scale).clamp_(0, FARTHEST).neg_().exp_()
        total.addcmul_(weight, _part(other, half, half, height, width))
        # Not in place: the first sum broadcasts (B, 1, 1, 1) to the size of the images.
        weights = weights + weight
    return (total / weights).round_().to(torch.uint8)


def _summed(planes: Tensor, side: int) -> Tensor:
    """Return the sums over all squares with this side that lie inside the planes."""
    for dim in (2, 3):
        room = planes.shape[dim] - side + 1
        parts = (planes.narrow(dim, start, room) for start in range(side))
        planes = reduce(torch.add, parts)
    return planes


def _details(levels: Tensor, dim: int) -> Tensor:
    """Return every second output value of the high-pass filter along one dimension."""
    length = levels.shape[dim]
    count = (length + 3) // 2
    parts = []
    for tap in range(4):
        indices = torch.arange(count, device=levels.device) * 2 - 2 + tap
        # Reflected at the outer edge of the last pixel, not at its center.
        turn = indices.remainder(2 * length)
        parts.append(levels.index_select(dim, torch.minimum(turn, 2 * length - 1 - turn)))
    return reduce(torch.add, (part * tap for part, tap in zip(parts, HIGH_PASS, strict=True)))


def _surrounded(levels: Tensor, width: int) -> Tensor:
    """Return images padded by reflection with this number of px on all sides."""
    for dim, side in enumerate(levels.shape[2:], start=2):
        # A single pixel would have a period of 0.
        period = max(2 * (side - 1), 1)
        indices = torch.arange(-width, side + width, device=levels.device).remainder(period)
        levels = levels.index_select(dim, torch.minimum(indices, period - indices))
    return levels


def _part(levels: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return levels[..., top : top + height, left : left + width]


CLAHE_DEFENSE = DefenseType(
    (Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), before_model(equalize)
)
NON_LOCAL_MEANS_DEFENSE = DefenseType(
    (Setting("strength", 0.8, 100), Setting("patch", 5, 31, 2), Setting("window", 13, 101, 2)),
    before_model(denoise),
)
