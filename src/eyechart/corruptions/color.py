"""Color: change brightness, contrast, saturation or hue without moving or blurring pixels."""

from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, drawn_sign, per_image
from eyechart.corruptions.kernels.arithmetic import (
    Rounding,
    exact_mean,
    look_up,
    luma,
    to_levels,
    to_unit,
)


def rgb_to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue (0…1), saturation and value planes (B, H, W) of RGB images in [0, 1]."""
    red, green, blue = images.unbind(dim=1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    gray = chroma == 0
    # gray pixels have no hue; 1 avoids a division by zero
    safe = torch.where(gray, 1.0, chroma)
    hue = torch.where(value == green, (blue - red) / safe + 2, (red - green) / safe + 4)
    hue = torch.where(value == red, (green - blue) / safe, hue)
    # multiplication by a reciprocal, because division differs in the last bit on GPUs
    hue = torch.where(gray, 0.0, hue * (1 / 6))
    saturation = chroma / torch.where(value == 0, 1.0, value)
    return hue - torch.floor(hue), saturation, value


def hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return RGB images (B, 3, H, W); hue may be any real number, with period 1."""
    # sectors of 60°
    turn = (hue - torch.floor(hue)) * 6
    chroma = value * saturation
    channels = []
    # V − V·S·max(0, min(k, 4 − k, 1)) with k = (n + hue / 60°) mod 6 and n = 5, 3, 1 for red, green
    # and blue: no case distinction by sector
    for offset in (5.0, 3.0, 1.0):
        k = turn + offset
        k = torch.where(k >= 6, k - 6, k)
        channels.append(value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1))
    return torch.stack(channels, dim=1)


@corruption(
    "brightness",
    "color",
    Parameter("amount", 0, 1, "fraction of full scale", "added to the HSV value", clean=0),
)
def brightness(images: Tensor, random: ImageRandom, *, amount: Values) -> Tensor:
    """Raise the HSV value of every pixel, keeping hue and saturation."""
    shift = per_image(amount, images)
    if images.shape[1] == 1:
        return images + shift
    # with hue and saturation fixed, RGB is proportional to V, so HSV is not needed
    value = images.amax(dim=1, keepdim=True)
    raised = (value + shift).clamp_(0, 1)
    # 1 for black pixels: products with it are several times as fast as a choice by torch.where
    black = (value == 0).to(torch.float32)
    return (images * (raised / (value + black))).add_(raised.mul_(black))


@corruption(
    "contrast",
    "color",
    Parameter("factor", 0, 1, "factor", "distance from the mean is multiplied by this", clean=1),
    takes="either",
    rounds=True,
)
def contrast(
    images: Tensor, random: ImageRandom, *, factor: Values, rounding: Rounding | None = None
) -> Tensor:
    """Move every channel towards its mean over the image."""
    mean = exact_mean(images, (2, 3))
    strength = per_image(factor, images)
    if images.dtype != torch.uint8:
        return (images - mean).mul_(strength).add_(mean)
    # the output depends only on the level: compute 256 values per channel and look them up
    table = (to_unit(torch.arange(256, device=images.device)) - mean).mul_(strength).add_(mean)
    return look_up(images, table[:, :, 0] if rounding is None else rounding(table[:, :, 0]))


@corruption(
    "saturate",
    "color",
    Parameter("gain", 0, 50, "factor", "saturation is multiplied by this", clean=1),
    Parameter("shift", 0, 1, "fraction of full scale", "added after the multiplication", clean=0),
)
def saturate(images: Tensor, random: ImageRandom, *, gain: Values, shift: Values) -> Tensor:
    """Change the HSV saturation; gray images are unchanged."""
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    saturation = chroma.div_((value == 0).to(torch.float32).add_(value))
    wanted = (saturation * per_image(gain, images)).add_(per_image(shift, images)).clamp_(0, 1)
    # with hue and value fixed, a channel's distance from V is proportional to the saturation
    gray = (saturation == 0).to(torch.float32)
    ratio = wanted / saturation.add_(gray)
    distance = (value - images).mul_(ratio)
    # a gray pixel, which equals its value, has hue 0 by convention: added saturation turns it red
    distance[:, 1:] += wanted.mul_(value).mul_(gray)
    return torch.sub(value, distance, out=distance)


