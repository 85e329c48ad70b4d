"""VIF over what a corrupted image shows of the clean one, which was moved in the same way."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eyechart.visual_change.registration.view import View
from eyechart.visual_change.vif.channel import gain_and_noise, window_covariance, window_moments
from eyechart.visual_change.vif.definitions import FLAT, Definition
from eyechart.visual_change.vif.fidelity import describe_clean
from eyechart.visual_change.vif.filters import BLOCK, dropped_blocks, window_side
from eyechart.visual_change.vif.mixture import log_terms
from eyechart.visual_change.vif.pyramid import subbands


@dataclass(frozen=True, eq=False)
class VisibleTerms:
    """The sums of VIF per scale, over what the corrupted image shows of the clean one.

    Attributes:
        kept: the information left, (B, noise variances, scales): the numerators.
        total: the information of the clean image in the same part, of the same shape.
    """

    kept: Tensor
    total: Tensor

    def vif(self, weights: Sequence[float] | None = None) -> Tensor:
        """Return VIF (B, noise variances), with a weight for each scale, finest first."""
        scales = self.kept.shape[-1]
        # small images have fewer scales, and lack the coarsest ones
        weight = self.kept.new_tensor(list(weights)[:scales] if weights else [1.0] * scales)
        return (self.kept * weight).sum(dim=-1) / (self.total * weight).sum(dim=-1)


def visible_terms(shown: View, definition: Definition, noise: Sequence[float]) -> VisibleTerms:
    """Return the sums of VIF per scale for one or more variances σ_n² of the visual noise."""
    # float64, which the GPU's kernels need of images that are not integers
    clean = describe_clean(shown.reference.to(torch.float64), definition)
    count = len(clean.scales)
    kept: list[Tensor] = []
    total: list[Tensor] = []
    for level, bands in enumerate(subbands(shown.corrupted.to(torch.float64), count, clean.dtype)):
        scale = clean.scales[level]
        window = window_side(level, count)
        weight = _of_blocks(shown.is_visible, scale.multiplier.shape[2:], window, level)
        mean, variance = window_moments(bands, window)
        shared = window_covariance(scale.bands, scale.mean, bands, mean, window)
        gain, error = gain_and_noise(
            scale.variance, variance, shared, definition.flat(window), FLAT,
            definition.gainless(window),
        )  # fmt: skip
        for sums, strength, spread in (
            (kept, gain * gain * scale.multiplier, error),
            # the clean image is the same channel with gain 1 and without distortion
            (total, scale.multiplier, torch.zeros_like(error)),
        ):
            terms = [log_terms(strength / (spread + own), scale.eigenvalues) for own in noise]
            sums.append(torch.stack([_mean(term, weight, definition) for term in terms], dim=1))
    return VisibleTerms(torch.stack(kept, dim=2), torch.stack(total, dim=2))


def _mean(terms: Tensor, weight: Tensor, definition: Definition) -> Tensor:
    """Return the contribution (B,) of one scale to VIF, from its blocks (B, 2, n, m)."""
    # a scale may have no visible block, and its mean must not become NaN
    blocks = weight.sum(dim=(1, 2)).clamp_min(1)[:, None]
    pooled = (terms * weight[:, None]).sum(dim=(2, 3)) / blocks
    return (pooled + definition.stabilizer).sum(dim=1)


def _of_blocks(is_visible: Tensor, shape: Sequence[int], window: int, level: int) -> Tensor:
    """Return which inner blocks (B, n, m) of a scale have a visible center, as float64."""
    rows, columns = (
        # + 1 is the center of a block of 3 × 3; the shift leads back to pixels of the full image
        ((torch.arange(n, device=is_visible.device) + dropped_blocks(window)) * BLOCK + 1) << level
        for n in shape
    )
    rows = rows.clamp_max(is_visible.shape[1] - 1)
    columns = columns.clamp_max(is_visible.shape[2] - 1)
    return is_visible[:, rows[:, None], columns].to(torch.float64)
