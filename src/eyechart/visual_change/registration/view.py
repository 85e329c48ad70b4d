"""The clean image as a corrupted one shows it, moved in the same way, and VIF over that part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.warping import identity_maps, inside, moved, sample
from eyechart.visual_change.vif.fidelity import clean_terms, describe_clean, kept_terms
from eyechart.visual_change.vif.pyramid import BLOCK, dropped_blocks, subbands, window_side
from eyechart.visual_change.vif.statistics import Definition

POLE = 3**0.5 - 2
"""Of the recursive filter that turns gray levels into coefficients of cubic B-splines."""

REACH = 15
"""Where the filter is cut off: POLE^15 is below 1e-8."""

Kernel = Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]
"""The weights of four neighboring pixels for the fraction 0 … 1 between the inner two."""


def sharp(t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the weights of cubic convolution with a = −1, by which Pillow moves images."""
    rest = 1 - t
    return -t * rest * rest, 1 + t * t * (t - 2), 1 + rest * rest * (rest - 2), -rest * t * t


def spline(t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the weights of cubic B-splines, for the coefficients of `spline_coefficients`."""
    rest = 1 - t
    return (
        rest**3 / 6,
        2 / 3 - t * t * (1 - t / 2),
        2 / 3 - rest * rest * (1 - rest / 2),
        t**3 / 6,
    )


def spline_coefficients(images: Tensor) -> Tensor:
    """Return coefficients (B, h, w) of the splines that pass through the pixels of images."""
    # reflection needs a side that is longer than the padding
    reach = min(REACH, min(images.shape[1:]) - 1)
    filtered = functional.pad(images[:, None], (reach,) * 4, mode="reflect")[:, 0]
    weights = [POLE ** abs(distance) for distance in range(-reach, reach + 1)]
    total = sum(weights)
    for axis in (1, 2):
        side = filtered.shape[axis] - 2 * reach
        # term by term, because a convolution rounds differently alone and in a batch
        result = torch.zeros_like(filtered.narrow(axis, 0, side))
        for start, weight in enumerate(weights):
            result += filtered.narrow(axis, start, side) * (weight / total)
        filtered = result
    return filtered


def sample_cubic(images: Tensor, points: Tensor, size: tuple[int, int], kernel: Kernel) -> Tensor:
    """Return images (B, H, W) of a size at points (B, 2, n, m); edge pixels continue outside.

    Points are in px from the center of the image, as in `warping.sample`.
    """
    rows, columns = images.shape[1:]
    x, y = points[:, 0] + (size[1] - 1) / 2, points[:, 1] + (size[0] - 1) / 2
    left, top = x.floor(), y.floor()
    across, down = kernel(x - left), kernel(y - top)
    flat = images.flatten(1)
    result = torch.zeros_like(x)
    for row, weight in enumerate(down):
        line = (top.long() + row - 1).clamp(0, rows - 1) * columns
        for column, factor in enumerate(across):
            place = line + (left.long() + column - 1).clamp(0, columns - 1)
            result += weight * factor * flat.gather(1, place.flatten(1)).reshape(result.shape)
    return result


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


def visible_vif(shown: View, definition: Definition) -> Tensor:
    """Return VIF (B,) over what corrupted images show of the clean ones."""
    # float64, which the GPU's kernels need of images that are not integers
    clean = describe_clean(shown.reference.to(torch.float64), definition)
    count = len(clean.scales)
    kept: list[Tensor] = []
    total: list[Tensor] = []
    for level, bands in enumerate(subbands(shown.corrupted.to(torch.float64), count, clean.dtype)):
        scale = clean.scales[level]
        window = window_side(level, count)
        weight = _of_blocks(shown.is_visible, scale.multiplier.shape[2:], window, level)
        kept.append(_mean(kept_terms(scale, bands, window, definition), weight, definition))
        total.append(_mean(clean_terms(scale, definition), weight, definition))
    # small images have fewer scales, and lack the coarsest ones
    weights = definition.scale_weights[:count] or (1.0,) * count
    numerator, denominator = (
        (torch.stack(sums, dim=1) * sums[0].new_tensor(weights)).sum(dim=-1)
        for sums in (kept, total)
    )
    return numerator / denominator


def _mean(terms: Tensor, weight: Tensor, definition: Definition) -> Tensor:
    """Return the contribution (B,) of one scale to VIF, from its blocks (B, 2, n, m)."""
    # a scale may have no visible block, and its mean must not become NaN
    blocks = weight.sum(dim=(1, 2)).clamp_min(1)[:, None]
    pooled = (terms * weight[:, None]).sum(dim=(2, 3)) / blocks
    return (pooled + definition.stabilizer).sum(dim=1)


def _of_blocks(is_visible: Tensor, shape: Sequence[int], window: int, level: int) -> Tensor:
    """Return which inner blocks (B, n, m) of a scale have a visible center, as float64."""
    rows, columns = (
        # + 1 is the center of a block of 3 × 3; the shift leads back to pixels of the full image
        ((torch.arange(n, device=is_visible.device) + dropped_blocks(window)) * BLOCK + 1) << level
        for n in shape
    )
    rows = rows.clamp_max(is_visible.shape[1] - 1)
    columns = columns.clamp_max(is_visible.shape[2] - 1)
    return is_visible[:, rows[:, None], columns].to(torch.float64)
