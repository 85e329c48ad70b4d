"""Find a rough map among all rotations, scales, shifts, mirrors, some shears and stretches.

Small copies of the clean image, turned and scaled in every way, are correlated with a small copy of
the corrupted one. The correlation with all shifts is a product of Fourier transforms; those of the
clean copies are computed once.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eyechart.core.devices import has_triton
from eyechart.visual_change.registration.warping import (
    centers,
    inside,
    moved,
    reduced,
    sample_channels,
    smoothed,
)

SIDE, PADDED = 32, 40
"""Cells along the longer side of the small copies, and with the margin for shifts."""

REACH = PADDED - SIDE
"""Largest shift in cells, a quarter of the longer side."""

ANGLES = np.arange(0, 360, 15.0)
# up to 1.7 and not 5/3, so that rounding cannot drop the last scale
SCALES = 2.0 ** np.arange(-5 / 3, 1.7, 1 / 3)
SHEARS = (-1.0, -0.67, -0.36, 0.36, 0.67, 1.0)
STRETCHES = 2.0 ** np.array([-4 / 3, -1, -2 / 3, -1 / 3, 1 / 3, 2 / 3, 1])
"""What is tried: rotations in degrees, magnifications (with and without a mirror, at every
rotation), and shears and stretches along the axes.
"""

NEIGHBORS, NEAR = 4, 0.4
"""Number of neighbors of a linear map, and how much a map may change relative to its neighbor: by
one step of rotation or magnification.
"""

NOT_HIGHEST = 0.9
"""Factor of the score of a map if a neighbor has a higher one, so that hypotheses differ more."""

MIN_OVERLAP = 0.05
"""Share of the corrupted image that must show the clean one."""

FLAT = 0.1
"""Range of gray levels within a cell below which it shows nothing of the clean image."""

NOISIER, MAX_GAP = 1.5, 0.15
"""How much larger than in the flattest cell the range may be in others that are as flat, and how
far their means may be from that of the flattest one, relative to its range.
"""

MIN_CELL = 4
"""Pixels along a side of a cell from which on it is known whether it is flat."""


@lru_cache(maxsize=1)
def candidates() -> dict[float, Tensor]:
    """Return all linear maps that are tried, (N, 2, 2) by the magnification of the image."""
    maps = []
    for scale in SCALES:
        for angle in np.radians(ANGLES):
            # a map leads back to the clean image, so that a magnified image has a small map
            cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
            maps += [((cos, sin), (-sin, cos)), ((-cos, -sin), (-sin, cos))]
    for shear in SHEARS:
        maps += [((1, shear), (0, 1)), ((1, 0), (shear, 1))]
    for stretch in STRETCHES:
        maps += [((1 / stretch, 0), (0, 1)), ((1, 0), (0, 1 / stretch))]
    groups: dict[float, list[tuple[tuple[float, float], tuple[float, float]]]] = {}
    for one in maps:
        # copies of one magnification are sampled from the same reduced image; rounded, because
        # equal determinants may differ in their last bits
        magnification = round(abs(np.linalg.det(one)) ** -0.5, 6)
        groups.setdefault(float(magnification), []).append(one)
    return {key: torch.tensor(group, dtype=torch.float64) for key, group in groups.items()}


@lru_cache(maxsize=8)
def linear_maps(device: torch.device) -> Tensor:
    """Return all linear maps (N, 2, 2) in one tensor."""
    return torch.cat(tuple(candidates().values())).to(device)


def thumbnail_size(size: tuple[int, int], magnification: float = 1.0) -> tuple[int, int]:
    """Return the rows and columns of the small copy of an image, magnified."""
    cells = SIDE / max(size) * magnification
    # very narrow images keep a few cells to correlate
    rows, columns = (max(4, round(side * cells)) for side in size)
    return rows, columns


def contrasts(small: Tensor) -> Tensor:
    """Return band-passed images (B, h, w) of roughly equal local contrast."""
    band = smoothed(small, 0.7) - smoothed(small, 3.0)
    local = smoothed(band.square(), 3.0)
    return _equalized(band, local, band.square().mean(dim=(1, 2), keepdim=True))


def contrasts_of_part(small: Tensor, weight: Tensor) -> Tensor:
    """Return `contrasts` of the cells whose weight (B, h, w) is 1, and 0 where it is 0.

    Averages are over the former alone, so that the border between both is not an edge.
    """
    fine, coarse = (smoothed(weight, sigma).clamp_min(1e-3) for sigma in (0.7, 3.0))
    seen = small * weight
    band = (smoothed(seen, 0.7) / fine - smoothed(seen, 3.0) / coarse) * weight
    local = smoothed(band.square(), 3.0) / coarse
    count = weight.sum(dim=(1, 2), keepdim=True).clamp_min(1)
    return _equalized(band, local, band.square().sum(dim=(1, 2), keepdim=True) / count)


def _equalized(band: Tensor, local: Tensor, overall: Tensor) -> Tensor:
    # the added terms keep noise in flat areas from being raised to full contrast
    return band / (local + 0.1 * overall + 1e-3).sqrt()


def has_large_cells(size: tuple[int, int]) -> bool:
    """Return whether the cells of an image's small copy are too large to be flat by chance."""
    return max(size) >= MIN_CELL * SIDE


