"""VIF of corrupted images after registration, with its parts: for fitting its parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

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
from eyechart.visual_change.registration.motion import Motion, is_nearly, motion_of, rounded
from eyechart.visual_change.registration.view import View, nearest_error, view
from eyechart.visual_change.registration.visible import VisibleTerms, visible_terms
from eyechart.visual_change.registration.warping import identity_map
from eyechart.visual_change.vif.definitions import VCR

LINEAR_STEPS, SHIFT_STEPS = 2.0**16, 2.0**9
"""Maps are rounded to these fractions: to about 1/500 px everywhere in an image of 224 px."""

ROUNDED = 1.0
"""Distance in px from a map to one of whole degrees and pixels that may replace it."""


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


def shown_by(clean: Tensor, corrupted: Tensor, maps: Tensor) -> tuple[View, Tensor]:
    """Return what corrupted gray images show of the clean ones, and the maps used.

    A map of whole degrees and pixels is used instead of a similar one if it explains the image at
    least as well: an image whose pixels were taken from the nearest ones has steps, between which
    the estimate is uncertain by a few hundredths of a pixel.
    """
    size = (corrupted.shape[1], corrupted.shape[2])
    shown = view(clean, corrupted, maps)
    whole = rounded(maps)
    is_better = nearest_error(clean, corrupted, whole) < shown.error
    is_better &= is_nearly(maps, whole, size, ROUNDED)
    if not is_better.any():
        return shown, maps
    maps = torch.where(is_better[:, None, None], whole, maps)
    return view(clean, corrupted, maps), maps


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
        # one image at a time, so that its values cannot depend on the others of the batch
        part = slice(index, index + 1)
        maps = register(describe_copies(clean[part]), corrupted[part])
        shown, maps = shown_by(clean[part], corrupted[part], maps)
        terms = visible_terms(shown, VCR, noise)
        size = (clean.shape[1], clean.shape[2])
        results[index] = RegisteredTerms(terms, motion_of(maps, shown.share, size), maps)

    on_all_cores(one, range(len(clean)), one_thread_each=True)
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
