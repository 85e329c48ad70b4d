"""Move pixels to random nearby positions, for the glass blurs."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Values

DOUBLINGS = 6
"""Number of rounds of doubling, enough for chains of 2⁶ = 64 copies; a longer chain occurs in a 224
px image with a probability of about 10⁻¹⁴.
"""


def copy_from_neighbors(
    images: Tensor, random: ImageRandom, reach: Values, passes: Values
) -> Tensor:
    """Return the images after `passes` sweeps that overwrite each pixel with a random neighbor.

    A sweep runs from the lower right to the upper left, as in the published loop, so a pixel may be
    copied from one that was itself just overwritten. The copies form chains; following all chains
    at once gives exactly the result of the loop.
    """
    if images.device.type == "cpu":
        return _copy_in_numpy(images, random, reach, passes)
    batch, channels, height, width = images.shape
    source = torch.arange(height * width, device=images.device).expand(batch, -1)
    for sweep in range(int(passes.max())):
        sweep_reach = np.where(passes > sweep, reach, 0).astype(np.int64)
        halves = random.halves(f"sweep {sweep}", 2 * height * width)
        delta = torch.from_numpy(sweep_reach).to(images.device)
        jump = _sweep_in_torch(halves.reshape(batch, 2, height, width), delta)
        source = source.gather(1, jump)
    flat = images.reshape(batch, channels, height * width)
    return flat.gather(2, source[:, None].expand(-1, channels, -1)).reshape(images.shape)


def _copy_in_numpy(images: Tensor, random: ImageRandom, reach: Values, passes: Values) -> Tensor:
    """Return the result of `copy_from_neighbors` on the CPU, image by image and sweep by sweep."""
    height, width = images.shape[2:]
    out = torch.empty_like(images, memory_format=torch.contiguous_format)
    for index, (channels, targets) in enumerate(zip(images, out, strict=True)):
        one = random.part(index, index + 1)
        source = torch.arange(height * width, dtype=torch.int32)
        for sweep in range(int(passes[index])):
            halves = one.halves(f"sweep {sweep}", 2 * height * width)
            jump = _sweep_in_numpy(halves.reshape(2, height, width).numpy(), int(reach[index]))
            source = source.index_select(0, torch.from_numpy(jump))
        for plane, target in zip(channels, targets, strict=True):
            torch.index_select(plane.flatten(), 0, source, out=target.view(-1))
    return out


def _sweep_in_torch(halves: Tensor, reach: Tensor) -> Tensor:
    """Return the index of the source of each pixel after one sweep, (B, pixels).

    `halves` (B, 2, H, W) are 16-bit random numbers for the offsets −reach … reach − 1.
    """
    height, width = halves.shape[2:]
    delta = reach.reshape(-1, 1, 1)
    rows = torch.arange(height, device=halves.device)[:, None]
    columns = torch.arange(width, device=halves.device)
    # the published loop skips the margins
    visited = (delta > 0) & (rows > delta) & (rows <= height - delta)
    visited = visited & (columns > delta) & (columns <= width - delta)
    down, across = (((halves[:, k] * (2 * delta)) >> 16) - delta for k in (0, 1))
    source = rows * width + columns
    target = torch.where(visited, source + down * width + across, source).flatten(1)
    # A target that comes later in the image was overwritten before, so its own source counts.
    # Final sources are marked by adding the number of pixels.
    pixels = height * width
    seen = visited.flatten(1).gather(1, target) & (target > source.flatten())
    jump = torch.where(seen, target, target + pixels)
    final = torch.arange(pixels, 2 * pixels, device=jump.device).expand(jump.shape[0], -1)
    # pointer doubling: after k rounds chains of 2^k links are resolved
    for _ in range(DOUBLINGS):
        jump = torch.cat((jump, final), dim=1).gather(1, jump)
    return jump - pixels


BAND_PIXELS = 1 << 17
"""Number of pixels that a sweep processes at once, so that they stay in the CPU's cache."""


