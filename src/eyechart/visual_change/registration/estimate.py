"""Estimate the map between clean and corrupted images: refine the identity, or search."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.core.parallel import on_all_cores
from eyechart.visual_change.registration.agreement import rate
from eyechart.visual_change.registration.refinement import refine
from eyechart.visual_change.registration.search import describe_search, search
from eyechart.visual_change.registration.warping import identity_maps, reduced, smoothed

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
    parts: dict[int, list[Tensor]] = {}

    def one(index: int) -> None:
        # one image at a time, because a convolution rounds differently in a batch
        parts[index] = levels_of(images[index : index + 1])

    on_all_cores(one, range(len(gray)), one_thread_each=True)
    levels = zip(*(parts[index] for index in range(len(gray))), strict=True)
    return CleanCopies([torch.cat(level) for level in levels], images, range(len(gray)))


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
    near, near_score = rate(clean.levels[-2], corrupted[-2], maps, size)
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
        scores = rate(one, two, flat, size)[1].reshape(-1, maps.shape[1])
        best, places = scores.topk(keep, dim=1)
        maps = flat.reshape(maps.shape).take_along_dim(places[:, :, None, None], dim=1)
    return maps[:, 0], best[:, 0]
