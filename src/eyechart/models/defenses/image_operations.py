"""What defenses do to images before a model sees them: equalize lightness, and remove noise.

Lightness is equalized by OpenCV's CLAHE (contrast-limited adaptive histogram equalization). Noise
is estimated by the method of Donoho and Johnstone and reduced with non-local means. Their weights
are defined as in the paper by Buades, Coll and Morel, but the difference between patches that is
expected from noise alone is subtracted first.
"""

from functools import reduce
from itertools import product

import cv2
import torch
from torch import Tensor

from eyechart.core.parallel import on_all_cores
from eyechart.models.defenses.defended import DefenseType, Setting, before_model

QUARTILE = 0.6744897501960817
"""The third quartile of the standard normal distribution: |x| is smaller with probability 0.5."""

HIGH_PASS = (-0.12940952255126037, -0.22414386804201338, 0.8365163037378079, -0.48296291314453414)
"""The high-pass filter of Daubechies' wavelet with four taps."""

FLAT = 1e-3
"""Details below this number of gray levels are ignored as rounding errors."""

FARTHEST = 80.0
"""Weights below exp(−80) are raised to exp(−80), because denormal numbers are slow."""


def equalize(images: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) with Lab lightness equalized in tiles, on their device.

    They are computed on the CPU, which needs 0.6 ms per core for an image of 224 px. Hues do not
    change, since Lab's a and b are not modified.

    `tiles`: number of tiles in each row and in each column of the grid.
    `clip`: maximum count of a histogram bin, as a multiple of its count in a uniform histogram.
    """
    pixels = images.permute(0, 2, 3, 1).cpu().contiguous().numpy()
    equalized = torch.empty(pixels.shape, dtype=torch.uint8)

    def work(index: int) -> None:
        lab = cv2.cvtColor(pixels[index], cv2.COLOR_RGB2LAB)
        # An object for each image, because it keeps buffers that threads would share.
        lightness = cv2.createCLAHE(clip, (tiles, tiles)).apply(cv2.extractChannel(lab, 0))
        cv2.insertChannel(lightness, lab, 0)
        equalized[index] = torch.from_numpy(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))

    on_all_cores(work, range(len(pixels)))
    return equalized.permute(0, 3, 1, 2).contiguous().to(images.device)


def noise_level(images: Tensor) -> Tensor:
    """Return the noise's standard deviation in gray levels, (B, C), for 8-bit images (B, C, H, W).

    σ̂ = median |HH₁| / 0.6745 over the finest diagonal details, excluding flat regions; 0 if the
    whole image is flat.
    """
    details = _details(_details(images.float(), 3), 2).flatten(2).abs()
    # Flat regions (such as clipped ones) have no detail and would bias the median to 0.
    seen = details > FLAT
    count = seen.sum(dim=2, keepdim=True)
    inf = torch.full((), torch.inf, device=details.device)
    ranked = torch.where(seen, details, inf).sort(dim=2).values
    # The two middle ranks, which coincide for an odd count: their mean is the median.
    middle = [ranked.gather(2, (count - 1 + k).clamp(min=0) // 2) for k in (0, 1)]
    median = (middle[0] + middle[1]) / 2
    return torch.where(count > 0, median / QUARTILE, 0.0).squeeze(2)


def denoise(images: Tensor, strength: float = 0.8, patch: int = 5, window: int = 13) -> Tensor:
    """Return denoised 8-bit images (B, C, H, W): each pixel is a mean over similar patches.

    Patches of patch × patch px are searched within window × window px. The weight is exp(−max(d² −
    2σ̂², 0) / h²), where d² is the mean squared difference of two patches over pixels and channels,
    σ̂ the noise averaged over channels, and h = strength · σ̂. Images without noise do not change.
    """
    variance = noise_level(images).mean(dim=1).square().reshape(-1, 1, 1, 1)
    # Without noise only identical patches count: the floor avoids a division by zero.
    scale = (strength**2 * variance).clamp(min=1e-9)
    reach, half = window // 2, patch // 2
    channels, height, width = images.shape[1:]
    levels = _surrounded(images.float(), reach + half)
    center = _part(levels, reach, reach, height + 2 * half, width + 2 * half)
    total, weights = torch.zeros_like(images, dtype=torch.float32), torch.zeros_like(variance)
    # One shift at a time for all pixels: every pixel is compared with its neighbor at that shift.
    for down, along in product(range(window), repeat=2):
        other = _part(levels, down, along, height + 2 * half, width + 2 * half)
        square = _summed((center - other).square_().sum(dim=1, keepdim=True), patch)
        # Two noisy versions of the same patch differ by 2σ² on average.
        excess = square / (channels * patch**2) - 2 * variance
        weight = excess.div_(scale).clamp_(0, FARTHEST).neg_().exp_()
        total.addcmul_(weight, _part(other, half, half, height, width))
        # Not in place: the first sum broadcasts (B, 1, 1, 1) to the size of the images.
        weights = weights + weight
    return (total / weights).round_().to(torch.uint8)


def _summed(planes: Tensor, side: int) -> Tensor:
    """Return the sums over all squares with this side that lie inside the planes."""
    for dim in (2, 3):
        room = planes.shape[dim] - side + 1
        parts = (planes.narrow(dim, start, room) for start in range(side))
        planes = reduce(torch.add, parts)
    return planes


def _details(levels: Tensor, dim: int) -> Tensor:
    """Return every second output value of the high-pass filter along one dimension."""
    length = levels.shape[dim]
    count = (length + 3) // 2
    parts = []
    for tap in range(4):
        places = torch.arange(count, device=levels.device) * 2 - 2 + tap
        # Reflected at the outer edge of the last pixel, not at its center.
        turn = places.remainder(2 * length)
        parts.append(levels.index_select(dim, torch.minimum(turn, 2 * length - 1 - turn)))
    return reduce(torch.add, (part * tap for part, tap in zip(parts, HIGH_PASS, strict=True)))


def _surrounded(levels: Tensor, width: int) -> Tensor:
    """Return images padded by reflection with this number of px on all sides."""
    for dim, side in enumerate(levels.shape[2:], start=2):
        # A single pixel would have a period of 0.
        period = max(2 * (side - 1), 1)
        places = torch.arange(-width, side + width, device=levels.device).remainder(period)
        levels = levels.index_select(dim, torch.minimum(places, period - places))
    return levels


def _part(levels: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return levels[..., top : top + height, left : left + width]


CLAHE_DEFENSE = DefenseType(
    (Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), before_model(equalize)
)
NON_LOCAL_MEANS_DEFENSE = DefenseType(
    (Setting("strength", 0.8, 100), Setting("patch", 5, 31, 2), Setting("window", 13, 101, 2)),
    before_model(denoise),
)
