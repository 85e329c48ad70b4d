"""Affine maps between images, and sampling with them, on batches.

A map (B, 2, 3) leads from the corrupted image to the clean one: the point (x, y) of the corrupted
image shows the point A·(x, y) + t of the clean one. Points are in pixels from the center of the
image, as in `corruptions.kernels.affine`, so that a map is the same at every resolution.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from eyechart.core.devices import has_triton

CUT_OFF = 2.0
"""Where Gaussian kernels end, in standard deviations: 3 takes longer and recovers no more maps."""


def identity_maps(count: int, like: Tensor) -> Tensor:
    """Return maps (B, 2, 3) that move nothing, in float64, on the device of `like`."""
    return identity_map(like.device).repeat(count, 1, 1)


@lru_cache(maxsize=8)
def identity_map(device: torch.device) -> Tensor:
    """Return the map (2, 3) that moves nothing, in float64."""
    return torch.eye(2, 3, dtype=torch.float64, device=device)


def for_maps(images: Tensor, maps: Tensor) -> Tensor:
    """Return images (B, h, w) once for each of the maps (B · n, 2, 3), n for each image."""
    count = len(maps) // len(images)
    return images if count == 1 else images.repeat_interleave(count, dim=0)


def centers(rows: int, columns: int, size: tuple[int, int], device: torch.device) -> Tensor:
    """Return the centers x, y (2, rows, columns) of the cells of a grid over an image.

    `size`: height and width of the image in pixels.
    """
    y = (torch.arange(rows, device=device, dtype=torch.float64) + 0.5) / rows - 0.5
    x = (torch.arange(columns, device=device, dtype=torch.float64) + 0.5) / columns - 0.5
    down, across = torch.meshgrid(y * size[0], x * size[1], indexing="ij")
    return torch.stack((across, down)).to(torch.float32)


def moved(points: Tensor, maps: Tensor) -> Tensor:
    """Return where maps (B, 2, 3) lead points (2, h, w): (B, 2, h, w), in float32."""
    flat = maps[..., :2].to(torch.float32) @ points.flatten(1)
    flat = flat + maps[..., 2:].to(torch.float32)
    return flat.reshape(len(maps), *points.shape)


def sample(images: Tensor, points: Tensor, size: tuple[int, int], mode: str = "bilinear") -> Tensor:
    """Return images (B, h, w) at points (B, 2, n, m); they continue by reflection outside.

    `size`: height and width in pixels of the frame that the images fill, whatever their resolution.
    """
    return sample_channels(images[:, None], points, size, mode)[:, 0]


def sample_channels(
    images: Tensor, points: Tensor, size: tuple[int, int], mode: str = "bilinear"
) -> Tensor:
    """Return images with channels (B, C, h, w) at points (B, 2, n, m), as in `sample`."""
    # with align_corners=False, ±1 is the outer edge of the outermost pixels, not their center
    half = points.new_tensor([size[1] / 2, size[0] / 2])
    grid = points.movedim(1, -1) / half
    return functional.grid_sample(
        images, grid, mode=mode, padding_mode="reflection", align_corners=False
    )


def inside(points: Tensor, size: tuple[int, int], margin: Tensor | float = 0.0) -> Tensor:
    """Return which points (B, 2, n, m) are in the frame, at least `margin` px from its edge."""
    x, y = points.unbind(dim=1)
    return (x.abs() <= size[1] / 2 - margin) & (y.abs() <= size[0] / 2 - margin)


def smoothed(images: Tensor, sigma: float) -> Tensor:
    """Return images (B, h, w) convolved with a Gaussian of `sigma` cells."""
    if has_triton(images.device):
        from eyechart.visual_change.registration.warping_triton import smoothed_in_triton

        return smoothed_in_triton(images, sigma)
    # reflection needs a side that is longer than the padding
    reach = min(round(CUT_OFF * sigma), min(images.shape[1:]) - 1)
    distance = torch.arange(-reach, reach + 1, device=images.device, dtype=torch.float32)
    kernel = torch.exp(-0.5 * (distance / sigma) ** 2)
    kernel = (kernel / kernel.sum()).reshape(1, 1, -1)
    padded = functional.pad(images[:, None], (reach,) * 4, mode="reflect")
    # a Gaussian is separable: two passes of n taps instead of one of n²
    across = functional.conv2d(padded, kernel[:, :, None])
    return functional.conv2d(across, kernel[..., None])[:, 0]


def reduced(images: Tensor, rows: int, columns: int) -> Tensor:
    """Return images (B, h, w) averaged over the areas of the cells of a grid."""
    return functional.interpolate(images[:, None], size=(rows, columns), mode="area")[:, 0]
