"""Models with defenses, which change a model's input images or combine its scores.

A defended model is used like any other model: it has its own name and identity, and shares
everything else with the model that it wraps.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    views = ten_views(images, share, side)
    each = torch.stack([log_probabilities(ask(view)) for view in views])
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
