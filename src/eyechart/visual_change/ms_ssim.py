"""The ruler based on MS-SSIM (Wang, Simoncelli and Bovik 2003), computed per color channel."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from eyechart.visual_change.ruler import (
    DELTA_V,
    CleanDescription,
    SharedDescription,
    check_size,
    has_variation,
)
from eyechart.visual_change.vif.fidelity import map_chunks

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Exponents of the scales, finest first."""

WINDOW, SIGMA = 11, 1.5
# K1 = 0.01 and K2 = 0.03 times the range of gray levels, as in SSIM (Wang et al. 2004)
C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2

_VALUES = torch.exp(
    -((torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2) ** 2) / (2 * SIGMA**2)
)
GAUSSIAN = (_VALUES / _VALUES.sum()).tolist()
"""Weights of the pixels of a window along each axis."""


@dataclass(frozen=True, eq=False)
class CleanPyramid(SharedDescription):
    """Clean images at all scales, finest first, with the mean and variance of every window.

    Images, means and variances are (B, C, h, w).
    """

    scales: list[tuple[Tensor, Tensor, Tensor]]


class MsSsimRuler:
    """Δv = 1 − MS-SSIM, the mean over color channels, in float64."""

    name, version = "ms-ssim", 1
    # 1 − MS-SSIM is between 0 and 1 already, as 1 − VIF is
    raw_name = DELTA_V
    summary = "Structure, contrast and luminance in windows at five scales: 1 − MS-SSIM."
    limits = (
        "Compares pixels at the same position, so that small shifts and rotations count as a large"
        " change."
    )
    # four times halved, the image must still contain a whole window
    smallest_side = full_side = (WINDOW - 1) * 2 ** (len(WEIGHTS) - 1) + 1

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return Δv unchanged."""
        return delta_v

    def describe(self, clean: Tensor) -> CleanPyramid:
        """Return the window statistics of clean images, uint8 (B, C, H, W), at all scales."""
        check_size(self, clean)
        scales = []
        for images in _pyramid(clean):
            mean = _blurred(images)
            scales.append((images, mean, _blurred(images * images) - mean * mean))
        indices = torch.arange(len(clean), device=clean.device)
        return CleanPyramid(has_variation(clean), len(scales), indices, scales)

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W), as float64 (B,) in 0 … 1."""
        assert isinstance(description, CleanPyramid)
        indices = description.indices.expand(len(corrupted))
        # one image at a time stays within a CPU's cache
        size = 1 if corrupted.device.type == "cpu" else len(corrupted)
        parts = map_chunks(
            corrupted, lambda part: _similarity(description, indices[part], corrupted[part]), size
        )
        change = (1 - torch.cat(parts)).clamp(0, 1)
        return torch.where(description.measurable, change, torch.nan)


def _similarity(description: CleanPyramid, indices: Tensor, corrupted: Tensor) -> Tensor:
    product = torch.ones((), dtype=torch.float64, device=corrupted.device)
    pyramid = _pyramid(corrupted)
    for clean, images, weight in zip(description.scales, pyramid, WEIGHTS, strict=True):
        before, mean, variance = (values[indices] for values in clean)
        after_mean = _blurred(images)
        after_variance = _blurred(images * images) - after_mean * after_mean
        covariance = _blurred(before * images) - mean * after_mean
        similar = (2 * covariance + C2) / (variance + after_variance + C2)
        if images is pyramid[-1]:
            # luminance counts at the coarsest scale only
            similar *= (2 * mean * after_mean + C1) / (mean**2 + after_mean**2 + C1)
        # a negative mean, as for an inverted image, has no real power
        product = product * similar.mean(dim=(2, 3)).clamp_min(0) ** weight
    return product.mean(dim=1)


def _pyramid(images: Tensor) -> list[Tensor]:
    scales = [images.to(torch.float64)]
    for _ in WEIGHTS[1:]:
        height, width = scales[-1].shape[-2:]
        # odd sides are padded by zeros, which count in the mean, as in published implementations
        padding = (height % 2, width % 2)
        scales.append(avg_pool2d(scales[-1], kernel_size=2, padding=padding))
    return scales


def _blurred(images: Tensor) -> Tensor:
    """Return images (B, C, H, W) after a Gaussian, without the borders that it does not cover."""
    for dim in (2, 3):
        length = images.shape[dim] - WINDOW + 1
        total = images.narrow(dim, WINDOW // 2, length) * GAUSSIAN[WINDOW // 2]
        for offset in range(WINDOW // 2):
            # the filter is symmetric, so that two taps share one multiplication
            pair = images.narrow(dim, offset, length) + images.narrow(
                dim, WINDOW - 1 - offset, length
            )
            total.add_(pair, alpha=GAUSSIAN[offset])
        images = total
    return images


MS_SSIM_RULER = MsSsimRuler()
