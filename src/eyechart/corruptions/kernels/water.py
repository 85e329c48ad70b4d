"""The relief of water drops: find edges, then equalize and emboss the distances to them.

The CPU uses OpenCV's functions; other devices use the same integer arithmetic in torch.
"""

from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from eyechart.corruptions.kernels.arithmetic import uses_opencv

# thresholds, cap and kernel of `spatter` in the code of ImageNet-C
CANNY_LOW, CANNY_HIGH = 50, 150
FARTHEST = 20
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
FIXED = 1 << 16
# OpenCV's weights for DIST_L2 with a 5 × 5 mask: 1, 1.4 and 2.1969 px
STEPS = (
    (FIXED, ((-1, 0), (0, -1), (0, 1), (1, 0))),
    (int(1.4 * FIXED), ((-1, -1), (-1, 1), (1, -1), (1, 1))),
    (
        int(2.1969 * FIXED),
        ((-2, -1), (-2, 1), (-1, -2), (-1, 2), (1, -2), (1, 2), (2, -1), (2, 1)),
    ),
)
"""Chamfer distances of the 5 × 5 mask in 1/65,536 px, each with its moves (down, across)."""
TANGENT = 13_573
"""tan 22.5° in units of 2⁻¹⁵."""


def water_relief(layer: Tensor) -> Tensor:
    """Return uint8 reliefs (B, 1, H, W) of uint8 liquid layers, bright on the lit side of drops."""
    if uses_opencv(layer):
        reliefs = [_relief_cv2(plane) for plane in layer[:, 0].numpy()]
        return torch.from_numpy(np.stack(reliefs))[:, None]
    return relief_in_torch(layer)


def _relief_cv2(plane: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    edges = cv2.Canny(plane, CANNY_LOW, CANNY_HIGH)
    distance = cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5)
    mean = cv2.blur(np.minimum(distance, FARTHEST), (3, 3))
    # truncation tolerates 2⁻¹⁰ of rounding error, as in `arithmetic.truncate_levels`
    equal = cv2.equalizeHist((mean + 2.0**-10).astype(np.uint8))
    return np.asarray(cv2.blur(cv2.filter2D(equal, cv2.CV_8U, np.array(EMBOSS)), (3, 3)))


