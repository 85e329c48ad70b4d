"""Cropping defenses: average the probabilities of ten crops, or use the center crop."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from eyechart.models.defenses.defended import Ask, Defense, DefenseType, Setting
from eyechart.models.defenses.registry import TEN_CROP
from eyechart.models.label_map import log_probabilities


def crop_of_crop_note(defenses: Sequence[Defense], sizes: Sequence[tuple[int, int]]) -> str:
    """Return a note if images for ten crops are no larger than a crop; otherwise return "".

    `sizes`: height and width of the images, in px.
    """
    for defense in defenses:
        small = [size for size in sizes if not _is_larger(size, defense.settings.get("side", 0))]
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
    is_larger = _is_larger(size, side)
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


def _is_larger(size: Sequence[int], side: float) -> bool:
    return min(size) > side


def _ten_crops(ask: Ask, images: Tensor, share: float, side: int) -> Tensor:
    views = ten_views(images, share, side)
    each = torch.stack([log_probabilities(ask(view)) for view in views])
    # The logarithm of the mean probability, computed from logarithms for numerical stability.
    return each.logsumexp(dim=0) - math.log(len(each))


def _center_crop(ask: Ask, images: Tensor, side: int) -> Tensor:
    height, width = images.shape[2:]
    if not _is_larger((height, width), side):
        return ask(images)
    top, left = (height - side) // 2, (width - side) // 2
    return ask(images[..., top : top + side, left : left + side].contiguous())


SIDE = Setting("side", 224, 1024, 1)
TEN_CROP_DEFENSE = DefenseType((Setting("share", 0.875, 1), SIDE), _ten_crops)
CENTER_CROP_DEFENSE = DefenseType((SIDE,), _center_crop)
