"""The definitions of VIF in use: they differ far more than their common name suggests."""

from dataclasses import dataclass

import torch
from torch import Tensor

FLAT = 1e-15
"""A window whose variance (grey levels²) is below this has no structure."""


@dataclass(frozen=True)
class Definition:
    """What sets one definition apart from another.

    `noise_variance`: σ_n² of the eye's own noise, in squared grey levels. `equal_bands`: every
    subband weighs the same (means over its blocks), or as much as it has blocks (sums).
    `stabiliser`: added to the information of each subband. `sample_covariance`: divided by N − 1,
    or by N. `summed_noise`: sums over the window, not means, decide what is flat, and are the noise
    where the channel has no gain, as in the first published code.
    """

    name: str
    noise_variance: float
    equal_bands: bool = False
    stabiliser: float = 0.0
    sample_covariance: bool = False
    summed_noise: bool = False

    def pooled(self, sums: Tensor, blocks: int) -> Tensor:
        """Return what the subbands (B, 2) of one scale add to numerator or denominator, (B,)."""
        weighted = sums / blocks if self.equal_bands else sums
        return (weighted + self.stabiliser).sum(dim=-1)

    def flat(self, window: int) -> float:
        """Return the variance below which a window has no structure."""
        return FLAT / window**2 if self.summed_noise else FLAT

    def gainless(self, window: int) -> float:
        """Return how many variances of the corrupted image its noise is where gain is nil."""
        return float(window**2) if self.summed_noise else 1.0


def share(kept: Tensor, total: Tensor) -> Tensor:
    """Return kept / total; 1 where there is nothing, for then nothing can be lost."""
    is_positive = total > 0
    return torch.where(is_positive, kept / torch.where(is_positive, total, 1.0), 1.0)


VCR = Definition("vcr", 0.1, equal_bands=True, stabiliser=1e-4, sample_covariance=True)
"""As VCR-Bench uses it."""

SHEIKH2006 = Definition("sheikh2006", 0.4, summed_noise=True)
"""As in the authors' first code, vifvec: the finest scale dominates."""

PIXEL = Definition("pixel", 2.0)
"""VIFp: no pyramid; what piq, torchmetrics and sewar compute on each grey image."""
