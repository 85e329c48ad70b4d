"""Filters with one kernel per image: separable ones and medians; others are in `correlation`.

On the CPU, each plane is filtered separately with OpenCV. On a GPU, Triton filters tap by tap; if
it is missing, a separable filter is a product with two banded matrices. Kernels with many taps, and
separable ones along very long lines, use the FFT. All methods sum in float64 and round once to
float32, so that the order of summation hardly matters: results differ by at most one unit in the
last place, and not at all in 8 bits.

Where the result is rounded to 8 bits anyway, the CPU filters in float32 first, which is several
times as fast. Only values that are so close to a rounding boundary that the error of float32 might
matter are computed in float64 (see `resolve_rounding`).
"""

from collections.abc import Callable
from functools import cache, partial

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.declaration import Values
from eyechart.corruptions.kernels.arithmetic import Rounding, uses_opencv

CV2_BORDERS = {"replicate": 1, "reflect": 2, "mirror": 4}
"""OpenCV's constants for BORDER_REPLICATE, BORDER_REFLECT and BORDER_REFLECT_101."""

LONGEST_DIRECT = 64
"""Beyond this kernel radius a matrix product is faster than filtering tap by tap."""

LONGEST_MATRIX = 1024
"""Beyond this line length in pixels an FFT is faster than a matrix product."""

LINE_VALUES = 1 << 22
"""Number of padded values that are transformed at once, to limit memory use."""

Weights = NDArray[np.float64]
"""Filter kernels (B, 2·radius + 1), one per image."""

Plane = NDArray[np.float32]

HALF_STEP = 2.0**-24
"""Largest relative error of rounding to float32."""

LONGEST_ROUGH = 33
"""Number of taps of a separable kernel up to which filtering in float32 first pays off."""

MOST_GATHERED = 4
"""Number of float64 products, per value of the image, up to which doubtful values are settled one
by one."""


def border_index(index: Tensor, size: int, border: str) -> Tensor:
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
    images: Tensor,
    sigma: Values,
    truncate: float = TRUNCATE,
    border: str = "replicate",
    rounding: Rounding | None = None,
) -> Tensor:
    """Return the images (B, C, H, W) blurred by a Gaussian of `sigma` px, cut off at truncate·σ.

    `rounding`: a rounding that is applied to the result; images must not be negative then.
    """
    return filter_separable(images, gaussian_weights(sigma, truncate), border, rounding)


def filter_separable(
    images: Tensor, weights: Weights, border: str, rounding: Rounding | None = None
) -> Tensor:
    """Return the images filtered along both axes, with one symmetric kernel per image.

    `rounding`: a rounding that is applied to the result; images and kernels must not be negative
    then.
    """
    radius = weights.shape[1] // 2
    is_direct = uses_opencv(images) and radius < LONGEST_DIRECT
    if rounding is not None:
        if is_direct and 0 < radius <= LONGEST_ROUGH // 2:
            return _separable_rounded(images, weights, border, rounding)
        return rounding(filter_separable(images, weights, border))
    if radius == 0:
        return images.clone()
    if is_direct:
        return _separable_cv2(images, weights, border)
    if has_triton(images.device) and radius < min(LONGEST_DIRECT, *images.shape[2:]):
        from eyechart.corruptions.kernels.neighborhood_triton import filter_separable_in_triton

        return filter_separable_in_triton(images, weights, border)
    if max(images.shape[2:]) > LONGEST_MATRIX:
        return _separable_fft(images, weights, border)
    return _separable_matrix(images, weights, border).to(torch.float32)


def _separable_cv2(images: Tensor, weights: Weights, border: str) -> Tensor:
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


