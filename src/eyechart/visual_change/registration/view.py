"""The clean image as a corrupted one shows it, moved in the same way."""

from dataclasses import dataclass

import torch
from torch import Tensor

from eyechart.visual_change.registration.refinement import centers_of
from eyechart.visual_change.registration.warping import identity_maps, inside, moved, sample

INTERPOLATIONS = ("nearest", "bilinear", "bicubic")
EDGE = 1.0
"""Width in px of the border of the visible part that is left out, where fill is mixed in."""


@dataclass(frozen=True)
class View:
    """The clean image as the corrupted one shows it.

    Attributes:
        reference: the clean image, moved like the corrupted one, (B, H, W).
        corrupted: the corrupted image; what it does not show of the clean one is filled in.
        is_visible: which pixels of the corrupted image show the clean one, (B, H, W).
        share: the share of the clean image's area that is visible, (B,).
    """

    reference: Tensor
    corrupted: Tensor
    is_visible: Tensor
    share: Tensor


def view(clean: Tensor, corrupted: Tensor, maps: Tensor) -> View:
    """Return what corrupted gray images (B, H, W) show of the clean ones, by their maps.

    The clean image is moved by the interpolation that explains the corrupted one best, so that
    interpolation itself counts as no change.
    """
    size = (corrupted.shape[1], corrupted.shape[2])
    places = moved(centers_of(*size, size, corrupted.device), maps)
    is_visible = inside(places, size)
    is_moved = (maps != identity_maps(len(maps), maps)).flatten(1).any(dim=1)
    # an image that was not moved has no fill, and every pixel of it counts
    weight = inside(places, size, margin=EDGE * is_moved[:, None, None]).to(torch.float32)
    area = maps[..., :2].det().abs() * is_visible.flatten(1).sum(dim=1) / (size[0] * size[1])
    seen = corrupted.to(torch.float32)
    references, fills, errors = [], [], []
    for mode in INTERPOLATIONS:
        reference = sample(clean.to(torch.float32), places, size, mode)
        fill, error = fitted(reference, seen, weight)
        references.append(reference)
        fills.append(fill)
        errors.append(error)
    best = torch.stack(errors).argmin(dim=0)
    rows = torch.arange(len(seen), device=seen.device)
    reference, fill = torch.stack(references)[best, rows], torch.stack(fills)[best, rows]
    return View(reference, torch.where(weight > 0, seen, fill), weight > 0, area.clamp_max(1))


def fitted(reference: Tensor, seen: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return gain · reference + offset that is nearest to the corrupted images, and its error."""
    count = weight.sum(dim=(1, 2), keepdim=True).clamp_min(1)
    means = [(image * weight).sum(dim=(1, 2), keepdim=True) / count for image in (reference, seen)]
    centered, other = reference - means[0], seen - means[1]
    spread = (centered.square() * weight).sum(dim=(1, 2), keepdim=True).clamp_min(1e-6)
    gain = (centered * other * weight).sum(dim=(1, 2), keepdim=True) / spread
    error = ((gain * centered - other).square() * weight).sum(dim=(1, 2))
    return gain * centered + means[1], error
