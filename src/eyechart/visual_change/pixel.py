"""VIF in the pixel domain (VIFp): Gaussian windows on four sizes of the picture, no pyramid."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from eyechart.visual_change.channel import gain_and_noise
from eyechart.visual_change.definitions import Definition, share

SCALES = 4
SMALLEST_SIDE = 41
"""The fourth scale's window then fits once."""

FLAT = 1e-10


def pixel_fidelity(
    clean: Tensor, corrupted: Tensor, definition: Definition
) -> tuple[Tensor, Tensor]:
    """Return VIFp (B,) of grey pictures (B, H, W), and the clean ones' bits per pixel (B,)."""
    before, after = clean.to(torch.float64), corrupted.to(torch.float64)
    kept, total, bits = (before.new_zeros(len(before)) for _ in range(3))
    for scale in range(SCALES):
        window = 2 ** (SCALES - scale) + 1
        if scale:
            before, after = (_smooth(each, window)[:, ::2, ::2] for each in (before, after))
        own_kept, own_total = _information(before, after, window, definition.noise_variance)
        kept = kept + own_kept.sum(dim=(1, 2))
        total = total + own_total.sum(dim=(1, 2))
        bits = bits + own_total.mean(dim=(1, 2)) / (2 * np.log(2) * SCALES)
    return share(kept, total), bits


def _information(
    before: Tensor, after: Tensor, window: int, noise_variance: float
) -> tuple[Tensor, Tensor]:
    """Return what each window keeps of the information it had: log(1 + …), twice."""
    mean, own_mean = _smooth(before, window), _smooth(after, window)
    variance = (_smooth(before * before, window) - mean * mean).clamp_min(0)
    own_variance = (_smooth(after * after, window) - own_mean * own_mean).clamp_min(0)
    covariance = _smooth(before * after, window) - mean * own_mean
    gain, noise = gain_and_noise(variance, own_variance, covariance, FLAT, FLAT)
    variance = torch.where(variance < FLAT, 0.0, variance)
    kept = torch.log1p(gain * gain * variance / (noise + noise_variance))
    return kept, torch.log1p(variance / noise_variance)


def _smooth(planes: Tensor, window: int) -> Tensor:
    """Return weighted means over the windows that lie wholly inside."""
    rows, columns = (_weights(side, window, planes.device) for side in planes.shape[1:])
    return rows @ planes @ columns.T


@lru_cache(maxsize=64)
def _weights(side: int, window: int, device: torch.device) -> Tensor:
    """Return the matrix (side − window + 1, side) of a Gaussian with σ = window / 5."""
    reach = np.arange(window) - window // 2
    gaussian = np.exp(-(reach**2) / (2 * (window / 5) ** 2))
    matrix = np.zeros((side - window + 1, side))
    for row in range(len(matrix)):
        matrix[row, row : row + window] = gaussian / gaussian.sum()
    return torch.tensor(matrix, device=device)
