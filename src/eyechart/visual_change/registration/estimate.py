"""Estimate the map between clean and corrupted images: search, refine, decide."""

from dataclasses import dataclass

import torch
from torch import Tensor

from eyechart.visual_change.registration.refinement import centers_of, refine
from eyechart.visual_change.registration.search import describe_search, search
from eyechart.visual_change.registration.view import INTERPOLATIONS, fitted
from eyechart.visual_change.registration.warping import (
    identity_maps,
    inside,
    moved,
    reduced,
    sample,
    smoothed,
)

HYPOTHESES = 6
"""Number of maps of the search that are refined; the best of them is kept."""

SMALLEST = 28
"""Cells along the longer side of the smallest copy of an image, at least."""

MIN_AGREEMENT = 0.55
MAX_UNMOVED = 0.4
MIN_FINE_AGREEMENT = 0.97
"""A map is accepted if it explains nearly everything, or if the images agree well with it and hardly
without it. Motion and zoom blur move an image too, but leave part of it where it was.
"""


@dataclass(frozen=True, eq=False)
class CleanCopies:
    """What registration needs of clean images: copies of every size, and spectra for the search."""

    levels: list[Tensor]
    spectra: Tensor


def describe_copies(gray: Tensor) -> CleanCopies:
    """Return what registration needs of clean gray images (B, H, W)."""
    levels = centered(gray)
    return CleanCopies(levels_of(levels), describe_search(levels))


def centered(gray: Tensor) -> Tensor:
    """Return gray levels around 0, so that sums in float32 are precise."""
    return gray.to(torch.float32) - 128


def levels_of(gray: Tensor) -> list[Tensor]:
    """Return smoothed copies of gray images (B, H, W), each half as large, finest first."""
    images = [gray]
    while max(images[-1].shape[1:]) > 2 * SMALLEST:
        rows, columns = (-(-side // 2) for side in images[-1].shape[1:])
        images.append(reduced(images[-1], rows, columns))
    return [smoothed(image, 1.0) for image in images]


def agreement(clean: Tensor, corrupted: Tensor, maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the correlation (B,) of the details of two images over what both show."""
    rows, columns = corrupted.shape[1:]
    places = moved(centers_of(rows, columns, size, corrupted.device), maps)
    weight = inside(places, size, margin=size[1] / columns).to(torch.float32)
    return _correlation(sample(clean, places, size), corrupted, weight, 3.0)


def fine_agreement(clean: Tensor, corrupted: Tensor, maps: Tensor) -> Tensor:
    """Return the correlation (B,) of the finest details, by the best interpolation."""
    size = (corrupted.shape[1], corrupted.shape[2])
    places = moved(centers_of(*size, size, corrupted.device), maps)
    weight = inside(places, size, margin=1.0).to(torch.float32)
    values = [
        _correlation(sample(clean, places, size, mode), corrupted, weight, 1.0)
        for mode in INTERPOLATIONS
    ]
    return torch.stack(values).amax(dim=0)


def _correlation(warped: Tensor, corrupted: Tensor, weight: Tensor, sigma: float) -> Tensor:
    fill, _ = fitted(warped, corrupted, weight)
    # filled from the other image, so that no edge appears at the border of the visible part
    shown = torch.where(weight > 0, corrupted, fill)
    one, two = (image - smoothed(image, sigma) for image in (warped, shown))
    shared = (one * two * weight).sum(dim=(1, 2))
    squares = [(image.square() * weight).sum(dim=(1, 2)) for image in (one, two)]
    return shared / (squares[0] * squares[1]).clamp_min(1e-6).sqrt()


def estimate(clean: CleanCopies, corrupted: Tensor) -> Tensor:
    """Return the best maps (B, 2, 3) from corrupted gray images (B, H, W) to the clean ones."""
    size = (corrupted.shape[1], corrupted.shape[2])
    count = len(corrupted)
    levels = centered(corrupted)
    before, after = clean.levels, levels_of(levels)
    found = search(clean.spectra, levels, HYPOTHESES)
    starts = torch.cat((identity_maps(count, corrupted)[:, None], found), dim=1)
    number = starts.shape[1]
    maps = starts.flatten(0, 1)
    # the finest level is left for the best one, even if there is no other
    coarse = range(len(before) - 1, max(len(before) - 3, 0), -1)
    for level in coarse:
        pair = [images[level].repeat_interleave(number, dim=0) for images in (before, after)]
        maps = refine(*pair, maps, size, 4)
    scores = agreement(*pair, maps, size).reshape(count, number)
    best = scores.argmax(dim=1)
    maps = maps.reshape(count, number, 2, 3)[torch.arange(count, device=maps.device), best]
    for level in range(coarse[-1] - 1, -1, -1):
        maps = refine(before[level], after[level], maps, size, 4 if level else 3)
    return maps


def is_accepted(clean: Tensor, copies: CleanCopies, corrupted: Tensor, maps: Tensor) -> Tensor:
    """Return which maps (B, 2, 3) are a change of geometry, and not a by-product of another."""
    size = (corrupted.shape[1], corrupted.shape[2])
    level = min(1, len(copies.levels) - 1)
    small = levels_of(centered(corrupted))[level]
    unmoved = agreement(copies.levels[level], small, identity_maps(len(maps), maps), size)
    aligned = agreement(copies.levels[level], small, maps, size)
    fine = fine_agreement(centered(clean), centered(corrupted), maps)
    is_lossless = (fine >= MIN_FINE_AGREEMENT) & (aligned > unmoved)
    is_large = (aligned >= MIN_AGREEMENT) & (unmoved <= MAX_UNMOVED * aligned)
    return is_lossless | is_large
