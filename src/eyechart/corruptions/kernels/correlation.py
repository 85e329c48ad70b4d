"""Linear filters with one two-dimensional kernel per image, in the precision of `filters`.

Small disks are also averaged over 8-bit images with few additions: a disk consists of runs of
pixels along its rows, and the sum over a run is the sum over the run that is two pixels shorter
plus two pixels, so that each length needs only two additions, in exact integers.
"""

from functools import lru_cache

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.corruptions.kernels.arithmetic import Rounding, uses_opencv
from eyechart.corruptions.kernels.filters import (
    CV2_BORDERS,
    Plane,
    border_index,
    fft_length,
    resolve_rounding,
    values_at,
)

MOST_TAPS = 1024
"""Number of weights per kernel beyond which an FFT is faster on a GPU than filtering tap by tap."""

LARGE = 144
"""Minimum number of taps at which OpenCV always filters by Fourier transform."""

FFT_IMAGES = 32

MOST_ROUGH = 160
"""Number of taps that are not zero up to which filtering in float32 first pays off."""

LARGE_ROUGH = 130
"""Minimum number of taps at which OpenCV filters float32 by Fourier transform."""

PIECE = 40
"""Maximum number of taps that are summed in float32 before pieces of a kernel are added up."""


def correlate(
    images: Tensor,
    kernels: Tensor,
    border: str = "mirror",
    rounding: Rounding | None = None,
    most_taps: int | None = None,
) -> Tensor:
    """Return the images filtered with (B, kh, kw) kernels of odd size, centered, not flipped.

    Kernels are rounded to float32. `rounding`: a rounding that is applied to the result; images and
    kernels must not be negative then. `most_taps`: the maximum number of weights of a kernel that
    are not zero, if most are.
    """
    kernels = kernels.to(torch.float32)
    if not uses_opencv(images):
        if has_triton(images.device) and (most_taps or kernels[0].numel()) <= MOST_TAPS:
            from eyechart.corruptions.kernels.neighborhood_triton import correlate_in_triton

            result = correlate_in_triton(images, kernels, border)
        else:
            result = correlate_fft(images, kernels, border)
        return result if rounding is None else rounding(result)
    results = []
    for image, kernel in zip(images.numpy(), kernels.numpy(), strict=True):
        taps, anchor = _trim(kernel)
        if rounding is not None and np.count_nonzero(taps) <= MOST_ROUGH:
            rough, steps = _correlate_roughly(image, taps, anchor, border)
            results.append(resolve_correlation(image, kernel, border, rounding, rough, steps))
        else:
            result = _correlate_cv2(image, taps, anchor, border)
            results.append(result if rounding is None else rounding(result))
    return torch.stack(results)


def _correlate_cv2(
    image: Plane, taps: NDArray[np.float32], anchor: tuple[int, int], border: str
) -> Tensor:
    out = np.empty_like(image)
    source: NDArray[np.floating] = image
    kernel: NDArray[np.floating] = taps
    # From this size on OpenCV uses a Fourier transform, in float64 for any input type; smaller
    # kernels are applied directly, in the type of the image.
    if taps.size < LARGE:
        source, kernel = image.astype(np.float64), taps.astype(np.float64)
    for plane, result in zip(source, out, strict=True):
        result[:] = cv2.filter2D(plane, -1, kernel, anchor=anchor, borderType=CV2_BORDERS[border])
    return torch.from_numpy(out)


def _correlate_roughly(
    image: Plane, taps: NDArray[np.float32], anchor: tuple[int, int], border: str
) -> tuple[Plane, int]:
    """Return the result of `_correlate_cv2` in float32, and the number of roundings behind it."""
    height, width = image.shape[1:]
    left, top = anchor
    sides = (top, taps.shape[0] - 1 - top, left, taps.shape[1] - 1 - left)
    pieces = _pieces(taps.tobytes(), taps.shape[1])
    rough = np.empty_like(image)
    for plane, result in zip(image, rough, strict=True):
        padded = cv2.copyMakeBorder(plane, *sides, CV2_BORDERS[border])
        for number, (down, across, piece) in enumerate(pieces):
            rows, columns = piece.shape
            part = padded[down : down + height + rows - 1, across : across + width + columns - 1]
            filtered = cv2.filter2D(part, -1, piece, anchor=(0, 0))[:height, :width]
            if number == 0:
                result[:] = filtered
            else:
                cv2.add(result, filtered, result)
    return rough, PIECE + len(pieces) + 4


