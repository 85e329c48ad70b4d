"""Blur: each pixel becomes the average or median of its neighborhood, or a random neighbor."""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels.arithmetic import (
    UNIT,
    Rounding,
    to_unit,
    truncate_levels,
    uses_opencv,
)
from eyechart.corruptions.kernels.correlation import (
    LARGEST_RADIUS,
    STEPS,
    correlate,
    disk_means,
    resolve_correlation,
)
from eyechart.corruptions.kernels.filters import (
    box_weights,
    filter_separable,
    gaussian_weights,
    median_filter,
    smooth,
)
from eyechart.corruptions.kernels.resampling import add_zooms, along_both, box_matrix, fine_levels
from eyechart.corruptions.kernels.shuffle import copy_from_neighbors, swap_neighbors

SIGMA = Parameter("sigma", 0, 100, "px", "standard deviation of the Gaussian", clean=0)


@corruption("gaussian_blur", "blur", SIGMA, rounds=True)
def gaussian_blur(
    images: Tensor, random: ImageRandom, *, sigma: Values, rounding: Rounding | None = None
) -> Tensor:
    """Blur with a Gaussian, cut off at four standard deviations."""
    return smooth(images, sigma, rounding=rounding)


@corruption(
    "glass_blur",
    "blur",
    SIGMA,
    Parameter("reach", 0, 50, "px", "maximum distance over which a pixel is copied", clean=0,
              integer=True),
    Parameter("passes", 0, 10, "number", "number of sweeps over the image", clean=0,
              integer=True),
    random=True,
    rounds=True,
)  # fmt: skip
def glass_blur(
    images: Tensor,
    random: ImageRandom,
    *,
    sigma: Values,
    reach: Values,
    passes: Values,
    rounding: Rounding | None = None,
) -> Tensor:
    """Blur, copy each pixel from a random neighbor, and blur again, as if seen through glass.

    As in the published code, the blurred image is truncated to 8 bits, and pixels are overwritten
    one after the other rather than swapped.
    """
    # the published code works on uint8 between the two blurs
    blurred = to_unit(smooth(images, sigma, rounding=truncate_levels))
    return smooth(copy_from_neighbors(blurred, random, reach, passes), sigma, rounding=rounding)


@corruption(
    "vcr/glass_blur",
    "blur",
    SIGMA,
    Parameter("reach", 0, 50, "px", "how far a pixel may move", clean=0),
    random=True,
)
def vcr_glass_blur(images: Tensor, random: ImageRandom, *, sigma: Values, reach: Values) -> Tensor:
    """Blur, swap neighboring pixels at random, and blur again."""
    return smooth(swap_neighbors(smooth(images, sigma), random, reach), sigma)


@corruption(
    "defocus_blur",
    "blur",
    Parameter("radius", 0, 100, "px", "radius of the disk", clean=0),
    Parameter("softness", 0, 1, "px", "standard deviation of the Gaussian at the disk's rim"),
    takes="either",
    rounds=True,
)
def defocus_blur(
    images: Tensor,
    random: ImageRandom,
    *,
    radius: Values,
    softness: Values,
    rounding: Rounding | None = None,
) -> Tensor:
    """Blur with a disk, like a lens that is out of focus.

    The published kernel is kept, although it sums to slightly more than one for wide disks.
    """
    kernels = [_published_disk(r, s) for r, s in zip(radius, softness, strict=True)]
    # kernels of different sizes are zero-padded to the widest, to filter the batch at once
    widest = max(kernel.shape[0] for kernel in kernels)
    stack = np.zeros((len(kernels), widest, widest))
    for target, kernel in zip(stack, kernels, strict=True):
        edge = (widest - kernel.shape[0]) // 2
        target[edge : widest - edge, edge : widest - edge] = kernel
    filters = to_device(torch.from_numpy(stack), images.device)
    if images.dtype != torch.uint8:
        return correlate(images, filters, rounding=rounding)
    if rounding is None or not uses_opencv(images) or radius.max() >= LARGEST_RADIUS:
        return correlate(to_unit(images), filters, rounding=rounding)
    results = []
    for index, levels in enumerate(images):
        rim = _rim(radius[index], softness[index])
        rough = disk_means(levels.numpy(), float(radius[index]), rim)
        image, taps = to_unit(levels).numpy(), filters[index].to(torch.float32).numpy()
        results.append(resolve_correlation(image, taps, "mirror", rounding, rough, STEPS))
    return torch.stack(results)


