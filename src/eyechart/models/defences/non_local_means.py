"""How noisy pictures are, and non-local means, which takes as much noise away and no more.

Noise: Donoho and Johnstone's estimate. Weights: Buades, Coll and Morel's, less what noise explains.
"""

from functools import reduce
from itertools import product

import torch
from torch import Tensor

from eyechart.models.defences.clahe import mirrored
from eyechart.models.defences.defence import Kind, Setting, before_model

QUARTILE = 0.6744897501960817
"""What half of all standard normal numbers are nearer to 0 than."""

HIGH_PASS = (-0.12940952255126037, -0.22414386804201338, 0.8365163037378079, -0.48296291314453414)
"""Daubechies' wavelet of four taps."""

FLAT = 1e-3
"""Details below so many grey levels are none: there is nothing but rounding errors to see."""

FARTHEST = 80.0
"""Weights below e to the minus this would only be slow: processors are, with such numbers."""


def noise_level(pictures: Tensor) -> Tensor:
    """Return the standard deviation of the noise in 8-bit pictures (B, C, H, W): (B, C), in levels.

    σ̂ = median |HH₁| / 0.6745 over the finest diagonal details, flat places left out; 0 where
    everything is flat.
    """
    details = _details(_details(pictures.float(), 3), 2).flatten(2).abs()
    seen = details > FLAT
    count = seen.sum(dim=2, keepdim=True)
    inf = torch.full((), torch.inf, device=details.device)
    ranked = torch.where(seen, details, inf).sort(dim=2).values
    middle = [ranked.gather(2, (count - 1 + k).clamp(min=0) // 2) for k in (0, 1)]
    median = (middle[0] + middle[1]) / 2
    return torch.where(count > 0, median / QUARTILE, 0.0).squeeze(2)


def denoise(pictures: Tensor, strength: float = 0.8, patch: int = 5, window: int = 13) -> Tensor:
    """Return 8-bit pictures (B, C, H, W), each pixel a mean of those with like surroundings.

    Patches are of patch × patch pixels and looked for within window × window around. The weight is
    exp(−max(d² − 2σ̂², 0) / h²), d² being the mean square of the difference of two patches over
    pixels and channels, σ̂ the mean of the channels' noise and h = strength · σ̂. Without noise
    nothing changes.
    """
    variance = noise_level(pictures).mean(dim=1).square().reshape(-1, 1, 1, 1)
    # without noise patches are either equal or not at all alike
    scale = (strength**2 * variance).clamp(min=1e-9)
    reach, half = window // 2, patch // 2
    channels, height, width = pictures.shape[1:]
    levels = _surrounded(pictures.float(), reach + half)
    centre = _part(levels, reach, reach, height + 2 * half, width + 2 * half)
    total, weights = torch.zeros_like(pictures, dtype=torch.float32), torch.zeros_like(variance)
    for down, along in product(range(window), repeat=2):
        other = _part(levels, down, along, height + 2 * half, width + 2 * half)
        square = _summed((centre - other).square_().sum(dim=1, keepdim=True), patch)
        excess = square / (channels * patch**2) - 2 * variance
        weight = excess.div_(scale).clamp_(0, FARTHEST).neg_().exp_()
        total.addcmul_(weight, _part(other, half, half, height, width))
        weights = weights + weight
    return (total / weights).round_().to(torch.uint8)


def _summed(planes: Tensor, side: int) -> Tensor:
    """Return the sums over all squares of a side that fit in."""
    for dim in (2, 3):
        room = planes.shape[dim] - side + 1
        parts = (planes.narrow(dim, start, room) for start in range(side))
        planes = reduce(torch.add, parts)
    return planes


def _details(levels: Tensor, dim: int) -> Tensor:
    """Return every second value of the high-pass filter along one dimension."""
    length = levels.shape[dim]
    count = (length + 3) // 2
    parts = []
    for tap in range(4):
        places = torch.arange(count, device=levels.device) * 2 - 2 + tap
        # mirrored on the edge of the last pixel, not on the pixel
        turn = places.remainder(2 * length)
        parts.append(levels.index_select(dim, torch.minimum(turn, 2 * length - 1 - turn)))
    return reduce(torch.add, (part * tap for part, tap in zip(parts, HIGH_PASS, strict=True)))


def _surrounded(levels: Tensor, width: int) -> Tensor:
    """Return pictures with so many mirrored pixels all around."""
    rows, columns = (
        mirrored(torch.arange(-width, side + width, device=levels.device), side)
        for side in levels.shape[2:]
    )
    return levels[:, :, rows[:, None], columns]


def _part(levels: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return levels[..., top : top + height, left : left + width]


DEFENCE = Kind(
    (Setting("strength", 0.8, 100), Setting("patch", 5, 31, 2), Setting("window", 13, 101, 2)),
    before_model(denoise),
)