def _separable_rounded(images: Tensor, weights: Weights, border: str, rounding: Rounding) -> Tensor:
    """Return the result of `_separable_cv2`, rounded by `rounding`."""
    results = []
    for index, image in enumerate(images.numpy()):
        own = slice(index, index + 1)
        taps = np.trim_zeros(weights[index])
        rough = np.empty_like(image)
        for plane, result in zip(image, rough, strict=True):
            cv2.sepFilter2D(plane, -1, taps, taps, dst=result, borderType=CV2_BORDERS[border])
        square, anchor = taps[:, None] * taps, (len(taps) // 2, len(taps) // 2)
        exact_at = partial(values_at, image, square, anchor, border)
        exact = partial(_separable_cv2, images[own], weights[own], border)
        results.append(
            resolve_rounding(
                torch.from_numpy(rough)[None],
                2 * len(taps) + 4,
                rounding,
                exact_at,
                exact,
                square.size,
            )
        )
    return torch.cat(results)


def resolve_rounding(
    rough: Tensor,
    steps: int,
    rounding: Rounding,
    exact_at: Callable[[NDArray[np.int64]], Tensor],
    exact: Callable[[], Tensor],
    cost: int,
) -> Tensor:
    """Return `rounding(exact())`, computed from values that were summed in float32.

    Args:
        rough: the values in float32, none of them negative.
        steps: the number of roundings behind a value, which bounds its relative error.
        rounding: the rounding.
        exact_at: returns the exact values at flat positions.
        exact: returns all exact values.
        cost: the number of products for one exact value.
    """
    error = steps * HALF_STEP
    low, high = rounding(rough * (1 - error)), rounding(rough * (1 + error))
    # rounding is monotonic: where both bounds agree, the exact value has the same result
    doubtful = np.flatnonzero(low.numpy() != high.numpy())
    if len(doubtful) * cost > MOST_GATHERED * rough.numel():
        return rounding(exact())
    if len(doubtful):
        low.view(-1)[torch.from_numpy(doubtful)] = rounding(exact_at(doubtful))
    return low


def values_at(
    image: Plane,
    kernel: NDArray[np.floating],
    anchor: tuple[int, int],
    border: str,
    indices: NDArray[np.int64],
) -> Tensor:
    """Return the float32 values at flat indices of an image (C, H, W) after filtering in float64.

    `anchor`: the position (x, y) of the kernel's center.
    """
    height, width = image.shape[1:]
    down, across = np.nonzero(kernel)
    line, column = np.divmod(indices, width)
    channel, row = np.divmod(line, height)
    # folded for the whole kernel, and then read at its taps
    rows = _folded(row, np.arange(kernel.shape[0]) - anchor[1], height, border)
    columns = _folded(column, np.arange(kernel.shape[1]) - anchor[0], width, border)
    rows += channel[:, None] * height
    windows = image.ravel().take(rows.take(down, axis=1) * width + columns.take(across, axis=1))
    values = windows.astype(np.float64) @ kernel[down, across].astype(np.float64)
    return torch.from_numpy(values.astype(np.float32))


def _folded(
    index: NDArray[np.int64], steps: NDArray[np.int64], size: int, border: str
) -> NDArray[np.int64]:
    """Return (len(index), len(steps)) indices, mapped into 0 … size − 1 by the border rule."""
    return border_index(torch.from_numpy(index[:, None] + steps), size, border).numpy()


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
    indices = border_index(
        torch.arange(-reach, length + reach, device=plane.device), length, border
    )
    size = fft_length(len(indices))
    spectrum = torch.fft.rfft(taps, n=size)
    out = torch.empty(count, length, dtype=plane.dtype, device=plane.device)
    step = max(1, LINE_VALUES // size)
    for start in range(0, count, step):
        lines = torch.fft.rfft(plane[start : start + step].index_select(1, indices), n=size)
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
    source = border_index(torch.arange(size, device=kernels.device)[:, None] + steps, size, border)
    matrix = torch.zeros(batch, size, size, dtype=kernels.dtype, device=kernels.device)
    return matrix.scatter_add_(
        2, source.expand(batch, -1, -1), kernels[:, None].expand(-1, size, -1)
    )


@cache
def fft_length(length: int) -> int:
    """Return the next length that is fast to transform: even, with small prime factors."""
    return 2 * int(next_fast_len(-(-length // 2), real=True))


WIDEST_OF_OPENCV = 255
"""The widest window in px that OpenCV's median and the Triton kernel support."""


def median_filter(levels: Tensor, kernel: Values) -> Tensor:
    """Return the uint8 medians of uint8 images (B, C, H, W) over windows of `kernel` (odd) px."""
    if uses_opencv(levels):
        out = torch.empty_like(levels)
        for source, target, side in zip(levels.numpy(), out.numpy(), kernel, strict=True):
            for plane, result in zip(source, target, strict=True):
                result[:] = _median_cv2(plane, int(side))
        return out
    if has_triton(levels.device) and kernel.max() <= WIDEST_OF_OPENCV:
        from eyechart.corruptions.kernels.neighborhood_triton import median_in_triton

        return median_in_triton(levels, kernel)
    return median_by_counting(levels, kernel)


def _median_cv2(plane: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return the medians of one plane, by counting pixels if a window is too wide for OpenCV."""
    if side <= 1:
        return plane
    if side <= WIDEST_OF_OPENCV:
        return np.asarray(cv2.medianBlur(plane, side))
    # the median is the number of gray levels that more than half of the window's pixels exceed
    medians = np.full_like(plane, plane.min())
    # levels outside the range of the plane need no count: all pixels exceed them, or none
    for level in range(int(plane.min()), int(plane.max())):
        brighter = (plane > level).view(np.uint8)
        counts = cv2.boxFilter(
            brighter, cv2.CV_32S, (side, side), normalize=False, borderType=cv2.BORDER_REPLICATE
        )
        medians += counts > side * side / 2
    return medians


def median_by_counting(levels: Tensor, kernel: Values) -> Tensor:
    """Return the result of `median_filter` in torch, by counting brighter pixels.

    The median is the number of gray levels that more than half of the window's pixels exceed.
    Windows are summed by products with banded matrices of small integers, which are exact in half
    precision.
    """
    batch, channels, height, width = levels.shape
    widest = int(kernel.max())
    offset = np.abs(np.arange(widest) - widest // 2)
    # float16 holds integers up to 2,048 exactly
    number = torch.float16 if levels.is_cuda and widest**2 < 2048 else torch.float32
    windows = torch.from_numpy(offset <= (kernel[:, None] - 1) / 2).to(levels.device, number)
    across = band_matrix(windows, width, "replicate").mT.contiguous()
    down = band_matrix(windows, height, "replicate")
    half = torch.from_numpy(kernel**2 / 2).to(levels.device, number).reshape(-1, 1, 1)
    rows = levels.permute(0, 2, 1, 3).to(number, memory_format=torch.contiguous_format)
    rows = rows.reshape(batch, height * channels, width)
    medians = torch.zeros(batch, height, channels * width, dtype=number, device=levels.device)
    brighter, counts, most = (torch.empty_like(rows) for _ in range(3))
    counts, most = counts.view_as(medians), most.view_as(medians)
    for level in range(255):
        torch.gt(rows, level, out=brighter)
        torch.bmm(down, torch.bmm(brighter, across).view_as(medians), out=counts)
        torch.gt(counts, half, out=most)
        medians += most
    medians = medians.reshape(batch, height, channels, width).permute(0, 2, 1, 3)
    return medians.to(torch.uint8, memory_format=torch.contiguous_format)