def relief_in_torch(layer: Tensor) -> Tensor:
    """Return the result of `water_relief` in torch."""
    distance = edge_distance(canny(layer.to(torch.int32)))
    # sums of nine distances in units of 1/65,536 px stay integers
    mean = (_box3(distance) + 9 * FIXED // 1024) // (9 * FIXED)
    embossed = _emboss(_equalize(mean)).clamp_(0, 255)
    # a sum of nine is never halfway between two multiples of nine, so plain rounding suffices
    return ((_box3(embossed) * 2 + 9) // 18).to(torch.uint8)


def canny(levels: Tensor) -> Tensor:
    """Return bool edges of int32 gray images (B, 1, H, W), like OpenCV's Canny (3 × 3, L1)."""
    padded = pad(levels.to(torch.float32), (1, 1, 1, 1), mode="replicate").to(torch.int32)
    left, right = padded[..., :-2], padded[..., 2:]
    slope = right - left
    dx = slope[..., :-2, :] + 2 * slope[..., 1:-1, :] + slope[..., 2:, :]
    total = left + 2 * padded[..., 1:-1] + right
    dy = total[..., 2:, :] - total[..., :-2, :]
    strength = dx.abs() + dy.abs()
    # gradients beyond the border count as 0, so that pixels at the border can be edges
    around = pad(strength, (1, 1, 1, 1))

    def neighbor(down: int, across: int) -> Tensor:
        rows, columns = strength.shape[2:]
        return around[..., 1 + down : 1 + down + rows, 1 + across : 1 + across + columns]

    x = dx.abs().to(torch.int64)
    y = dy.abs().to(torch.int64) << 15
    # the direction of the gradient in sectors of 45°, computed with integers only
    flat = y < x * TANGENT
    # tan 67.5° = tan 22.5° + 2, and 2 is 1 << 16 in units of 2⁻¹⁵
    steep = y > x * TANGENT + (x << 16)
    # one comparison is strict and one is not, so that a ridge of two equal pixels keeps one
    along_x = (strength > neighbor(0, -1)) & (strength >= neighbor(0, 1))
    along_y = (strength > neighbor(-1, 0)) & (strength >= neighbor(1, 0))
    falling = (strength > neighbor(-1, -1)) & (strength > neighbor(1, 1))
    rising = (strength > neighbor(-1, 1)) & (strength > neighbor(1, -1))
    # y points down: with opposite signs, the gradient lies along the rising diagonal
    diagonal = torch.where((dx ^ dy) < 0, rising, falling)
    peak = torch.where(flat, along_x, torch.where(steep, along_y, diagonal))
    weak = peak & (strength > CANNY_LOW)
    # hysteresis: weak edges count only where they are connected to strong ones
    return _grow(weak & (strength > CANNY_HIGH), weak)


def _grow(edges: Tensor, allowed: Tensor) -> Tensor:
    """Return `edges` extended by all pixels of `allowed` that are connected to them."""
    inside = allowed.to(torch.float32)
    grown = edges.to(torch.float32)
    while True:
        before = grown
        # comparing synchronizes a GPU, so it is done only after every 16 steps
        for _ in range(16):
            grown = max_pool2d(grown, 3, stride=1, padding=1) * inside
        if torch.equal(before, grown):
            return grown > 0


def edge_distance(edges: Tensor) -> Tensor:
    """Return int32 chamfer distances to the nearest edge, in 1/65,536 px, at most `FARTHEST`."""
    limit = FARTHEST * FIXED
    distance = torch.where(edges, 0, limit).to(torch.int32)
    # A shortest path repeats one kind of move, then a second, then a third kind; doubling the step
    # reaches every number of repetitions in five rounds.
    for cost, moves in STEPS:
        for down, across in moves:
            for times in (1, 2, 4, 8, 16):
                # a longer jump would cost at least the limit and change nothing
                if times * cost < limit:
                    moved = _shifted(distance, times * down, times * across, limit)
                    distance = torch.minimum(distance, moved + times * cost)
    return distance


def _shifted(images: Tensor, down: int, across: int, fill: int) -> Tensor:
    """Return the images moved by whole pixels; pixels from outside the image become `fill`."""
    height, width = images.shape[2:]
    sides = (max(across, 0), max(-across, 0), max(down, 0), max(-down, 0))
    padded = pad(images, sides, value=fill)
    top, left = max(-down, 0), max(-across, 0)
    return padded[..., top : top + height, left : left + width]


def _mirrored(images: Tensor) -> Tensor:
    # torch mirrors floating-point tensors only; float64 holds every int32
    return pad(images.to(torch.float64), (1, 1, 1, 1), mode="reflect").to(images.dtype)


def _box3(images: Tensor) -> Tensor:
    """Return sums over 3 × 3 windows with mirrored borders, in the images' integer type."""
    padded = _mirrored(images)
    rows = padded[..., :-2, :] + padded[..., 1:-1, :] + padded[..., 2:, :]
    return rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]


def _equalize(images: Tensor) -> Tensor:
    """Return int32 values 0 … FARTHEST histogram-equalized to 0 … 255, per image."""
    counts = torch.stack(
        [(images == value).sum(dim=(1, 2, 3)) for value in range(FARTHEST + 1)], dim=1
    )
    pixels = images[0].numel()
    below = counts.cumsum(dim=1)
    # OpenCV maps the lowest occupied level to 0
    lowest = (counts > 0).to(torch.int32).argmax(dim=1, keepdim=True)
    first = counts.gather(1, lowest)
    # clamped for a constant image, whose table is replaced below
    scale = 255.0 / (pixels - first).clamp(min=1).to(torch.float32)
    table = torch.round((below - first).clamp(min=0).to(torch.float32) * scale).to(torch.int32)
    # a constant image is unchanged
    table = torch.where(first == pixels, lowest.to(torch.int32), table)
    flat = images.reshape(images.shape[0], -1).to(torch.int64)
    return table.gather(1, flat).reshape(images.shape)


def _emboss(images: Tensor) -> Tensor:
    padded = _mirrored(images)
    height, width = images.shape[2:]
    out = torch.zeros_like(images)
    for down, row in enumerate(EMBOSS):
        for across, weight in enumerate(row):
            if weight:
                out += weight * padded[..., down : down + height, across : across + width]
    return out
