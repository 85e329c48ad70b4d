"""The supported definitions of VIF, which differ far more than their common name suggests."""

from dataclasses import dataclass

import torch
from torch import Tensor

FLAT = 1e-15
"""A window whose variance (in squared gray levels) is below this has no structure."""


@dataclass(frozen=True)
class Definition:
    """The parameters that distinguish one definition from another.

    Attributes:
        noise_variance: σ_n² of the visual noise, in squared gray levels.
        equal_bands: whether every subband has the same weight (means over its blocks), rather than
            a weight proportional to its number of blocks (sums).
        stabilizer: added to the information of each subband.
        sample_covariance: whether covariances are divided by N − 1 instead of N.
        summed_noise: whether sums over the window, rather than means, determine which windows are
            flat, and are used as the noise if the channel has no gain, as in the first published
            code.
        scale_weights: the weight of each scale, finest first; all scales have the same weight if
            empty.
        summary: what is measured, as a sentence.
    """

    name: str
    noise_variance: float
    equal_bands: bool = False
    stabilizer: float = 0.0
    sample_covariance: bool = False
    summed_noise: bool = False
    scale_weights: tuple[float, ...] = ()
    summary: str = ""

    def pooled(self, sums: Tensor, blocks: int, level: int) -> Tensor:
        """Return the contribution of one scale's subbands (B, 2) to a sum over scales, (B,)."""
        # with sums the finest scale dominates, as it has the most blocks
        weighted = sums / blocks if self.equal_bands else sums
        pooled = (weighted + self.stabilizer).sum(dim=-1)
        return pooled * self.scale_weights[level] if self.scale_weights else pooled

    def flat(self, window: int) -> float:
        """Return the variance below which a window has no structure."""
        return FLAT / window**2 if self.summed_noise else FLAT

    def gainless(self, window: int) -> float:
        """Return the noise variance relative to the corrupted image's variance if the gain is 0."""
        return float(window**2) if self.summed_noise else 1.0


def share(kept: Tensor, total: Tensor) -> Tensor:
    """Return kept / total, or 1 if the total is 0, because then nothing can be lost."""
    # the inner `where` keeps 0 / 0 out of the gradient, which would be NaN although it is not
    # selected
    is_positive = total > 0
    return torch.where(is_positive, kept / torch.where(is_positive, total, 1.0), 1.0)


VCR = Definition(
    "vif",
    0.1,
    equal_bands=True,
    stabilizer=1e-4,
    sample_covariance=True,
    summary="Information lost in subbands: 1 − VIF as in the VCR study.",
)
"""The definition that VCR-Bench uses."""

SHEIKH2006 = Definition(
    "sheikh2006",
    0.4,
    summed_noise=True,
    summary="Information lost in subbands: 1 − VIF as in the first published code.",
)
"""The definition in vifvec, the authors' first code; the finest scale dominates."""

PIXEL = Definition("vif-pixel", 2.0, summary="Information lost between pixels: 1 − VIFp.")
"""VIFp, without a pyramid; piq, torchmetrics and sewar compute the same for gray images with values
from 0 to 255 (docs/visual_change.md has the differences for color)."""

HUMAN = Definition(
    "vif-human",
    1.0,
    equal_bands=True,
    stabilizer=1e-4,
    sample_covariance=True,
    # 2^(−level / 2): finer scales count more
    scale_weights=(1.0, 0.7071, 0.5, 0.3536),
    summary="Information lost after registration, with visual noise and scale weights fitted to"
    " human accuracy.",
)
"""The definition of VCR with noise and weights fitted to humans, for registered images.

The values are those of `eyechart rulers study --fit` on 80 images (docs/rulers.md).
"""