@corruption(
    "vcr/hue_saturation_value",
    "color",
    Parameter("hue", -100, 100, "half degrees", "added to the hue; 180 is a full turn", clean=0),
    Parameter("saturation", -100, 100, "gray levels", "added to the saturation (0…255)", clean=0),
    Parameter("value", -100, 100, "gray levels", "added to the value (0…255)", clean=0),
)
def hue_saturation_value(
    images: Tensor, random: ImageRandom, *, hue: Values, saturation: Values, value: Values
) -> Tensor:
    """Shift hue, saturation and value, each by a separate amount."""
    bright = per_image(value / 255, images)
    if images.shape[1] == 1:
        return (images + bright).clamp_(0, 1)
    if has_triton(images.device):
        from eyechart.corruptions.kernels.color_triton import shift_hsv_in_triton

        return shift_hsv_in_triton(images, hue / 180, saturation / 255, value / 255)
    own_hue, own_saturation, own_value = rgb_to_hsv(images)
    return hsv_to_rgb(
        own_hue + per_image(hue / 180, images)[:, 0],
        (own_saturation + per_image(saturation / 255, images)[:, 0]).clamp_(0, 1),
        (own_value + bright[:, 0]).clamp_(0, 1),
    )


@corruption(
    "vcr/color_jitter",
    "color",
    Parameter("brightness", 0, 2, "factor", "values are multiplied by this", clean=1),
    Parameter("contrast", 0, 2, "factor", "scales the distance from the mean gray", clean=1),
    Parameter("saturation", 0, 2, "factor", "scales the distance from the pixel's gray", clean=1),
    Parameter("hue", -1, 1, "turns", "hue is shifted by this", clean=0),
    Parameter(
        "order",
        0,
        23,
        "number",
        "index of one of the 24 orders of the four steps",
        integer=True,
        drawn=True,
    ),
)
def color_jitter(
    images: Tensor,
    random: ImageRandom,
    *,
    brightness: Values,
    contrast: Values,
    saturation: Values,
    hue: Values,
    order: Values,
) -> Tensor:
    """Change brightness, contrast, saturation and hue one after the other in random order."""
    steps = np.array(_ORDERS)[order.astype(int)]
    if has_triton(images.device) and images.shape[1] == 3:
        from eyechart.corruptions.kernels.color_triton import jitter_in_triton

        amounts = np.stack((brightness, contrast, saturation, hue), axis=1)
        return jitter_in_triton(images, steps, np.take_along_axis(amounts, steps, axis=1))
    turning = np.argmax(steps == HUE, axis=1)
    other_steps = steps[steps != HUE].reshape(-1, 3).T
    factors = np.stack((brightness, contrast, saturation))[other_steps, np.arange(len(order))]
    # Three stretches before the hue shift and three after it; each image is active in three of
    # them. This way the batch needs one hue shift, regardless of the orders of its images.
    # steps that come after the hue shift in the order of the image
    late = turning <= np.arange(3)[:, None]
    out = _stretch_in_turn(images, other_steps, factors, ~late)
    out = _turn_hue(out, per_image(hue, images))
    return _stretch_in_turn(out, other_steps, factors, late)


BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_ORDERS = tuple(permutations(range(4)))


def _stretch_in_turn(
    images: Tensor, steps: NDArray[np.int64], factors: Values, active: NDArray[np.bool_]
) -> Tensor:
    """Return the images after three `steps` (3, B); a step changes only its `active` images."""
    about_mean, about_gray = active & (steps == CONTRAST), active & (steps == SATURATION)
    numbers = np.stack((np.where(active, factors, 1), about_mean, about_gray), axis=1)
    for step in torch.from_numpy(numbers).to(images.device, torch.float32):
        images = _stretch(images, *step[..., None, None, None])
    return images


def _stretch(images: Tensor, factor: Tensor, about_mean: Tensor, about_gray: Tensor) -> Tensor:
    """Return the images with the distance of each value from a center multiplied by `factor`.

    The center is the image's mean gray if `about_mean` is 1, each pixel's gray if `about_gray` is
    1, and otherwise black.
    """
    gray = luma(images)
    mean = to_unit(to_levels(exact_mean(gray, (1, 2, 3))))
    center = gray * about_gray + mean * about_mean
    return ((images - center) * factor + center).clamp_(0, 1)


