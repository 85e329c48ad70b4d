"""Resample images: resizing, block averages, box filters and exact bilinear interpolation.

Matrices, one per image and axis, and their products are in float64, and results are rounded to the
grid of `arithmetic.snap`, so that devices and batch sizes agree. 8-bit images are shrunk to blocks
like by the BOX filter of Pillow, to the bit, in a third of its time.

For interpolation, gray levels are multiples of 1/64 and coordinates multiples of 1/32 px, so that
every product and every sum is exact in float32, in any order of summation.
"""

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.arithmetic import copy_planes, pixels_of, snap, uses_opencv
from eyechart.corruptions.kernels.filters import CV2_BORDERS, border_index

LARGEST_AT_ONCE = 1 << 21
"""Images with more pixels are resampled plane by plane, smaller images in whole batches."""

LONGEST_KEPT = 1024
"""Matrices for longer sides are not cached, because they would fill the memory."""


def along_both(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Return down · image · acrossᵀ per channel; matrices are (B or 1, size, size) float64."""
    if images[0, 0].numel() <= LARGEST_AT_ONCE:
        out = torch.matmul(images.to(torch.float64), across[:, None].mT)
        return snap(torch.matmul(down[:, None], out))
    result = torch.empty_like(images)
    # plane by plane, because a large image in float64 takes much memory
    for index, channels in enumerate(images):
        own_down, own_across = (
            matrices[index if len(matrices) > 1 else 0] for matrices in (down, across)
        )
        for plane, target in zip(channels, result[index], strict=True):
            wide = torch.matmul(plane.to(torch.float64), own_across.mT)
            target.copy_(snap(torch.matmul(own_down, wide)))
    return result


def bilinear_matrix(
    first: Values, source: Values, target: Values, rows: int, columns: int, device: torch.device
) -> Tensor:
    """Return (B, rows, columns) matrices that resize `source` pixels to `target` pixels.

    `first`: index of the first source pixel.

    Like Pillow's BILINEAR, the filter is a triangle that widens when the image shrinks, cut off and
    normalized at the edges. Rows from index `target` on are zero.
    """
    start, length, wanted = (
        torch.from_numpy(array).to(device).reshape(-1, 1, 1) for array in (first, source, target)
    )
    row = torch.arange(rows, device=device, dtype=torch.float64).reshape(-1, 1)
    column = torch.arange(columns, device=device, dtype=torch.float64) - start
    scale = length / wanted
    # clamped: where an image is enlarged, the triangle keeps a radius of one source pixel
    distance = (column + 0.5 - (row + 0.5) * scale).abs_().div_(scale.clamp(min=1))
    weights = (1 - distance).clamp_(min=0)
    weights *= (column >= 0) & (column < length) & (row < wanted)
    # rows from `target` on have no weights: 0 / 1e-9 keeps them zero
    return weights / weights.sum(dim=2, keepdim=True).clamp_(min=1e-9)


def thumbnail_matrix(factor: Values, size: int, device: torch.device) -> Tensor:
    """Return (B, size, size) matrices that shrink to int(size / factor) pixels, then enlarge."""
    # the small addition makes 224 / (224 / 200) exactly 200
    small = np.maximum(np.floor(size / factor + 1e-9), 1)
    # one shape for the batch; rows beyond the size of a smaller image are zero
    most = int(small.max())
    nothing, full = np.zeros_like(small), np.full_like(small, size)
    shrink = bilinear_matrix(nothing, full, small, most, size, device)
    grow = bilinear_matrix(nothing, small, full, size, most, device)
    return torch.matmul(grow, shrink)


def block_matrix(block: Values, size: int, device: torch.device) -> Tensor:
    """Return (B, size, size) matrices that average over blocks of `block` pixels.

    The last block is shorter if it does not fit.
    """
    length = torch.from_numpy(block).to(device).reshape(-1, 1, 1)
    number = torch.floor(torch.arange(size, device=device, dtype=torch.float64) / length)
    same = (number == number.mT).to(torch.float64)
    return same / same.sum(dim=2, keepdim=True)


@lru_cache(maxsize=64)
def _box_power(side: int, size: int, times: int) -> Tensor:
    index = np.arange(size)
    band = np.abs(index[:, None] - index) <= side // 2
    return torch.from_numpy(np.linalg.matrix_power(band / side, times))


def box_matrix(side: Values, size: int, times: int, device: torch.device) -> Tensor:
    """Return matrices that apply a box filter of `side` (odd) pixels `times` times.

    Values outside the image are 0. The shape of the matrices is (1, size, size) if all images have
    the same side, otherwise (B, size, size).
    """
    sides = [int(one) for one in side]
    if len(set(sides)) == 1:
        sides = sides[:1]
    power = _box_power if size <= LONGEST_KEPT else _box_power.__wrapped__
    return torch.stack([power(one, size, times) for one in sides]).to(device)


FIXED = 1 << 22
"""Pillow stores its 8-bit resizing weights as multiples of 2⁻²²."""


def shrink_to_blocks(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the uint8 images (B, C, H, W) shrunk to (height, width) by averaging blocks."""
    if levels.device.type != "cpu":
        return shrink_in_torch(levels, size)
    batch, channels, height, width = levels.shape
    # first horizontally, then vertically, as Pillow does for square images; rows are summed faster
    # than columns
    columns = cv2.transpose(levels.reshape(-1, width).numpy())
    narrow = cv2.transpose(_shrink_rows(columns[None], size[1])[0])
    planes = _shrink_rows(narrow.reshape(-1, height, size[1]), size[0])
    return torch.from_numpy(planes.reshape(batch, channels, *size))


def _shrink_rows(planes: NDArray[Any], after: int) -> NDArray[np.uint8]:
    """Return planes (P, rows, columns) with blocks of rows averaged, `after` blocks in total."""
    first, count, weight = _blocks(planes.shape[1], after)
    longest = int(count.max())
    # 16-bit sums are faster, and suffice if the longest block of white pixels fits
    small = longest * 255 < 1 << 16
    total: NDArray[Any] = planes.take(first, axis=1).astype(np.uint16 if small else np.uint32)
    for step in range(1, longest):
        longer = np.flatnonzero(count > step)
        total[:, longer] += planes.take(first[longer] + step, axis=1)
    # all weights of a block are equal
    means = total.astype(np.uint32)
    means *= weight[:, None]
    # one half in fixed point, so that the shift rounds as in Pillow
    means += np.uint32(FIXED // 2)
    means >>= np.uint32(FIXED.bit_length() - 1)
    return means.astype(np.uint8)


@lru_cache(maxsize=256)
def _blocks(before: int, after: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return the first pixel, the number of pixels and the weight of each block."""
    weights = _block_means(before, after).numpy()
    first, count = (weights > 0).argmax(axis=1), (weights > 0).sum(axis=1)
    return first, count, weights.max(axis=1).astype(np.uint32)


def shrink_in_torch(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the result of `shrink_to_blocks`, by exact float64 products of integer matrices."""
    across = _block_means(levels.shape[3], size[1]).to(levels.device)
    out = _round(torch.matmul(levels.to(torch.float64), across.T))
    down = _block_means(levels.shape[2], size[0]).to(levels.device)
    return _round(torch.matmul(down, out)).to(torch.uint8)


def _round(values: Tensor) -> Tensor:
    return torch.floor(values / FIXED + 0.5)


@lru_cache(maxsize=256)
def _block_means(before: int, after: int) -> Tensor:
    """Return Pillow's weights in units of 2⁻²², as a float64 matrix (after, before)."""
    # the same operations as in Pillow, since rounding matters where a block's edge is halfway
    scale = before / after
    center = (np.arange(after)[:, None] + 0.5) * scale
    first, last = (center - 0.5 * scale + 0.5).astype(int), (center + 0.5 * scale + 0.5).astype(int)
    position = np.arange(before)
    distance = (position - center + 0.5) * (1 / scale)
    inside = (position >= first) & (position < last) & (distance > -0.5) & (distance <= 0.5)
    means = inside / inside.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.floor(means * FIXED + 0.5))


def enlarge_blocks(levels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the images enlarged to (height, width) by nearest neighbor."""
    if levels.device.type == "cpu":
        batch, channels, height, width = levels.shape
        # copying rows is faster than columns
        columns = cv2.transpose(levels.reshape(-1, width).numpy())
        wide = columns.take(_nearest(width, size[1]), axis=0)
        planes = cv2.transpose(wide).reshape(batch, channels, height, size[1])
        return torch.from_numpy(planes.take(_nearest(height, size[0]), axis=2))
    for dim, after in ((3, size[1]), (2, size[0])):
        source = torch.from_numpy(_nearest(levels.shape[dim], after)).to(levels.device)
        levels = levels.index_select(dim, source)
    return levels


def _nearest(before: int, after: int) -> NDArray[np.int64]:
    """Return ⌊(i + ½) · before / after⌋ for each new pixel, in integers without rounding error."""
    return ((np.arange(after) * 2 + 1) * before) // (2 * after)


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
        from eyechart.corruptions.kernels.neighborhood_triton import add_zooms_in_triton

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
