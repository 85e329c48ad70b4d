"""Convert images to the gray levels on which VIF is defined."""

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.parallel import on_all_cores
from eyechart.corruptions.kernels.arithmetic import to_levels

# the sum is exactly 32768, so that white stays 255
WEIGHTS = (9798, 19235, 3735)
"""Weights of red, green and blue in units of 1/32768: Rec. 601 in integers, as in OpenCV."""

# half a unit is added before the shift, which would round down otherwise
HALF, SHIFT = 1 << 14, 15


def to_gray(batch: Tensor) -> Tensor:
    """Return images (B, C, H, W) as integer gray levels (B, H, W), uint8.

    Floats in [0, 1] are first rounded to 8 bits, as in a file.
    """
    levels = batch if batch.dtype == torch.uint8 else to_levels(batch).to(torch.uint8)
    if levels.shape[1] == 1:
        return levels[:, 0]
    if has_triton(levels.device):
        from eyechart.visual_change.vif.vif_triton import weigh_in_triton

        return weigh_in_triton(levels, WEIGHTS, HALF, SHIFT)
    if levels.device.type != "cpu":
        return _weighted(levels)
    # one image at a time stays within a CPU's cache
    gray = torch.empty_like(levels[:, 0])

    def work(index: int) -> None:
        gray[index] = _weighted(levels[index])

    on_all_cores(work, range(len(levels)))
    return gray


def _weighted(levels: Tensor) -> Tensor:
    red, green, blue = levels.unbind(dim=-3)
    # OpenCV's 15-bit formula; the 14-bit one differs for 0.26 % of all colors
    total = red.to(torch.int32).mul_(WEIGHTS[0])
    total.add_(green.to(torch.int32), alpha=WEIGHTS[1])
    total.add_(blue.to(torch.int32), alpha=WEIGHTS[2])
    return total.add_(HALF).bitwise_right_shift_(SHIFT).to(torch.uint8)


def to_gray_with_gradient(batch: Tensor) -> Tensor:
    """Return images in [0, 1] as unrounded gray levels (B, H, W), float64."""
    levels = batch.to(torch.float64) * 255
    if levels.shape[1] == 1:
        return levels[:, 0]
    # the same weights as above, without the rounding, which has no gradient
    weights = torch.tensor(WEIGHTS, dtype=torch.float64, device=batch.device) / (1 << SHIFT)
    return torch.einsum("bchw,c->bhw", levels, weights)
