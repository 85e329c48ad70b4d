"""VIF of corrupted images after registration, with its parts: for fitting its parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from eyechart.core.parallel import on_all_cores
from eyechart.visual_change.registration.agreement import is_geometric
from eyechart.visual_change.registration.estimate import (
    CleanCopies,
    centered,
    describe_copies,
    estimate,
    levels_of,
)
from eyechart.visual_change.registration.view import view
from eyechart.visual_change.registration.visible import VisibleTerms, visible_terms
from eyechart.visual_change.registration.warping import identity_maps
from eyechart.visual_change.vif.definitions import VCR


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
    forward = torch.linalg.inv(maps[..., :2])
    is_mirrored = forward.det() < 0
    flip = torch.ones((len(maps), 2), dtype=maps.dtype, device=maps.device)
    flip[:, 0] = torch.where(is_mirrored, -1.0, 1.0)
    # mirrored back first, then the rotation is that of the polar decomposition
    turned = forward * flip[:, None, :]
    angle = torch.atan2(turned[:, 1, 0] - turned[:, 0, 1], turned[:, 0, 0] + turned[:, 1, 1])
    stretches = torch.linalg.svdvals(forward)
    center = (forward @ maps[..., 2:])[..., 0]
    return Motion(
        torch.rad2deg(angle),
        stretches.log2().mean(dim=1),
        center.norm(dim=1) / max(size),
        (stretches[:, 0] / stretches[:, 1]).log2(),
        is_mirrored.to(maps.dtype),
        share,
    )


@dataclass(frozen=True, eq=False)
class RegisteredTerms:
    """The parts of VIF after registration, and how the images were moved."""

    terms: VisibleTerms
    motion: Motion
    maps: Tensor


def register(copies: CleanCopies, corrupted: Tensor) -> Tensor:
    """Return the maps (B, 2, 3) of gray images (B, H, W), exactly the identity where none helps."""
    size = (corrupted.shape[1], corrupted.shape[2])
    levels = levels_of(centered(corrupted))
    maps = estimate(copies, levels, size)
    accepted = is_geometric(copies.levels, levels, maps, size)
    return torch.where(accepted[:, None, None], maps, identity_maps(len(maps), maps))


def registered_terms(
    clean: Tensor, corrupted: Tensor, noise: Sequence[float] = (0.5,)
) -> RegisteredTerms:
    """Return the parts of VIF of gray images (B, H, W) after registration.

    Args:
        clean: gray levels 0 … 255, of any dtype.
        corrupted: as many images of the same size.
        noise: variances σ_n² of the visual noise, in squared gray levels.

    Returns:
        Numerators and denominators of VIF for each noise variance and scale, and how the images
        were moved. `result.terms.vif(weights)` is VIF over what is visible; it counts neither the
        lost area (`result.motion.share`) nor the motion itself.
    """
    results: dict[int, RegisteredTerms] = {}

    def one(index: int) -> None:
        part = slice(index, index + 1)
        maps = register(describe_copies(clean[part]), corrupted[part])
        shown = view(clean[part], corrupted[part], maps)
        terms = visible_terms(shown, VCR, noise)
        size = (clean.shape[1], clean.shape[2])
        results[index] = RegisteredTerms(terms, motion_of(maps, shown.share, size), maps)

    on_all_cores(one, range(len(clean)))
    parts = [results[index] for index in range(len(clean))]
    return RegisteredTerms(
        VisibleTerms(
            torch.cat([part.terms.kept for part in parts]),
            torch.cat([part.terms.total for part in parts]),
        ),
        Motion(
            *(
                torch.cat([getattr(part.motion, field.name) for part in parts])
                for field in fields(Motion)
            )
        ),
        torch.cat([part.maps for part in parts]),
    )
