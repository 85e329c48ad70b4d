"""Sampling with cubic kernels that torch lacks: as Pillow and as SciPy move images."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

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
