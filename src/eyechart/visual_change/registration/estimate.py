"""Estimate the map between clean and corrupted images, accept it, and say how it moved them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.registration.refinement import centers_of, refine
from eyechart.visual_change.registration.search import describe_search, search
from eyechart.visual_change.registration.view import (
    View,
    fitted,
    nearest_error,
    view,
)
from eyechart.visual_change.registration.warping import (
    for_maps,
    identity_map,
    identity_maps,
    inside,
    moved,
    reduced,
    sample,
    smoothed,
)
from eyechart.visual_change.vif.fidelity import map_chunks

HYPOTHESES = (16, 5)
"""Number of maps of the search that are refined on the smallest copies, and on the next larger."""

SMALLEST = 28
"""Cells along the longer side of the smallest copy of an image, at least."""

SMOOTHING = 1.0
"""Standard deviation in cells of the Gaussian that smooths copies."""

SHORTEST = 3
"""Cells along the shorter side of a copy, at least, because derivatives need neighbors."""

MIN_LEVELS = 3
"""Number of copies that `is_geometric` needs, however small the image is."""

NEAR_STEPS, FIRST_STEPS, STEPS, LAST_STEPS = 2, 4, 3, 2
"""Number of Gauss–Newton steps from the identity on each of the two smallest copies, after the
search on the smallest one, then on each copy, and on the largest one.
"""

LAST_STRIDE = 2
"""Which lines of the largest copy the last steps use: every second one is enough."""

SEARCHED_AT_ONCE, SEARCHED_IN_TRITON = 64, 256
"""Number of images searched at once, because the search takes 22 MB for each, or 3 MB in Triton."""

ENOUGH = 0.95
"""Agreement near the identity that makes a search superfluous."""

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


@dataclass(frozen=True, eq=False)
class CleanCopies:
    """What registration needs of clean images (B, H, W).

    Attributes:
        levels: smoothed copies, each half as large as the one before.
        gray: gray levels around 0, of the images that `index` refers to.
        index: for each image, its place in `gray`, so that repeated images share their spectra.
        spectra: for the search, computed once for the images that need it: a batch of spectra, and
            the place of the image's in it.
    """

    levels: Sequence[Tensor]
    gray: Tensor
    index: Sequence[int]
    spectra: dict[int, tuple[Tensor, int]] = field(default_factory=dict)

    def select(self, indices: Tensor) -> "CleanCopies":
        """Return the copies of the images at these indices, which may repeat."""
        levels = [level[indices] for level in self.levels]
        # spectra are shared, so that those computed for one selection also serve others
        index = [self.index[place] for place in indices.tolist()]
        return CleanCopies(levels, self.gray, index, self.spectra)

    def searched(self, wanted: list[int], indices: Tensor) -> Tensor:
        """Return the spectra of images for the search, (B, N, …).

        `wanted`, `indices`: which images, as a list and on their device.
        """
        places = [self.index[place] for place in wanted]
        missing = sorted({place for place in places if place not in self.spectra})
        if missing:
            # indices on the device, if they are the same, because copying a list makes it wait
            rows = indices if missing == wanted else missing
            # a thread may repeat what another one does here, but it stores the same values
            described = describe_search(self.gray[rows])
            self.spectra.update((place, (described, row)) for row, place in enumerate(missing))
            if missing == places:
                # without a copy
                return described
        known = [self.spectra[place] for place in places]
        first = known[0][0]
        if all(batch is first for batch, _ in known):
            return first[[row for _, row in known]]
        return torch.stack([batch[row] for batch, row in known])


def describe_copies(gray: Tensor) -> CleanCopies:
    """Return what registration needs of clean gray images (B, H, W)."""
    images = centered(gray)
    if gray.device.type != "cpu":
        return CleanCopies(levels_of(images), images, range(len(gray)))
    # one image at a time, because a convolution rounds differently in a batch
    parts = map_chunks(images, lambda part: levels_of(images[part]), 1, one_thread_each=True)
    levels = [torch.cat(level) for level in zip(*parts, strict=True)]
    return CleanCopies(levels, images, range(len(gray)))


def centered(gray: Tensor) -> Tensor:
    """Return gray levels around 0, so that sums in float32 are precise."""
    # whole numbers minus a float become float32 in one operation, unless torch has another default
    return (gray - 128.0).to(torch.float32)


def levels_of(gray: Tensor) -> list[Tensor]:
    """Return smoothed copies of gray images (B, H, W), each half as large, finest first."""
    sizes = [(gray.shape[1], gray.shape[2])]
    while max(sizes[-1]) >= 2 * SMALLEST or len(sizes) < MIN_LEVELS:
        # sides are rounded up, so that none becomes 0
        smaller = (-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2))
        if min(smaller) < SHORTEST and len(sizes) >= MIN_LEVELS:
            break
        sizes.append(smaller)
    if has_triton(gray.device):
        from eyechart.visual_change.registration.warping_triton import levels_in_triton

        return levels_in_triton(gray, sizes, SMOOTHING)
    levels = [smoothed(gray, SMOOTHING)]
    for rows, columns in sizes[1:]:
        gray = reduced(gray, rows, columns)
        levels.append(smoothed(gray, SMOOTHING))
    return levels


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
    rows, columns = corrupted.shape[1:]
    places = moved(centers_of(rows, columns, size, corrupted.device), maps)
    # a margin of one cell, because interpolation near the edge reads beyond it
    weight = inside(places, size, margin=size[1] / columns).to(torch.float32)
    warped = sample(clean, places, size)
    fill, _ = fitted(warped, corrupted, weight)
    # filled from the other image, so that no edge appears at the border of the visible part
    shown = torch.where(weight > 0, corrupted, fill)
    # the details: both images without structure coarser than `sigma` cells
    one, two = (image - smoothed(image, sigma) for image in (warped, shown))
    shared, own, other = (
        (product * weight).sum(dim=(1, 2)) for product in (one * two, one * one, two * two)
    )
    # constant images have no details at all, and 0 / 0 would be NaN; the factor is the slope of a
    # regression on the clean image, which noise in the corrupted one does not bias
    correlation = shared / (own * other).clamp_min(1e-6).sqrt()
    score = correlation * weight.mean(dim=(1, 2)).pow(PREFERENCE)
    return correlation, shared / own.clamp_min(1e-6), score


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


def estimate(clean: CleanCopies, corrupted: Sequence[Tensor], size: tuple[int, int]) -> Tensor:
    """Return the best maps (B, 2, 3) from corrupted images to clean ones.

    Args:
        clean: what registration needs of the clean images.
        corrupted: copies of the corrupted images, from `levels_of`.
        size: height and width of the images.
    """
    maps = identity_maps(len(corrupted[0]), corrupted[0])
    # coarse first, because a step only corrects displacements of a few cells
    for level in (-1, -2):
        maps = refine(clean.levels[level], corrupted[level], maps, size, NEAR_STEPS)
    near, _, near_score = compare_details(clean.levels[-2], corrupted[-2], maps, size)
    at_once = SEARCHED_IN_TRITON if has_triton(maps.device) else SEARCHED_AT_ONCE
    for part in torch.split((near.cpu() < ENOUGH).nonzero().flatten(), at_once):
        # an empty tensor has one part, which is empty too
        if not len(part):
            break
        far = part.to(maps.device)
        spectra = clean.searched(part.tolist(), far)
        found, score = _searched(clean, spectra, corrupted, far, size)
        is_better = score > near_score[far]
        maps[far] = torch.where(is_better[:, None, None], found, maps[far])
    # from the third smallest on, because the two smaller ones were refined above
    for level in range(len(corrupted) - 3, -1, -1):
        steps, stride = (STEPS, 1) if level else (LAST_STEPS, LAST_STRIDE)
        maps = refine(clean.levels[level], corrupted[level], maps, size, steps, stride=stride)
    return maps


def _searched(
    clean: CleanCopies,
    spectra: Tensor,
    corrupted: Sequence[Tensor],
    far: Tensor,
    size: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """Return the best maps of the search, refined on the two smallest copies, and their scores.

    `far`: indices of the images that are searched.
    """
    maps = search(spectra, corrupted[0][far], HYPOTHESES[0])
    for level, keep, steps in ((-1, HYPOTHESES[1], FIRST_STEPS), (-2, 1, STEPS)):
        one, two = clean.levels[level][far], corrupted[level][far]
        # hypotheses join the batch axis, so that `refine` handles all of them at once
        flat = refine(one, two, maps.flatten(0, 1), size, steps, has_fill=True)
        _, _, scores = compare_details(one, two, flat, size)
        best, places = scores.reshape(-1, maps.shape[1]).topk(keep, dim=1)
        maps = flat.reshape(maps.shape).take_along_dim(places[:, :, None, None], dim=1)
    return maps[:, 0], best[:, 0]


LINEAR_STEPS, SHIFT_STEPS = 2.0**16, 2.0**9
"""Maps are rounded to these fractions: to about 1/500 px everywhere in an image of 224 px."""

ROUNDED = 1.0
"""Distance in px from a map to one of whole degrees and pixels that may replace it."""


@dataclass(frozen=True, eq=False)
class Motion:
    """How images were moved, one value per image (B,).

    Attributes:
        rotation: the angle in degrees, clockwise, −180 … 180.
        log_scale: log₂ of the magnification.
        shift: how far the center of the clean image moved, as a fraction of the longer side.
        shear: log₂ of the ratio of the largest to the smallest magnification over all directions.
        mirror: 1 if the image is mirrored (left and right exchanged before the rotation), or 0.
        share: the share of the clean image's area that is still in the frame.
    """

    rotation: Tensor
    log_scale: Tensor
    shift: Tensor
    shear: Tensor
    mirror: Tensor
    share: Tensor


def motion_of(maps: Tensor, share: Tensor, size: tuple[int, int]) -> Motion:
    """Return how images of a size (height, width) were moved, by their maps (B, 2, 3)."""
    # maps lead from the corrupted image to the clean one, but the motion is the other way round
    forward = torch.linalg.inv(maps[..., :2])
    is_mirrored = forward.det() < 0
    flip = torch.ones((len(maps), 2), dtype=maps.dtype, device=maps.device)
    flip[:, 0] = torch.where(is_mirrored, -1.0, 1.0)
    # mirrored back first, then the rotation is that of the polar decomposition
    turned = forward * flip[:, None, :]
    angle = torch.atan2(turned[:, 1, 0] - turned[:, 0, 1], turned[:, 0, 0] + turned[:, 1, 1])
    stretches = torch.linalg.svdvals(forward)
    # the clean center 0 appears at −A⁻¹·t; only its length is used, so the sign is left out
    center = (forward @ maps[..., 2:])[..., 0]
    return Motion(
        torch.rad2deg(angle),
        # log₂ of the geometric mean: the square root of the change of area
        stretches.log2().mean(dim=1),
        center.norm(dim=1) / max(size),
        # singular values are in descending order, so that the ratio is at least 1
        (stretches[:, 0] / stretches[:, 1]).log2(),
        is_mirrored.to(maps.dtype),
        share,
    )


def rounded(maps: Tensor) -> Tensor:
    """Return maps (B, 2, 3) with whole degrees and pixels, without any change of scale or shear."""
    linear = maps[..., :2]
    sign = torch.where(linear.det() < 0, -1.0, 1.0)
    # the rotation of the nearest orthogonal map; `sign` covers mirrored maps too
    across = (linear[:, 0, 0] + sign * linear[:, 1, 1], linear[:, 1, 0] - sign * linear[:, 0, 1])
    angle = torch.deg2rad(torch.rad2deg(torch.atan2(across[1], across[0])).round())
    cos, sin = angle.cos(), angle.sin()
    # exact at quarter turns, where pixels are exchanged without interpolation
    cos, sin = (torch.where(value.abs() < 1e-9, 0.0, value) for value in (cos, sin))
    rows = torch.stack((cos, -sign * sin, sin, sign * cos), dim=1).reshape(-1, 2, 2)
    return torch.cat((rows, maps[..., 2:].round()), dim=2)


def maps_close(maps: Tensor, others: Tensor, size: tuple[int, int], pixels: float) -> Tensor:
    """Return which maps (B, 2, 3) lead every point of the frame nearly to the same place."""
    # an affine difference is largest at a corner, and the sum of absolute values bounds it
    corner = maps.new_tensor([size[1] / 2, size[0] / 2, 1.0])
    return ((maps - others).abs() * corner).sum(dim=(1, 2)) <= pixels


def register(copies: CleanCopies, corrupted: Tensor) -> Tensor:
    """Return the maps (B, 2, 3) of gray images (B, H, W), exactly the identity where none helps."""
    size = (corrupted.shape[1], corrupted.shape[2])
    levels = levels_of(centered(corrupted))
    maps = estimate(copies, levels, size)
    # the same number on every device, in spite of different rounding
    steps = _steps(maps.device)
    maps = (maps * steps).round() / steps
    accepted = is_geometric(copies.levels, levels, maps, size)
    return torch.where(accepted[:, None, None], maps, identity_map(maps.device))


@lru_cache(maxsize=8)
def _steps(device: torch.device) -> Tensor:
    """Return the fractions to which the columns of a map are rounded, (3,)."""
    steps = (LINEAR_STEPS, LINEAR_STEPS, SHIFT_STEPS)
    return torch.tensor(steps, dtype=torch.float64, device=device)


def view_of_clean(clean: Tensor, corrupted: Tensor, maps: Tensor) -> tuple[View, Tensor]:
    """Return what corrupted gray images show of the clean ones, and the maps used.

    A map of whole degrees and pixels is used instead of a similar one if it explains the image at
    least as well: an image whose pixels were taken from the nearest ones has steps, between which
    the estimate is uncertain by a few hundredths of a pixel.
    """
    size = (corrupted.shape[1], corrupted.shape[2])
    shown = view(clean, corrupted, maps)
    whole = rounded(maps)
    is_better = nearest_error(clean, corrupted, whole) < shown.error
    is_better &= maps_close(maps, whole, size, ROUNDED)
    if not is_better.any():
        return shown, maps
    maps = torch.where(is_better[:, None, None], whole, maps)
    return view(clean, corrupted, maps), maps
