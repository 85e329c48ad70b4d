"""Moving pixels to random places near by, for the glass blurs."""

import numpy as np
import torch
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Values

DOUBLINGS = 6
"""2⁶ = 64 links: longer chains of copies have a chance of about 10⁻¹⁴ in a picture of 224 px."""


def copy_from_neighbours(
    images: Tensor, random: ImageRandom, reach: Values, passes: Values
) -> Tensor:
    """Return the images after `passes` sweeps that overwrite each pixel with a random neighbour.

    A sweep runs from the lower right to the upper left, as the published loop does, so a pixel may
    copy what was itself just overwritten. The copies form chains; following all chains at once by
    doubling gives exactly the loop's result.
    """
    batch, channels, height, width = images.shape
    pixels = height * width
    here = torch.arange(pixels, device=images.device)
    source = here.expand(batch, -1)
    for sweep in range(int(passes.max())):
        jump = _one_sweep(random, f"sweep {sweep}", np.where(passes > sweep, reach, 0), height, width)
        source = source.gather(1, jump)
    flat = images.reshape(batch, channels, pixels)
    return flat.gather(2, source[:, None].expand(-1, channels, -1)).reshape(images.shape)


def _one_sweep(
    random: ImageRandom, stream: str, reach: Values, height: int, width: int
) -> Tensor:
    """Return (B, pixels): where each pixel's content comes from after one sweep."""
    device, pixels = random.device, height * width
    delta = torch.from_numpy(reach.astype(np.int64)).to(device).reshape(-1, 1, 1, 1)
    # offsets −δ … δ − 1, as the published code draws them
    halves = random.halves(stream, 2 * pixels).reshape(-1, 2, height, width)
    offset = ((halves * (2 * delta)) >> 16) - delta
    rows = torch.arange(height, device=device)[:, None]
    columns = torch.arange(width, device=device)
    delta = delta[:, 0]
    visited = (
        (rows > delta) & (rows <= height - delta) & (columns > delta) & (columns <= width - delta)
    ) & (delta > 0)
    here = rows * width + columns
    target = torch.where(visited, here + offset[:, 0] * width + offset[:, 1], here).flatten(1)
    # A target that comes later in the picture was overwritten before: its own source counts.
    # Sources that are final are marked by adding `pixels`.
    seen = visited.flatten(1).gather(1, target) & (target > here.flatten())
    jump = torch.where(seen, target, target + pixels)
    return _follow_chains(jump, pixels) - pixels


def _follow_chains(jump: Tensor, pixels: int) -> Tensor:
    """Return the final source of every pixel; values from `pixels` on are final already."""
    if jump.device.type == "cpu":
        for own in jump:
            pending = (own < pixels).nonzero()[:, 0]
            while len(pending):
                own[pending] = own[own[pending]]
                pending = pending[own[pending] < pixels]
        return jump
    final = torch.arange(pixels, 2 * pixels, device=jump.device).expand(jump.shape[0], -1)
    for _ in range(DOUBLINGS):
        jump = torch.cat((jump, final), dim=1).gather(1, jump)
    return jump


def swap_neighbours(images: Tensor, random: ImageRandom, reach: Values) -> Tensor:
    """Return the images with their pixels permuted at random, moves of about `reach` px each way.

    Along every row, and then along every column, pixels are put in the order of their place plus a
    random shift. No pixel is lost and none is doubled.
    """
    mixed = images
    for dim, stream in ((3, "across"), (2, "down")):
        order = _jittered_order(random, stream, reach, images.shape[2:], dim)
        mixed = mixed.gather(dim, order.expand(-1, images.shape[1], -1, -1))
    return mixed


def _widest_shift(reach: Values) -> Values:
    """Return the random shift that moves pixels, on average, as far as a sequence of swaps would.

    Fitted to the loop that swaps every pixel in turn with one at −reach … reach − 1: its mean move
    is 0.87, 1.35, 2.55 and 5.65 px along each axis for a reach of 1, 2, 4 and 9.
    """
    return np.asarray(1.2 * reach + 0.8 * np.minimum(reach, 1))


def _jittered_order(
    random: ImageRandom, stream: str, reach: Values, size: torch.Size, dim: int
) -> Tensor:
    height, width = size
    limit = np.round(_widest_shift(reach) * 256).astype(np.int64)
    spread = torch.from_numpy(limit).to(random.device).reshape(-1, 1, 1, 1)
    halves = random.halves(stream, height * width).reshape(-1, 1, height, width)
    shift = ((halves - 32_768) * spread) >> 15
    place = torch.arange(size[dim - 2], device=random.device)
    place = place.reshape((-1, 1) if dim == 2 else (1, -1))
    keys = (place * 256 + shift).to(torch.int32)
    return torch.sort(keys, dim=dim, stable=True).indices
