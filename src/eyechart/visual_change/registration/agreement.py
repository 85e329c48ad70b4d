"""How well a clean image, moved by a map, agrees with a corrupted one, and whether to accept it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.view import fitted
from eyechart.visual_change.registration.warping import (
    for_maps,
    identity_maps,
    inside,
    moved,
    sample,
    smoothed,
)

MIN_AGREEMENT = 0.55
"""Agreement that a map must reach; by chance, unrelated images reach 0.4."""

MAX_UNMOVED = 0.3
"""Agreement without the map, relative to that with it, below which a map is surely needed.

Motion and zoom blur move an image too, but leave part of it where it was: more than this.
"""

MAX_RESIDUAL = 0.6
"""Unexplained variance with a map, relative to that without it, that a smaller map must reach."""

MIN_FINE_GAIN = 0.9
"""Gain of fine details, relative to coarse ones, that a smaller map must leave.

Noise does not lower it, but blur does.
"""

COARSE, FINE = 3.0, 1.5
"""Structure coarser than this many cells is no detail. Brightness that varies slowly over an image
would otherwise dominate the correlation.
"""

PREFERENCE = 0.125
"""Exponent of the share of the corrupted image that shows the clean one."""

ALIKE = 1e-4
"""Unexplained variance without a map below which no map is needed."""


def compare_details(
    clean: Tensor,
    corrupted: Tensor,
    maps: Tensor,
    size: tuple[int, int],
    sigma: float = COARSE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare the details of images (B, h, w) over what both show.

    Args:
        clean: the clean images.
        corrupted: the corrupted images.
        maps: n maps (B · n, 2, 3) for each pair of images.
        size: height and width of the images in pixels.
        sigma: what is coarser than this many cells is no detail.

    Returns:
        The agreement of each map (B · n,), which is the correlation of the details; the gain by
        which details of the clean image appear in the corrupted one; and the score by which to
        choose between maps. The score slightly prefers maps by which the corrupted image shows more
        of the clean one: an image that was reduced and filled by reflection shows several mirrored
        copies of it, which all agree, but only one of them is complete.
    """
    if has_triton(corrupted.device):
        from eyechart.visual_change.registration.agreement_triton import compared_in_triton

        return compared_in_triton(clean, corrupted, maps, size, sigma)
    clean, corrupted = for_maps(clean, maps), for_maps(corrupted, maps)
    one, two, weight = _details(clean, corrupted, maps, size, sigma)
    shared, own, other = (
        (product * weight).sum(dim=(1, 2)) for product in (one * two, one * one, two * two)
    )
    # constant images have no details at all, and 0 / 0 would be NaN; the factor is the slope of a
    # regression on the clean image, which noise in the corrupted one does not bias
    correlation = shared / (own * other).clamp_min(1e-6).sqrt()
    score = correlation * weight.mean(dim=(1, 2)).pow(PREFERENCE)
    return correlation, shared / own.clamp_min(1e-6), score


def _details(
    clean: Tensor, corrupted: Tensor, maps: Tensor, size: tuple[int, int], sigma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both images without structure coarser than `sigma` cells, and what both show."""
    rows, columns = corrupted.shape[1:]
    places = moved(centers_of(rows, columns, size, corrupted.device), maps)
    # a margin of one cell, because interpolation near the edge reads beyond it
    weight = inside(places, size, margin=size[1] / columns).to(torch.float32)
    warped = sample(clean, places, size)
    fill, _ = fitted(warped, corrupted, weight)
    # filled from the other image, so that no edge appears at the border of the visible part
    shown = torch.where(weight > 0, corrupted, fill)
    one, two = (image - smoothed(image, sigma) for image in (warped, shown))
    return one, two, weight


def is_geometric(
    clean: Sequence[Tensor], corrupted: Sequence[Tensor], maps: Tensor, size: tuple[int, int]
) -> Tensor:
    """Return which maps (B, 2, 3) are a change of geometry, and not a by-product of another one.

    `clean`, `corrupted`: copies of the images from `levels_of`.
    """
    both = torch.stack((identity_maps(len(maps), maps), maps), dim=1)
    # the second copy, because half the resolution averages out much of the noise; on the host,
    # because a GPU takes longer to begin each of these operations than a CPU for all of them
    agreement, _, _ = compare_details(clean[1], corrupted[1], both.flatten(0, 1), size)
    unmoved, aligned = agreement.cpu().reshape(-1, 2).unbind(dim=1)
    # 1 − r², the share of the variance that a linear regression leaves unexplained
    before, after = 1 - unmoved.square(), 1 - aligned.square()
    is_accepted = (aligned >= MIN_AGREEMENT) & (before >= ALIKE)
    is_large = unmoved <= MAX_UNMOVED * aligned
    is_open = is_accepted & ~is_large & (after <= MAX_RESIDUAL * before)
    is_accepted = (is_accepted & is_large).to(maps.device)
    # sharpness takes longest to measure, and decides about few images
    places = is_open.nonzero().flatten().to(maps.device)
    if len(places):
        # the filter counts cells: it is four times as wide on the third copy as on the first
        fine, coarse = (
            compare_details(
                clean[level][places], corrupted[level][places], maps[places], size, FINE
            )[1]
            for level in (0, 2)
        )
        is_accepted = is_accepted.index_copy(0, places, fine >= MIN_FINE_GAIN * coarse)
    return is_accepted
