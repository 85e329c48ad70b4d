"""Maps that show where in an image information was lost."""

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import one_of
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.vif.fidelity import clean_terms, kept_terms
from eyechart.visual_change.vif.filters import BLOCK, dropped_blocks, window_side
from eyechart.visual_change.vif.pyramid import subbands
from eyechart.visual_change.vif.rulers import VIF_RULERS, SubbandRuler
from eyechart.visual_change.vif.statistics import CleanStatistics


def find_mapped(name: str) -> SubbandRuler:
    """Return the ruler with this name; raise a UsageError if it does not support maps."""
    ruler = find_ruler(name)
    if not isinstance(ruler, SubbandRuler):
        mapped = [known.name for known in VIF_RULERS if isinstance(known, SubbandRuler)]
        raise UsageError(f"--map needs a ruler with subbands: {one_of(mapped)}.")
    return ruler


def losses_by_scale(clean: CleanStatistics, corrupted: Tensor) -> list[Tensor]:
    """Return the contribution of every inner block (B, n, m) to 1 − VIF, finest scale first.

    The means over the blocks of a scale, summed over scales, give 1 − VIF. The sum is negative if
    contrast was increased.
    """
    count = len(clean.scales)
    losses = []
    for level, bands in enumerate(subbands(corrupted, count, clean.dtype)):
        scale = clean.scales[level].part(slice(0, len(corrupted)))
        window = window_side(level, count)
        lost = clean_terms(scale, clean.definition) - kept_terms(
            scale, bands, window, clean.definition
        )
        # the loss of a block is weighted in the same way as its subband is pooled
        weight = 1 if clean.definition.equal_bands else scale.blocks
        # an image without information has a total of 0
        total = clean.total[:, None, None].clamp_min(torch.finfo(torch.float64).tiny)
        losses.append(lost.sum(dim=1) * weight / total)
    return losses


def loss_map(clean: CleanStatistics, corrupted: Tensor) -> Tensor:
    """Return a map (B, H, W) of the lost information, whose mean is approximately 1 − VIF.

    A value of 1 is the clean image's average information per pixel. Values are interpolated between
    the blocks of a scale, and constant outside the outermost blocks, in the border that VIF leaves
    out.
    """
    count = len(clean.scales)
    height, width = corrupted.shape[1:]
    total = torch.zeros((len(corrupted), height, width), dtype=torch.float64)
    for level, losses in enumerate(losses_by_scale(clean, corrupted)):
        dropped = dropped_blocks(window_side(level, count))
        rows, columns = (
            _interpolation(side, blocks, dropped, 2**level)
            for side, blocks in zip((height, width), losses.shape[1:], strict=True)
        )
        total += rows @ losses.cpu() @ columns.T
    return total


def _interpolation(side: int, blocks: int, dropped: int, step: int) -> Tensor:
    """Return the matrix (side, blocks) that maps a line of blocks to a line of pixels."""
    pixels = torch.arange(side, dtype=torch.float64)
    # clamped, so that values continue unchanged beyond the outermost blocks
    position = ((pixels / step - BLOCK // 2) / BLOCK - dropped).clamp(0, blocks - 1)
    distance = (position[:, None] - torch.arange(blocks)).abs()
    return (1 - distance).clamp_min(0)