def without_fill(small: Tensor, spread: Tensor) -> Tensor:
    """Return 1 for cells (B, h, w) that show the clean image, and 0 where a moved one is filled.

    A fill is flat, and its border would be the strongest edge of the image. With noise, it has the
    color of the flattest cell and about as much noise. Cells next to the fill are left out too,
    because the border passes through them.
    """
    flattest = spread.amin(dim=(1, 2), keepdim=True)
    colors = torch.where(spread == flattest, small, torch.inf)
    gap = (small - colors.amin(dim=(1, 2), keepdim=True)).abs()
    is_flat = (spread < FLAT) | ((spread <= NOISIER * flattest) & (gap <= MAX_GAP * flattest))
    is_flat = is_flat.to(spread.dtype)
    return 1 - functional.max_pool2d(is_flat[:, None], 3, stride=1, padding=1)[:, 0]


def describe_search(gray: Tensor) -> Tensor:
    """Return the Fourier transforms (B, N, PADDED, PADDED // 2 + 1) of all copies, conjugated.

    With Triton, these are the copies themselves, (B, N, SIDE · SIDE), in float16.
    """
    if has_triton(gray.device):
        from eyechart.visual_change.registration.search_triton import describe_in_triton

        return describe_in_triton(gray)
    size = (gray.shape[1], gray.shape[2])
    points = centers(*thumbnail_size(size), size, gray.device)
    spectra = []
    for magnification, linear in candidates().items():
        maps = _unshifted(linear.to(gray.device))
        places = moved(points, maps)
        is_visible = inside(places, size).to(torch.float32)
        # no finer than the image itself
        finest = max(size) / SIDE
        small = reduced(gray, *thumbnail_size(size, min(magnification, finest)))
        # images are channels, because all of them are sampled at the same points
        copies = sample_channels(small.expand(len(maps), -1, -1, -1), places, size)
        copies = copies.transpose(0, 1)
        # masked after the filters, which would see the border of the mask as an edge
        flat = contrasts(copies.flatten(0, 1)).reshape(copies.shape) * is_visible
        # zeros up to PADDED, so that shifts up to REACH do not wrap around
        spectra.append(torch.fft.rfft2(flat, s=(PADDED, PADDED)))
    return torch.cat(spectra, dim=1).conj()


def _unshifted(linear: Tensor) -> Tensor:
    return torch.cat((linear, linear.new_zeros((len(linear), 2, 1))), dim=2)


@lru_cache(maxsize=8)
def overlaps(size: tuple[int, int], device: torch.device) -> Tensor:
    """Return 1 / √(shared cells) for all copies and shifts (N, 2·REACH+1, 2·REACH+1)."""
    rows, columns = thumbnail_size(size)
    maps = _unshifted(linear_maps(device))
    visible = inside(moved(centers(rows, columns, size, device), maps), size).to(torch.float32)
    frame = torch.ones((rows, columns), device=device)
    shared = torch.fft.irfft2(
        torch.fft.rfft2(frame, s=(PADDED, PADDED))
        * torch.fft.rfft2(visible, s=(PADDED, PADDED)).conj(),
        s=(PADDED, PADDED),
    )
    shared = _near_shifts(shared)
    # by chance, a sum over n cells of unit contrast grows as √n
    return torch.where(shared > MIN_OVERLAP * rows * columns, shared.clamp_min(1).rsqrt(), 0.0)