@lru_cache(maxsize=1024)
def _published_disk(radius: float, softness: float) -> NDArray[np.float64]:
    """Return a pixelated disk, first normalized and then softened with mirrored borders."""
    reach = 8 if radius <= 8 else int(np.ceil(radius))
    # the disk is pixelated, not anti-aliased, as published
    axis = np.arange(-reach, reach + 1)
    disk = (axis[:, None] ** 2 + axis**2 <= radius**2).astype(np.float64)
    disk /= disk.sum()
    weights = _rim(radius, softness)
    soft = len(weights)
    # along the rows and, after the transposition, along the columns
    for _ in range(2):
        padded = np.pad(disk, ((soft // 2, soft // 2), (0, 0)), mode="reflect")
        disk = sum(w * padded[i : i + len(disk)] for i, w in enumerate(weights)).T
    return np.asarray(disk)


def _rim(radius: float, softness: float) -> NDArray[np.float64]:
    """Return the weights that soften the published disk along one axis."""
    # the window sizes of the published code
    size = 3 if radius <= 8 else 5
    # with softness 0 OpenCV derives the width of the Gaussian from the size of its kernel
    sigma = softness if softness > 0 else 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    weights = np.exp(-0.5 * (np.arange(size) - size // 2) ** 2 / sigma**2)
    return np.asarray(weights / weights.sum())


@corruption(
    "vcr/defocus_blur",
    "blur",
    Parameter("radius", 0, 50, "px", "radius of the disk", clean=0),
    Parameter("softness", 0, 5, "px", "standard deviation of the Gaussian at the disk's rim",
              drawn=True),
)  # fmt: skip
def vcr_defocus_blur(
    images: Tensor, random: ImageRandom, *, radius: Values, softness: Values
) -> Tensor:
    """Blur with a disk of any real radius, preserving the brightness.

    With a radius below half a pixel there is no disk and no rim, and the image is unchanged.
    """
    return correlate(images, disk_kernels(radius, softness, images.device))


FINE = 8
"""Number of sample points per pixel and axis, to compute how much of a pixel a disk covers."""


def disk_kernels(radius: Values, softness: Values, device: torch.device) -> Tensor:
    """Return (B, k, k) float64 disk kernels with anti-aliased, softened rims; each sums to one."""
    # so that rim and disk vanish together
    softness = np.minimum(softness, radius)
    soft = gaussian_weights(softness, truncate=3.0)
    reach = int(np.ceil(radius.max())) + soft.shape[1] // 2
    size = 2 * reach + 1
    axis = (torch.arange(size * FINE, device=device, dtype=torch.float64) + 0.5) / FINE
    axis = axis - size / 2
    bound = to_device(torch.from_numpy(radius**2), device).reshape(-1, 1, 1)
    inside = (axis[:, None] ** 2 + axis**2 <= bound).to(torch.float64)
    disks: Tensor = inside.reshape(-1, size, FINE, size, FINE).sum(dim=(2, 4))
    # a disk that covers no sample point becomes the identity kernel
    disks[:, reach, reach] += disks.sum(dim=(1, 2)) == 0
    disks /= disks.sum(dim=(1, 2), keepdim=True)
    if soft.shape[1] == 1:
        return disks
    taps = to_device(torch.from_numpy(soft), device)
    return _soften(_soften(disks, taps), taps)


def _soften(kernels: Tensor, taps: Tensor) -> Tensor:
    """Filter along the rows and transpose; the kernels are wide enough that nothing is cut off."""
    reach = taps.shape[1] // 2
    padded = torch.nn.functional.pad(kernels, (reach, reach))
    windows: Tensor = padded.unfold(2, taps.shape[1], 1)
    softened = torch.sum(windows * taps[:, None, None], dim=3)
    return torch.transpose(softened, 1, 2)


@corruption(
    "motion_blur",
    "blur",
    Parameter("radius", 1, 100, "px", "half the length of the trail", integer=True),
    Parameter("sigma", 0, 100, "px", "how slowly the trail fades", clean=0),
    Parameter("angle", -45, 45, "degrees", "direction of the motion", drawn=True),
    rounds=True,
)
def motion_blur(
    images: Tensor,
    random: ImageRandom,
    *,
    radius: Values,
    sigma: Values,
    angle: Values,
    rounding: Rounding | None = None,
) -> Tensor:
    """Smear each pixel along a fading one-sided trail, like a moving camera."""
    return trail(images, radius, sigma, angle, rounding)


def trail(
    images: Tensor, radius: Values, sigma: Values, angle: Values, rounding: Rounding | None = None
) -> Tensor:
    """Return the images filtered with ImageMagick's one-sided motion kernel, replicating edges.

    `rounding`: a rounding that is applied to the result.
    """
    step = np.arange(int(2 * radius.max() + 1))
    # σ = 0 puts all weight on the first step, without a division by zero
    weights = np.exp(-0.5 * (step / np.maximum(sigma, 1e-9)[:, None]) ** 2)
    # the batch shares one length; shorter trails are cut here
    weights[step > 2 * radius[:, None]] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    radians = np.deg2rad(angle)[:, None]
    # rounded to 9 digits first, so that half pixels round to the same side on every machine
    across = np.ceil(np.round(step * np.cos(radians), 9) - 0.5)
    down = np.ceil(np.round(step * np.sin(radians), 9) - 0.5)
    reach = (int(np.abs(down).max()), int(np.abs(across).max()))
    place_down, place_across, point_weights = (
        to_device(torch.from_numpy(array), images.device) for array in (down, across, weights)
    )
    kernels = _drawn(place_down, place_across, point_weights, reach)
    return correlate(images, kernels, border="replicate", rounding=rounding, most_taps=len(step))


def _drawn(down: Tensor, across: Tensor, weights: Tensor, reach: tuple[int, int]) -> Tensor:
    """Return (B, 2·reach + 1, 2·reach + 1) kernels with the weights (B, n) added at their offsets.

    Kernels and weights are float64; offsets are in whole pixels from the center.
    """
    rows, columns = (2 * side + 1 for side in reach)
    indices = ((down + reach[0]) * columns + (across + reach[1])).to(torch.int64)
    kernels = weights.new_zeros(len(weights), rows * columns)
    return kernels.scatter_add_(1, indices, weights).reshape(-1, rows, columns)


@corruption(
    "vcr/motion_blur",
    "blur",
    Parameter("kernel", 1, 201, "px", "length of the streak", clean=1, odd=True, integer=True),
    Parameter("angle", 0, 180, "degrees", "direction of the motion", drawn=True),
)
def vcr_motion_blur(
    images: Tensor, random: ImageRandom, *, kernel: Values, angle: Values
) -> Tensor:
    """Smear each pixel along a straight streak centered on it."""
    # a streak of length n crosses at most about n rows and columns, and is two or three px wide
    return correlate(
        images, streak_kernels(kernel, angle, images.device), most_taps=4 * int(kernel.max())
    )


STREAK_SAMPLES = 257


def streak_kernels(length: Values, angle: Values, device: torch.device) -> Tensor:
    """Return (B, k, k) float64 kernels, each an anti-aliased, centered line of `length` px.

    Each kernel sums to one.
    """
    # one pixel more for the anti-aliasing
    reach = int(length.max()) // 2 + 1
    radians = np.deg2rad(angle)
    ends = np.stack((np.sin(radians), np.cos(radians))) * (length - 1) / 2
    # a fixed number of samples, independent of the other images in the batch
    samples = to_device(torch.linspace(-1, 1, STREAK_SAMPLES, dtype=torch.float64), device)
    row, column = to_device(torch.from_numpy(ends), device)[..., None] * samples
    # each sample point is shared between its four nearest pixels
    top, left = torch.floor(row), torch.floor(column)
    below, right = row - top, column - left
    kernels = _drawn(
        torch.cat((top, top, top + 1, top + 1), dim=1),
        torch.cat((left, left + 1, left, left + 1), dim=1),
        torch.cat(
            ((1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right),
            dim=1,
        ),
        (reach, reach),
    )
    return kernels / kernels.sum(dim=(1, 2), keepdim=True)


@corruption(
    "zoom_blur",
    "blur",
    Parameter("zoom", 1, 3, "factor", "largest enlargement (exclusive)", clean=1),
    Parameter("step", 0.005, 1, "factor", "step between successive enlargements"),
)
def zoom_blur(images: Tensor, random: ImageRandom, *, zoom: Values, step: Values) -> Tensor:
    """Average the image with enlargements of its center, like a zooming camera."""
    out = torch.empty_like(images)
    pairs = np.stack((zoom, step), axis=1)
    for pair in np.unique(pairs, axis=0):
        chosen = torch.from_numpy(np.flatnonzero((pairs == pair).all(axis=1))).to(images.device)
        # indexing copies, which a batch of one strength does not need
        clean = fine_levels(images if len(chosen) == len(images) else images[chosen])
        # np.arange in floating point, as published: it includes 1.11 for zoom 1.11, step 0.01
        factors = np.arange(1, pair[0], pair[1])
        # factor 1 is among the factors, so the image itself counts twice, as published
        out[chosen] = add_zooms(clean, factors).mul_(UNIT / (len(factors) + 1))
    return out


KERNEL = Parameter(
    "kernel", 1, 201, "px", "side of the square window", clean=1, odd=True, integer=True
)


@corruption("vcr/blur", "blur", KERNEL)
def box_blur(images: Tensor, random: ImageRandom, *, kernel: Values) -> Tensor:
    """Replace each pixel by the mean of a square window around it."""
    return filter_separable(images, box_weights(kernel), "mirror")


@corruption("vcr/median_blur", "blur", KERNEL, takes="levels")
def median_blur(levels: Tensor, random: ImageRandom, *, kernel: Values) -> Tensor:
    """Replace each value by the median of a square window around it, on 8-bit gray levels."""
    return median_filter(levels, kernel)


@corruption(
    "noc/blur",
    "blur",
    Parameter("weight", 0, 1, "factor", "weight of the blurred image", clean=0),
    Parameter("side", 3, 10_001, "px", "side of the averaging window", odd=True, integer=True),
)
def noc_blur(images: Tensor, random: ImageRandom, *, weight: Values, side: Values) -> Tensor:
    """Mix the image with a copy that was averaged five times over a small, zero-padded window."""
    # the five means are combined into one matrix per axis
    down, across = (box_matrix(side, size, 5, images.device) for size in images.shape[-2:])
    blurred = along_both(images, down, across)
    return blurred.sub_(images).mul_(per_image(weight, images)).add_(images)
