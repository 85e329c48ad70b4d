"""The clean image as a corrupted one shows it, moved in the same way."""

from dataclasses import dataclass

import torch
from torch import Tensor

from eyechart.visual_change.registration.cubic import (
    sample_cubic,
    sharp,
    spline,
    spline_coefficients,
)
from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.warping import identity_maps, inside, moved, sample

MAX_MIX = 1.0
"""Largest share of the bilinear interpolation in the cubic one; a negative share is sharper."""

QUARTERS = ((-0.25, -0.25), (0.25, -0.25), (-0.25, 0.25), (0.25, 0.25))
"""Centers of the quarters of a pixel, relative to its own."""

EDGE = 1.0
"""Width in px of the border of the visible part that is left out, where fill is mixed in."""


@dataclass(frozen=True, eq=False)
class View:
    """The clean image as the corrupted one shows it.

    Attributes:
        reference: the clean image, moved like the corrupted one, (B, H, W).
        corrupted: the corrupted image; what it does not show of the clean one is filled in.
        is_visible: which pixels of the corrupted image show the clean one, (B, H, W).
        share: the share of the clean image's area that is visible, (B,).
        error: the mean squared difference of the visible part, in gray levels, (B,).
    """

    reference: Tensor
    corrupted: Tensor
    is_visible: Tensor
    share: Tensor
    error: Tensor


def view(clean: Tensor, corrupted: Tensor, maps: Tensor) -> View:
    """Return what corrupted gray images (B, H, W) show of the clean ones, by their maps.

    Of several interpolations of the clean image, the one that explains the corrupted image best is
    used, so that interpolation itself counts as no change.
    """
    size = (corrupted.shape[1], corrupted.shape[2])
    places = moved(centers_of(*size, size, corrupted.device), maps)
    # each visible pixel of the corrupted image covers abs(det A) pixels of the clean one
    area = maps[..., :2].det().abs() * inside(places, size).flatten(1).sum(dim=1)
    is_moved = (maps != identity_maps(len(maps), maps)).flatten(1).any(dim=1)
    # an image that was not moved has no fill, and every pixel of it counts
    is_visible = inside(places, size, margin=EDGE * is_moved[:, None, None])
    seen, weight = corrupted.to(torch.float32), is_visible.to(torch.float32)
    references = _interpolated(clean.to(torch.float32), maps, seen, weight)
    fills, errors = zip(*(fitted(one, seen, weight) for one in references), strict=True)
    error, best = torch.stack(errors).min(dim=0)
    images = torch.arange(len(seen), device=seen.device)
    fill = torch.stack(fills)[best, images]
    return View(
        torch.stack(references)[best, images],
        torch.where(is_visible, seen, fill),
        is_visible,
        # whole pixels are counted, which may add up to slightly more than the image
        (area / (size[0] * size[1])).clamp_max(1),
        error,
    )


def nearest_error(clean: Tensor, corrupted: Tensor, maps: Tensor) -> Tensor:
    """Return the error of `view` (B,) if pixels are taken from the nearest ones."""
    size = (corrupted.shape[1], corrupted.shape[2])
    places = moved(centers_of(*size, size, corrupted.device), maps)
    weight = inside(places, size, margin=EDGE).to(torch.float32)
    reference = sample(clean.to(torch.float32), places, size, "nearest")
    return fitted(reference, corrupted.to(torch.float32), weight)[1]


def _interpolated(clean: Tensor, maps: Tensor, seen: Tensor, weight: Tensor) -> list[Tensor]:
    """Return clean images (B, H, W), moved as a corruption may have done it.

    Pixels are the nearest ones, interpolated as smoothly as fits the corrupted image or by the
    cubic kernels of Pillow or SciPy, or averaged over the area of a pixel, as in a reduced image.
    """
    size = (clean.shape[1], clean.shape[2])
    points = centers_of(*size, size, clean.device)
    places = moved(points, maps)
    nearest, linear, cubic = (
        sample(clean, places, size, mode) for mode in ("nearest", "bilinear", "bicubic")
    )
    offsets = torch.tensor(QUARTERS, device=clean.device)[:, :, None, None]
    quarters = [sample(clean, moved(points + offset, maps), size) for offset in offsets]
    mixed = cubic + _mix(cubic, linear - cubic, seen, weight) * (linear - cubic)
    cubics = [
        sample_cubic(clean, places, size, sharp),
        sample_cubic(spline_coefficients(clean), places, size, spline),
    ]
    return [nearest, mixed, *cubics, torch.stack(quarters).mean(dim=0)]


def _mix(cubic: Tensor, difference: Tensor, seen: Tensor, weight: Tensor) -> Tensor:
    """Return the share (B, 1, 1) of the difference that explains the corrupted images best."""
    count = weight.sum(dim=(1, 2), keepdim=True).clamp_min(1)
    one, two, target = (
        (image - (image * weight).sum(dim=(1, 2), keepdim=True) / count) * weight
        for image in (cubic, difference, seen)
    )
    # in float64, because large products are subtracted from each other below
    products = [
        (first * second).sum(dim=(1, 2), keepdim=True, dtype=torch.float64)
        for first, second in ((one, one), (one, two), (two, two), (one, target), (two, target))
    ]
    own, shared, other, right, second_right = products
    # least squares in both images; the share is the ratio of their coefficients
    gain = (other * right - shared * second_right).clamp_min(1e-9)
    return ((own * second_right - shared * right) / gain).clamp(-MAX_MIX, MAX_MIX).to(cubic.dtype)


def fitted(reference: Tensor, seen: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return gain · reference + offset (B, H, W) nearest to the corrupted images, and its error."""
    count = weight.sum(dim=(1, 2), keepdim=True).clamp_min(1)
    means = [(image * weight).sum(dim=(1, 2), keepdim=True) / count for image in (reference, seen)]
    # without their means, the gain does not depend on the offset
    one, two = reference - means[0], seen - means[1]
    spread = (one.square() * weight).sum(dim=(1, 2), keepdim=True).clamp_min(1e-6)
    gain = (one * two * weight).sum(dim=(1, 2), keepdim=True) / spread
    error = ((gain * one - two).square() * weight).sum(dim=(1, 2)) / count[:, 0, 0]
    return gain * one + means[1], error