def resolve_correlation(
    image: Plane,
    kernel: NDArray[np.float32],
    border: str,
    rounding: Rounding,
    rough: Plane,
    steps: int,
) -> Tensor:
    """Return the result of `correlate` for one image on the CPU, from rough values."""
    taps, anchor = _trim(kernel)
    return resolve_rounding(
        torch.from_numpy(rough),
        steps,
        rounding,
        lambda indices: values_at(image, taps, anchor, border, indices),
        lambda: _correlate_cv2(image, taps, anchor, border),
        int(np.count_nonzero(taps)),
    )


@lru_cache(maxsize=256)
def _pieces(kernel: bytes, columns: int) -> list[tuple[int, int, NDArray[np.float32]]]:
    """Return a float32 kernel in pieces that OpenCV applies directly, each with its offset."""
    taps = np.frombuffer(kernel, dtype=np.float32).reshape(-1, columns)
    rows, column_indices = np.nonzero(taps)
    pieces = []
    start = 0
    while start < len(rows):
        stop = start + 1
        # as many taps, in the order of reading, as their bounding box and their sum allow
        while stop < min(len(rows), start + PIECE):
            box = column_indices[start : stop + 1]
            if (rows[stop] - rows[start] + 1) * (np.ptp(box) + 1) >= LARGE_ROUGH:
                break
            stop += 1
        down, across = rows[start:stop], column_indices[start:stop]
        top, left = int(down[0]), int(across.min())
        piece = np.zeros((down[-1] - top + 1, across.max() - left + 1), dtype=np.float32)
        piece[down - top, across - left] = taps[down, across]
        pieces.append((top, left, piece))
        start = stop
    return pieces


def _trim(kernel: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[int, int]]:
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
    rows = border_index(torch.arange(-down, height + down, device=device), height, border)
    columns = border_index(torch.arange(-across, width + across, device=device), width, border)
    size = (fft_length(len(rows)), fft_length(len(columns)))
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


LARGEST_RADIUS = 7
"""Disks must be smaller than this: sums over larger ones do not fit into 16 bits, and the published
code softens them differently."""

STEPS = 20
"""Number of float32 roundings behind a value, including those of a kernel and an image in float32
that this module does not use."""


def disk_means(
    levels: NDArray[np.uint8], radius: float, soft: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the means (C, H, W) in [0, 1] over a disk whose rim is softened by three weights.

    Borders are mirrored about the edge pixels.
    """
    reach = int(radius)
    # the length of a row's run is 2 · half + 1
    halves = [int(np.sqrt(radius**2 - offset**2)) for offset in range(-reach, reach + 1)]
    # one more pixel on each side for the softening
    side, mirror = reach + 1, CV2_BORDERS["mirror"]
    padded = np.stack(
        [cv2.copyMakeBorder(plane, side, side, side, side, mirror) for plane in levels]
    )
    # dividing a kernel of three weights instead of the image saves a pass over all pixels
    across = soft / (255 * sum(2 * half + 1 for half in halves))
    out = np.empty(levels.shape, dtype=np.float32)
    padded = padded.astype(np.uint16)
    height, width = (size - 2 * reach for size in padded.shape[1:])
    # a copy, since the runs grow in place
    runs = padded[..., reach : reach + width].copy()
    total = np.zeros((len(padded), height, width), dtype=np.uint16)
    for half in range(reach + 1):
        if half:
            runs += padded[..., reach - half : reach - half + width]
            runs += padded[..., reach + half : reach + half + width]
        for row, own_half in enumerate(halves):
            if own_half == half:
                total += runs[:, row : row + height]
    for sums, result in zip(total, out, strict=True):
        result[:] = cv2.sepFilter2D(sums, cv2.CV_32F, across, soft)[1:-1, 1:-1]
    return out
