"""Linear filters with one kernel per image: separable ones and general two-dimensional ones.

On the CPU, each plane is filtered separately with OpenCV. On a GPU, Triton filters tap by tap; if
it is missing, a separable filter is a product with two banded matrices. Kernels with many taps, and
separable ones along very long lines, use the FFT. All methods sum in float64 and round once to
float32, so that the order of summation hardly matters: results differ by at most one unit in the
last place, and not at all in 8 bits.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.opencv import opencv

CV2_BORDERS = {"replicate": 1, "reflect": 2, "mirror": 4}
"""OpenCV's constants for BORDER_REPLICATE, BORDER_REFLECT and BORDER_REFLECT_101."""

LONGEST_DIRECT = 64
"""Beyond this kernel radius a matrix product is faster than filtering tap by tap."""

LONGEST_MATRIX = 1024
"""Beyond this line length in pixels an FFT is faster than a matrix product."""

LINE_VALUES = 1 << 22
"""Number of padded values that are transformed at once, to limit memory use."""

MOST_TAPS = 1024
"""Number of weights per kernel beyond which an FFT is faster on a GPU than filtering tap by tap."""

LARGE = 144
"""Minimum number of taps at which OpenCV always filters by Fourier transform."""

FFT_IMAGES = 32

Weights = NDArray[np.float64]
"""Filter kernels (B, 2·radius + 1), one per image."""


def fold(index: Tensor, size: int, border: str) -> Tensor:
    """Return `index` (any integers) mapped into 0 … size − 1 by the border rule.

    "replicate" repeats the edge pixel, "mirror" reflects about the center of the edge pixel
    (abcd|cba), and "reflect" reflects about its outer edge (abcd|dcba).
    """
    if border == "replicate" or size == 1:
        return index.clamp(0, size - 1)
    if border == "mirror":
        # the mirrored sequence has this period
        index = index.remainder(2 * size - 2)
        return torch.minimum(index, 2 * size - 2 - index)
    index = index.remainder(2 * size)
    return torch.minimum(index, 2 * size - 1 - index)


TRUNCATE = 4.0
"""Gaussian kernels are cut off at this many standard deviations, as in scipy."""


def gaussian_weights(sigma: Values, truncate: float = TRUNCATE) -> Weights:
    """Return normalized Gaussian kernels, each cut off at truncate·σ; σ = 0 is the identity."""
    radius = np.floor(truncate * sigma + 0.5)
    offset = np.arange(-radius.max(), radius.max() + 1)
    weights = np.exp(-0.5 * (offset / np.maximum(sigma, 1e-9)[:, None]) ** 2)
    weights[np.abs(offset) > radius[:, None]] = 0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def box_weights(kernel: Values) -> Weights:
    """Return normalized box kernels that are `kernel` taps wide (an odd number)."""
    radius = (kernel.astype(int) - 1) // 2
    offset = np.arange(-radius.max(), radius.max() + 1)
    return (np.abs(offset) <= radius[:, None]) / kernel[:, None]


def smooth(
    images: Tensor, sigma: Values, truncate: float = TRUNCATE, border: str = "replicate"
) -> Tensor:
    """Return the images (B, C, H, W) blurred by a Gaussian of `sigma` px, cut off at truncate·σ."""
    return filter_separable(images, gaussian_weights(sigma, truncate), border)


def filter_separable(images: Tensor, weights: Weights, border: str) -> Tensor:
    """Return the images filtered along both axes, with one symmetric kernel per image."""
    radius = weights.shape[1] // 2
    if radius == 0:
        return images.clone()
    cv2 = opencv()
    if images.device.type == "cpu" and radius < LONGEST_DIRECT and cv2 is not None:
        return _separable_cv2(cv2, images, weights, border)
    if has_triton(images.device) and radius < min(LONGEST_DIRECT, *images.shape[2:]):
        from eyechart.corruptions.kernels.filters_triton import filter_separable_in_triton

        return filter_separable_in_triton(images, weights, border)
    if max(images.shape[2:]) > LONGEST_MATRIX:
        return _separable_fft(images, weights, border)
    return _separable_matrix(images, weights, border).to(torch.float32)


def _separable_cv2(cv2: Any, images: Tensor, weights: Weights, border: str) -> Tensor:
    out = torch.empty_like(images)
    # plane by plane, because a large image in float64 takes much memory
    for source, target, kernel in zip(images.numpy(), out.numpy(), weights, strict=True):
        # kernels are padded to the widest of the batch
        taps = np.trim_zeros(kernel)
        for plane, result in zip(source, target, strict=True):
            wide = plane.astype(np.float64)
            if len(taps) > 1:
                cv2.sepFilter2D(
                    wide, cv2.CV_64F, taps, taps, dst=wide, borderType=CV2_BORDERS[border]
                )
            result[:] = wide
    return out


def _separable_fft(images: Tensor, weights: Weights, border: str) -> Tensor:
    """Return the result of `filter_separable` for lines of any length, computed by FFT."""
    out = torch.empty_like(images)
    for source, target, kernel in zip(images, out, torch.from_numpy(weights), strict=True):
        taps = kernel.to(images.device)
        for plane, result in zip(source, target, strict=True):
            wide = _filter_lines(plane.to(torch.float64), taps, border)
            result.copy_(_filter_lines(wide.mT, taps, border).mT)
    return out


