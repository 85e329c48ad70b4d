"""Exact bilinear interpolation.

Gray levels are multiples of 1/64 and coordinates multiples of 1/32 px, so that every product and
every sum is exact in float32, in any order of summation.
"""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.kernels.arithmetic import copy_planes, pixels_of, uses_opencv
from eyechart.corruptions.kernels.filters import CV2_BORDERS, border_index

LARGEST_KEPT = 1 << 20
"""Coordinate maps for images with more pixels are not cached, because they need too much memory."""


def fine_levels(images: Tensor) -> Tensor:
    """Return images in [0, 1] as gray levels in steps of 1/64."""
    return (images * (255 * 64)).round_().mul_(1 / 64)


def sample_bilinear(levels: Tensor, rows: Tensor, columns: Tensor, border: str) -> Tensor:
    """Return gray levels (B, C, H, W) sampled at coordinates (B, H, W) in px.

    Levels must be multiples of 1/64 and coordinates of 1/32 px; see `border_index` for `border`.
    """
    if not uses_opencv(levels):
        return sample_in_torch(levels, rows, columns, border)
    out = torch.empty_like(levels)
    # the map is converted to fixed point once for all planes
    for source, target, x, y in zip(
        levels.numpy(), out.numpy(), columns.numpy(), rows.numpy(), strict=True
    ):
        whole, fraction = cv2.convertMaps(x, y, cv2.CV_16SC2)
        # OpenCV reads three interleaved channels twice as fast as three planes
        pixels = pixels_of(source)
        sampled = cv2.remap(pixels, whole, fraction, cv2.INTER_LINEAR, None, CV2_BORDERS[border])
        copy_planes(sampled, target)
    return out


def sample_in_torch(levels: Tensor, rows: Tensor, columns: Tensor, border: str) -> Tensor:
    """Return the result of `sample_bilinear` in torch."""
    batch, channels, height, width = levels.shape
    # weights are multiples of 1/32 and levels of 1/64, so that every product is exact
    top, left = torch.floor(rows), torch.floor(columns)
    down, across = (rows - top).flatten(1)[:, None], (columns - left).flatten(1)[:, None]
    top, left = top.to(torch.int64), left.to(torch.int64)
    upper, lower = (border_index(top + step, height, border) * width for step in (0, 1))
    before, after = (border_index(left + step, width, border) for step in (0, 1))
    flat = levels.reshape(batch, channels, height * width)

    def at(row: Tensor, column: Tensor) -> Tensor:
        index = (row + column).reshape(batch, 1, -1).expand(-1, channels, -1)
        return flat.gather(2, index)

    above = at(upper, before) * (1 - across) + at(upper, after) * across
    below = at(lower, before) * (1 - across) + at(lower, after) * across
    return (above * (1 - down) + below * down).reshape(levels.shape)


def add_zooms(levels: Tensor, factors: NDArray[np.float64]) -> Tensor:
    """Return the gray levels (B, C, H, W) plus their enlargements by all factors."""
    if has_triton(levels.device) and len(factors):
        from eyechart.corruptions.kernels.shuffle_triton import add_zooms_in_triton

        places = ([_zoom_places(side, float(f)) for f in factors] for side in levels.shape[2:])
        rows, columns = (np.stack(coordinates) for coordinates in places)
        return add_zooms_in_triton(levels, rows, columns)
    if not uses_opencv(levels):
        total = levels.clone()
        for factor in factors:
            total += enlarge(levels, float(factor))
        return total
    out = torch.empty_like(levels)
    height, width = levels.shape[2:]
    for source, target in zip(levels.numpy(), out.numpy(), strict=True):
        # interleaved, as in `sample_bilinear`
        pixels = pixels_of(source)
        added, large = pixels.copy(), np.empty_like(pixels)
        for factor in factors:
            maps = _zoom_maps(height, width, float(factor))
            added += cv2.remap(pixels, *maps, cv2.INTER_LINEAR, large)
        copy_planes(added, target)
    return out


def enlarge(levels: Tensor, factor: float) -> Tensor:
    """Return the center of the gray levels (B, C, H, W), enlarged to the size of the image."""
    if factor == 1:
        return levels
    height, width = levels.shape[-2:]
    if uses_opencv(levels):
        maps = _zoom_maps(height, width, factor)
        out = torch.empty_like(levels)
        for source, target in zip(levels.numpy(), out.numpy(), strict=True):
            for plane, result in zip(source, target, strict=True):
                cv2.remap(plane, *maps, cv2.INTER_LINEAR, result)
        return out
    wide = _between(levels, _zoom_places(width, factor), dim=3)
    return _between(wide, _zoom_places(height, factor), dim=2)


def _zoom_places(side: int, factor: float) -> NDArray[np.float64]:
    """Return the source coordinates of the enlarged pixels along one axis, in multiples of 1/32 px.

    The center is cropped to the smallest integer size that fills the image when enlarged. The
    corners of the crop are mapped to the corners of its enlargement, and the excess is trimmed
    equally at both ends.
    """
    # as in the published clipped_zoom
    crop = int(np.ceil(side / factor))
    large = max(side, round(crop * factor))
    position = (np.arange(side) + (large - side) // 2) * ((crop - 1) / max(1, large - 1))
    return np.asarray(np.floor(position * 32 + 0.5) / 32 + (side - crop) // 2)


def _zoom_maps(height: int, width: int, factor: float) -> tuple[Any, Any]:
    """Return the source coordinates as fixed-point maps for OpenCV, cached for small images."""
    make = _new_zoom_maps if height * width <= LARGEST_KEPT else _new_zoom_maps.__wrapped__
    return make(height, width, factor)


@lru_cache(maxsize=64)
def _new_zoom_maps(height: int, width: int, factor: float) -> tuple[Any, Any]:
    rows, columns = _zoom_places(height, factor), _zoom_places(width, factor)
    x, y = np.meshgrid(columns.astype(np.float32), rows.astype(np.float32))
    return cv2.convertMaps(x, y, cv2.CV_16SC2)


def _between(levels: Tensor, places: NDArray[np.float64], dim: int) -> Tensor:
    """Interpolate linearly along one dimension."""
    before = np.floor(places)
    share = torch.from_numpy((places - before).astype(np.float32)).to(levels.device)
    share = share.reshape((-1, 1) if dim == 2 else (1, -1))
    index = torch.from_numpy(before.astype(np.int64)).to(levels.device)
    nearer = levels.index_select(dim, index)
    # at the last pixel the weight of its neighbor is 0; the index only has to be valid
    farther = levels.index_select(dim, (index + 1).clamp(max=levels.shape[dim] - 1))
    return nearer.lerp_(farther, share)