def _turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Return the images with hue shifted by `turns` (B, 1, 1, 1); gray images are unchanged."""
    if images.shape[1] == 1:
        return images.clone()
    hue, saturation, value = rgb_to_hsv(images)
    return hsv_to_rgb(hue + turns[:, 0], saturation, value)


_SHIFT = Parameter("amount", 0, 1, "fraction of full scale", "amount added to every value", clean=0)


@corruption(
    "noc/brightness",
    "color",
    _SHIFT,
    drawn_sign("direction", "1 makes the image lighter, -1 darker"),
)
def noc_brightness(
    images: Tensor, random: ImageRandom, *, amount: Values, direction: Values
) -> Tensor:
    """Make all values lighter, or all values darker, by the same amount."""
    return images + per_image(amount * direction, images)


@corruption(
    "noc/backlight",
    "color",
    Parameter(
        "amount",
        0,
        1,
        "fraction of full scale",
        "amount added to one part and subtracted from the other",
        clean=0,
    ),
    Parameter("split", 0.3, 0.7, "fraction of the side", "boundary of the two parts", drawn=True),
    Parameter(
        "axis",
        0,
        1,
        "number",
        "0 splits top from bottom, 1 left from right",
        choices=(0, 1),
        drawn=True,
    ),
    drawn_sign("direction", "1: the bottom or right part becomes lighter; -1: the other part"),
)
def backlight(
    images: Tensor,
    random: ImageRandom,
    *,
    amount: Values,
    split: Values,
    axis: Values,
    direction: Values,
) -> Tensor:
    """Split the image in two and make one part lighter, the other darker."""
    height, width = images.shape[-2:]
    row = torch.arange(height, device=images.device).reshape(1, 1, -1, 1)
    column = torch.arange(width, device=images.device)
    # both masks are computed, because images of a batch may differ in axis
    below = row >= per_image(np.floor(split * height + 0.5), images)
    right = column >= per_image(np.floor(split * width + 0.5), images)
    beyond = torch.where(per_image(axis, images) == 0, below, right)
    shift = per_image(amount * direction, images)
    return images + torch.where(beyond, shift, -shift)


@corruption(
    "noc/contrast",
    "color",
    Parameter("loss", 0, 1, "factor", "fraction of the distance to the mean", clean=0),
)
def noc_contrast(images: Tensor, random: ImageRandom, *, loss: Values) -> Tensor:
    """Move every value towards the mean over the whole image and all channels."""
    mean = exact_mean(images, (1, 2, 3))
    return (mean - images).mul_(per_image(loss, images)).add_(images)


@corruption(
    "noc/color_distortion",
    "color",
    _SHIFT,
    Parameter("channel", 0, 2, "number", "0 red, 1 green, 2 blue", choices=(0, 1, 2), drawn=True),
)
def color_distortion(
    images: Tensor, random: ImageRandom, *, amount: Values, channel: Values
) -> Tensor:
    """Add the same amount to every value of one color channel; gray images have only one."""
    shift = per_image(amount, images)
    if images.shape[1] == 1:
        return images + shift
    chosen = torch.arange(3, device=images.device).reshape(1, 3, 1, 1) == per_image(channel, images)
    return images + shift * chosen


@corruption(
    "noc/gray_scale",
    "color",
    Parameter("weight", 0, 1, "factor", "weight of the gray image", clean=0),
)
def gray_scale(images: Tensor, random: ImageRandom, *, weight: Values) -> Tensor:
    """Mix the image with its gray version; gray images are unchanged."""
    return (luma(images) - images).mul_(per_image(weight, images)).add_(images)


@corruption(
    "noc/hue",
    "color",
    Parameter("turns", 0, 0.5, "turns", "rotation of the hue; 1 is a full circle", clean=0),
    drawn_sign("direction", "1 turns red towards green, -1 towards blue"),
)
def noc_hue(images: Tensor, random: ImageRandom, *, turns: Values, direction: Values) -> Tensor:
    """Rotate the hue of every pixel by the same angle; gray images are unchanged."""
    return _turn_hue(images, per_image(turns * direction, images))