def search(spectra: Tensor, corrupted: Tensor, count: int) -> Tensor:
    """Return the `count` best maps (B, count, 2, 3) for gray images (B, H, W)."""
    size = (corrupted.shape[1], corrupted.shape[2])
    # the best shift of each linear map, so that hypotheses differ in more than their shift
    best, index = _best_shifts(spectra, corrupted)
    is_highest = best >= best[:, _neighbors(best.device)].amax(dim=2)
    chosen = torch.where(is_highest, best, NOT_HIGHEST * best).topk(count, dim=1).indices
    return _all_maps(size, corrupted.device)[chosen, index.gather(1, chosen)]


@lru_cache(maxsize=8)
def _neighbors(device: torch.device) -> Tensor:
    """Return the nearest other linear maps (N, NEIGHBORS); the map itself where there are fewer."""
    linear = linear_maps(torch.device("cpu"))
    change = linear[:, None] @ torch.linalg.inv(linear) - torch.eye(2, dtype=linear.dtype)
    distance = change.norm(dim=(2, 3))
    # a step and the step back count alike
    distance = torch.minimum(distance, distance.T).fill_diagonal_(torch.inf)
    nearest = distance.topk(NEIGHBORS, dim=1, largest=False)
    alone = torch.arange(len(linear))[:, None]
    return torch.where(nearest.values < NEAR, nearest.indices, alone).to(device)


@lru_cache(maxsize=4)
def _all_maps(size: tuple[int, int], device: torch.device) -> Tensor:
    """Return each linear map with each shift, (N, shifts, 2, 3), in the order of `overlaps`."""
    rows, columns = thumbnail_size(size)
    cell = torch.tensor([size[1] / columns, size[0] / rows], dtype=torch.float64)
    shifts = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    down, across = torch.meshgrid(shifts, shifts, indexing="ij")
    moved_by = torch.stack((across.flatten(), down.flatten()), dim=1) * cell
    linear = linear_maps(torch.device("cpu"))[:, None].expand(-1, len(moved_by), -1, -1)
    # content moved by `shift` in the corrupted image: clean point = A (x − shift)
    return torch.cat((linear, -(linear @ moved_by[..., None])), dim=3).to(device)


def _best_shifts(spectra: Tensor, corrupted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the score of the best shift of each linear map (B, N), and which shift it is."""
    if has_triton(corrupted.device):
        from eyechart.visual_change.registration.search_triton import scores_in_triton

        return scores_in_triton(spectra, corrupted)
    size = (corrupted.shape[1], corrupted.shape[2])
    grid = thumbnail_size(size)
    small = reduced(corrupted, *grid)
    if has_large_cells(size):
        small = contrasts_of_part(small, without_fill(small, _spread(corrupted, *grid)))
    else:
        small = contrasts(small)
    spectrum = torch.fft.rfft2(small, s=(PADDED, PADDED))
    correlation = torch.fft.irfft2(spectrum[:, None] * spectra, s=(PADDED, PADDED))
    scores = _near_shifts(correlation) * overlaps(size, corrupted.device)
    best, index = scores.flatten(2).max(dim=2)
    return best, index


def _spread(images: Tensor, rows: int, columns: int) -> Tensor:
    """Return the range of gray levels (B, rows, columns) within each cell of a grid."""
    high, low = (
        functional.adaptive_max_pool2d(one[:, None], (rows, columns))[:, 0]
        for one in (images, -images)
    )
    return high + low


def _near_shifts(correlation: Tensor) -> Tensor:
    """Return the correlations at shifts from −REACH to REACH; negative ones are at the end."""
    shifts = torch.arange(-REACH, REACH + 1, device=correlation.device)
    return correlation[..., shifts[:, None], shifts]