def _filter_lines(plane: Tensor, taps: Tensor, border: str) -> Tensor:
    """Return a float64 plane filtered along its rows with a symmetric kernel."""
    count, length = plane.shape
    reach = len(taps) // 2
    places = fold(torch.arange(-reach, length + reach, device=plane.device), length, border)
    size = _fft_length(len(places))
    spectrum = torch.fft.rfft(taps, n=size)
    out = torch.empty(count, length, dtype=plane.dtype, device=plane.device)
    step = max(1, LINE_VALUES // size)
    for start in range(0, count, step):
        lines = torch.fft.rfft(plane[start : start + step].index_select(1, places), n=size)
        lines *= spectrum
        # the circular wrap-around affects only the first 2 · reach values
        filtered = torch.fft.irfft(lines, n=size)
        out[start : start + step] = filtered[:, 2 * reach : 2 * reach + length]
    return out


def _separable_matrix(images: Tensor, weights: Weights, border: str) -> Tensor:
    batch, channels, height, width = images.shape
    if (weights == weights[0]).all():
        weights = weights[:1]  # all images share one pair of matrices
    kernels = torch.from_numpy(weights).to(images.device)
    # (B, H, C, W): both products then run over contiguous memory without copies
    rows = images.permute(0, 2, 1, 3).to(torch.float64, memory_format=torch.contiguous_format)
    across = band_matrix(kernels, width, border)
    out = torch.matmul(rows.reshape(batch, height * channels, width), across.mT)
    down = band_matrix(kernels, height, border)
    out = torch.matmul(down, out.reshape(batch, height, channels * width))
    return out.reshape(batch, height, channels, width).permute(0, 2, 1, 3)


def band_matrix(kernels: Tensor, size: int, border: str) -> Tensor:
    """Return (B, size, size) matrices that filter a vector with (B, 2r + 1) kernels."""
    batch, taps = kernels.shape
    steps = torch.arange(taps, device=kernels.device) - taps // 2
    source = fold(torch.arange(size, device=kernels.device)[:, None] + steps, size, border)
    matrix = torch.zeros(batch, size, size, dtype=kernels.dtype, device=kernels.device)
    return matrix.scatter_add_(
        2, source.expand(batch, -1, -1), kernels[:, None].expand(-1, size, -1)
    )


def correlate(
    images: Tensor, kernels: Tensor, border: str = "mirror", most_taps: int | None = None
) -> Tensor:
    """Return the images filtered with (B, kh, kw) kernels of odd size, centered, not flipped.

    Kernels are rounded to float32. `most_taps`: the maximum number of weights of a kernel that are
    not zero, if most are.
    """
    kernels = kernels.to(torch.float32)
    cv2 = opencv()
    if has_triton(images.device) and (most_taps or kernels[0].numel()) <= MOST_TAPS:
        from eyechart.corruptions.kernels.filters_triton import correlate_in_triton

        return correlate_in_triton(images, kernels, border)
    if images.device.type != "cpu" or cv2 is None:
        return correlate_fft(images, kernels, border)
    out = torch.empty_like(images)
    for source, target, kernel in zip(images.numpy(), out.numpy(), kernels.numpy(), strict=True):
        taps, anchor = _trim(kernel)
        # From this size on OpenCV uses a Fourier transform, in float64 for any input type; smaller
        # kernels are applied directly, in the type of the image.
        if taps.size < LARGE:
            source, taps = source.astype(np.float64), taps.astype(np.float64)
        for plane, result in zip(source, target, strict=True):
            result[:] = cv2.filter2D(plane, -1, taps, anchor=anchor, borderType=CV2_BORDERS[border])
    return out


def _trim(kernel: NDArray[np.float32]) -> tuple[NDArray[np.floating], tuple[int, int]]:
    """Return the kernel without its zero margins, and the position (x, y) of its center."""
    center = (kernel.shape[0] // 2, kernel.shape[1] // 2)
    rows, columns = (np.flatnonzero(kernel.any(axis=axis)) for axis in (1, 0))
    # the center stays inside, because OpenCV requires the anchor to be within the kernel
    top, bottom = min(rows[0], center[0]), max(rows[-1], center[0])
    left, right = min(columns[0], center[1]), max(columns[-1], center[1])
    anchor = (int(center[1] - left), int(center[0] - top))
    return kernel[top : bottom + 1, left : right + 1], anchor


def correlate_fft(images: Tensor, kernels: Tensor, border: str = "mirror") -> Tensor:
    """Return the result of `correlate`, computed by Fourier transform on any device."""
    height, width = images.shape[-2:]
    down, across = kernels.shape[-2] // 2, kernels.shape[-1] // 2
    device = images.device
    rows = fold(torch.arange(-down, height + down, device=device), height, border)
    columns = fold(torch.arange(-across, width + across, device=device), width, border)
    size = (_fft_length(len(rows)), _fft_length(len(columns)))
    out = torch.empty_like(images)
    # a few images at a time, because float64 spectra are large
    for start in range(0, len(images), FFT_IMAGES):
        part = slice(start, start + FFT_IMAGES)
        padded = images[part].to(torch.float64).index_select(2, rows).index_select(3, columns)
        spectrum = torch.fft.rfft2(padded, s=size)
        # the conjugate gives a correlation, whose kernel is not flipped; its wrap-around is cut off
        spectrum *= torch.fft.rfft2(kernels[part].to(torch.float64), s=size).conj_physical_()[
            :, None
        ]
        out[part] = torch.fft.irfft2(spectrum, s=size)[..., :height, :width]
    return out


@cache
def _fft_length(length: int) -> int:
    """Return the next length that is fast to transform: even, with small prime factors."""
    return 2 * int(next_fast_len(-(-length // 2), real=True))
