"""Sum all enlargements of an image in one Triton kernel; CUDA builds of torch include Triton."""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _add_zooms(levels, total, rows, columns, factors, height, width, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add every enlargement of one line of pixels to the line itself.

    Coordinates are in 1/32 px, so that all products and all sums except the last one are exact, as
    in the other implementations.
    """
    line = tl.program_id(0)
    y = line % height
    x = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = x < width
    plane = levels + (line // height) * height * width
    out = tl.load(plane + y * width + x, mask=inside, other=0.0)
    for number in range(factors):
        place_down = tl.load(rows + number * height + y)
        place_across = tl.load(columns + number * width + x, mask=inside, other=0)
        top, left = place_down >> 5, place_across >> 5
        # beyond the last row or column the weight is 0; the index only has to be valid
        bottom = tl.minimum(top + 1, height - 1)
        right = tl.minimum(left + 1, width - 1)
        down = (place_down & 31).to(tl.float32) * 0.03125
        across = (place_across & 31).to(tl.float32) * 0.03125
        upper = tl.load(plane + top * width + left, mask=inside, other=0.0) * (1 - across)
        upper += tl.load(plane + top * width + right, mask=inside, other=0.0) * across
        lower = tl.load(plane + bottom * width + left, mask=inside, other=0.0) * (1 - across)
        lower += tl.load(plane + bottom * width + right, mask=inside, other=0.0) * across
        out += upper * (1 - down) + lower * down
    tl.store(total + line * width + x, out, mask=inside)


def add_zooms(levels: Tensor, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Tensor:
    """Return the levels (B, C, H, W) plus their enlargements, sampled at (n, H) and (n, W)."""
    height, width = levels.shape[2:]
    down, across = (
        torch.from_numpy(np.round(coordinates * 32).astype(np.int32)).to(levels.device)
        for coordinates in (rows, columns)
    )
    out = torch.empty_like(levels)
    grid = (levels.shape[0] * levels.shape[1] * height, triton.cdiv(width, BLOCK))
    _add_zooms[grid](levels, out, down, across, len(rows), height, width, BLOCK=BLOCK)
    return out