def _sweep_in_numpy(halves: NDArray[np.int32], reach: int) -> NDArray[np.int32]:
    """Return the result of `_sweep_in_torch` for one image (2, H, W).

    Only unresolved chains are followed.

    Bands of rows are processed from the bottom up, as in the loop: all sources below a band are
    already final.
    """
    height, width = halves.shape[1:]
    grid = np.arange(height * width, dtype=np.int32).reshape(height, width)
    source = grid.ravel()
    if reach == 0 or min(height, width) <= 2 * reach:
        return source
    # the rows and columns that the loop visits
    first, last = reach + 1, height - reach + 1
    columns = slice(reach + 1, width - reach + 1)
    visited = np.zeros((height, width), dtype=bool)
    going_on = np.zeros(height * width, dtype=bool)
    step = max(1, BAND_PIXELS // width)
    for stop in range(last, first, -step):
        inside = (slice(max(first, stop - step), stop), columns)
        visited[inside] = True
        current = grid[inside].copy()
        down, across = (((halves[k][inside] * (2 * reach)) >> 16) - reach for k in (0, 1))
        target = current + (down * width + across)
        grid[inside] = target
        later = np.flatnonzero(target > current)
        # `take` reads faster than indexing does
        pixels, targets = current.ravel().take(later), target.ravel().take(later)
        pixels = pixels[visited.ravel().take(targets)]
        # unresolved: pixels whose source was itself overwritten before
        going_on[pixels] = True
        while len(pixels):
            through = source.take(pixels)
            further = going_on.take(through)
            source[pixels] = source.take(through)
            going_on[pixels] = further
            pixels = pixels[further]
    return source


def swap_neighbors(images: Tensor, random: ImageRandom, reach: Values) -> Tensor:
    """Return the images with pixels moved at random, by about `reach` px along each axis.

    Along every row, and then along every column, pixels are sorted by their position plus a random
    shift. No pixel is lost or duplicated.
    """
    # fitted to a loop that swaps every pixel in turn with a pixel at an offset of −reach …
    # reach − 1, whose mean displacement is 0.87, 1.35, 2.55 and 5.65 px along each axis for a reach
    # of 1, 2, 4 and 9
    widest_shift = 1.2 * reach + 0.8 * np.minimum(reach, 1)
    # in 1/256 px: integers sort alike on every device
    limit = np.round(widest_shift * 256).astype(np.int64)
    mixed = images
    for dim, stream in ((3, "across"), (2, "down")):
        halves = random.halves(stream, images.shape[2] * images.shape[3])
        if has_triton(images.device):
            from eyechart.corruptions.kernels.neighborhood_triton import swap_in_triton

            mixed = swap_in_triton(mixed, halves, limit, down=dim == 2)
        else:
            mixed = swap_by_sorting(mixed, halves, limit, dim)
    return mixed


def swap_by_sorting(images: Tensor, halves: Tensor, limit: NDArray[np.int64], dim: int) -> Tensor:
    """Return the images with pixels moved along one axis, in the order of jittered positions.

    `halves` (B, pixels) are 16-bit random numbers; `limit` is the maximum shift of each image in
    1/256 px.
    """
    channels, height, width = images.shape[1:]
    spread = torch.from_numpy(limit).to(images.device).reshape(-1, 1, 1, 1)
    shift = ((halves.reshape(-1, 1, height, width) - 32_768) * spread) >> 15
    position = torch.arange(images.shape[dim], device=images.device)
    position = position.reshape((-1, 1) if dim == 2 else (1, -1))
    keys = (position * 256 + shift).to(torch.int32)
    # unlike a sequence of swaps, sorting can be done in parallel
    # stable: equal keys keep their order on every device
    order = torch.sort(keys, dim=dim, stable=True).indices
    return images.gather(dim, order.expand(-1, channels, -1, -1))
