"""The terms of VIF that its parameters weigh: information by scale, for several noise variances.

Images are registered first. Which parameters agree best with humans is fitted in `vif_fit`.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eyechart.visual_change.vif.fidelity import clean_terms, describe_clean, kept_terms
from eyechart.visual_change.vif.pyramid import subbands, window_side
from eyechart.visual_change.vif.statistics import VCR, CleanStatistics

NOISE_VARIANCES = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Candidates for σ_n², from the published value upwards, in squared gray levels."""

DEFINITIONS = tuple(replace(VCR, noise_variance=variance) for variance in NOISE_VARIANCES)

FINE, COARSE = 1.0, 4.0
"""Scales in px of the difference of Gaussians on which turns are compared."""

MIN_LEAD = 0.5
"""Correlation by which a turned image must exceed the unturned one.

Without noise, the correlation of an image that was turned is 1. In images of which little is left,
turns lead by less than this by chance.
"""


@dataclass(frozen=True, eq=False)
class CleanTerms:
    """Clean gray images, their statistics, and their information (B, variances, scales)."""

    gray: Tensor
    statistics: CleanStatistics
    total: Tensor


@dataclass(frozen=True, eq=False)
class KeptTerms:
    """Information that corrupted images keep (B, variances, scales), and their turn in degrees."""

    kept: Tensor
    angle: Tensor


def describe_terms(gray: Tensor) -> CleanTerms:
    """Return the terms of clean gray images, uint8 (B, H, W)."""
    statistics = describe_clean(gray, VCR)
    total = [
        [
            definition.pooled(clean_terms(scale, definition).sum(dim=(-2, -1)), scale.blocks, level)
            for level, scale in enumerate(statistics.scales)
        ]
        for definition in DEFINITIONS
    ]
    return CleanTerms(gray, statistics, _stacked(total))


def compare_terms(clean: CleanTerms, corrupted: Tensor) -> KeptTerms:
    """Return the terms of corrupted gray images, uint8 (B, H, W), after undoing quarter turns."""
    turns = quarter_turns(clean.gray, corrupted)
    upright = torch.stack(
        [
            torch.rot90(image, -turn, dims=(0, 1))
            for image, turn in zip(corrupted, turns.tolist(), strict=True)
        ]
    )
    scales = clean.statistics.scales
    bands = subbands(upright, len(scales), clean.statistics.dtype)
    kept = []
    for definition in DEFINITIONS:
        sums = [
            kept_terms(scale, bands[level], window_side(level, len(scales)), definition)
            for level, scale in enumerate(scales)
        ]
        kept.append(
            [
                definition.pooled(terms.sum(dim=(-2, -1)), scale.blocks, level)
                for level, (terms, scale) in enumerate(zip(sums, scales, strict=True))
            ]
        )
    # 270° is a turn by 90° in the other direction
    angle = 90.0 * torch.minimum(turns, 4 - turns)
    return KeptTerms(_stacked(kept), angle)


def quarter_turns(clean: Tensor, corrupted: Tensor) -> Tensor:
    """Return by how many counterclockwise quarter turns each image was rotated, int64 (B,).

    Images are square; a turn counts only if it makes the images more similar by far.
    """
    before, after = _band(clean), _band(corrupted)
    similarity = torch.stack(
        [_correlation(before, torch.rot90(after, -turn, dims=(1, 2))) for turn in range(4)]
    )
    # added to the unturned image, so that images of which little is left are not turned
    similarity[0] += MIN_LEAD
    return similarity.argmax(dim=0)


def _stacked(terms: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, dim=1) for row in terms], dim=1)


def _band(gray: Tensor) -> Tensor:
    """Return a difference of Gaussians; the mean gray, which noise may move, drops out."""
    planes = gray.to(torch.float64)
    rows, columns = (torch.fft.fftfreq(side, device=gray.device) for side in gray.shape[1:])
    squares = (rows[:, None] ** 2 + columns[None, :] ** 2).to(torch.float64)
    # the Fourier transform of a Gaussian of scale σ is exp(−2π²σ²f²)
    factor = -2 * torch.pi**2 * squares
    band = torch.exp(factor * FINE**2) - torch.exp(factor * COARSE**2)
    filtered: Tensor = torch.fft.ifft2(torch.fft.fft2(planes) * band)
    return filtered.real


def _correlation(one: Tensor, two: Tensor) -> Tensor:
    norm = ((one * one).sum(dim=(1, 2)) * (two * two).sum(dim=(1, 2))).sqrt()
    # a constant image has norm 0; its correlation becomes 0 rather than NaN
    return (one * two).sum(dim=(1, 2)) / norm.clamp_min(1e-12)
