"""Refine an affine map by Gauss–Newton steps, together with the gain and offset of gray levels."""

from functools import lru_cache

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.registration.warping import (
    centers,
    for_maps,
    inside,
    moved,
    sample,
)

RIDGE = 1e-4
"""Added to the diagonal of the normal equations, relative to it."""

TINY = 1e-6
"""Added to the diagonal, so that the equations have a solution even for constant images."""

MAX_STEP = 2.0
"""Largest displacement of a corner in one step, in cells."""

SLIGHT = 1e-3
"""Gain below which a step has no meaning."""

LARGEST_KEPT = 1 << 20
"""Grids with more points are not cached, because they need too much memory."""

_kept_centers = lru_cache(maxsize=32)(centers)


def centers_of(rows: int, columns: int, size: tuple[int, int], device: torch.device) -> Tensor:
    """Return the result of `centers`, cached for small images."""
    make = _kept_centers if rows * columns <= LARGEST_KEPT else centers
    return make(rows, columns, size, device)


def refine(
    clean: Tensor,
    corrupted: Tensor,
    maps: Tensor,
    size: tuple[int, int],
    steps: int,
    stride: int = 1,
) -> Tensor:
    """Return better maps (B · n, 2, 3) between images (B, h, w) of one resolution, n for each.

    Each step solves corrupted(x) ≈ gain · clean(map(x + δ(x))) + offset for an affine displacement
    δ, gain and offset, by least squares over what both images show. Gradients are those of the
    clean image, so noise in the corrupted one does not shorten the steps. Sums are over every
    `stride`-th line of the images.
    """
    if has_triton(corrupted.device):
        from eyechart.visual_change.registration.refinement_triton import refine_in_triton

        return refine_in_triton(clean, corrupted, maps, size, steps, stride)
    clean, corrupted = for_maps(clean, maps), for_maps(corrupted, maps)
    for _ in range(steps):
        maps = _step(clean, corrupted, maps, size, stride)
    return maps


def _step(
    clean: Tensor, corrupted: Tensor, maps: Tensor, size: tuple[int, int], stride: int
) -> Tensor:
    rows, columns = corrupted.shape[1:]
    points = centers_of(rows, columns, size, corrupted.device)
    places = moved(points, maps)
    warped = sample(clean, places, size)
    cell = size[1] / columns
    # two cells, because gradients also read the neighbors of a point, which must be in the frame
    is_visible = inside(places, size, margin=2 * cell)
    # the outermost cells have no central difference
    is_visible[:, 0], is_visible[:, -1] = False, False
    is_visible[:, :, 0], is_visible[:, :, -1] = False, False
    weight = is_visible.to(torch.float32)
    # after warping, because δ displaces points of the corrupted image, not of the clean one
    down, across = torch.gradient(warped, dim=(1, 2))
    half = max(size) / 2
    # scaled to −1 … 1, so that the normal equations are well conditioned
    x, y = (points / half)[:, ::stride].flatten(1)
    across, down, warped, weight, seen = (
        values[:, ::stride].flatten(1) for values in (across, down, warped, weight, corrupted)
    )
    features = torch.stack(
        (across, across * x, across * y, down, down * x, down * y, warped, torch.ones_like(warped)),
        dim=1,
    ).mul_(weight[:, None])
    # gray levels are around 0, so that float32 suffices for the sums
    normal = (features @ features.mT).to(torch.float64)
    target = (features @ seen[..., None]).to(torch.float64)
    # a direction without structure is not moved along; gain and offset stay free
    ridge = RIDGE * normal.diagonal(dim1=1, dim2=2)
    ridge = torch.cat((ridge[:, :6], torch.zeros_like(ridge[:, 6:])), dim=1)
    normal = normal + torch.diag_embed(ridge + TINY)
    # without a check, for which the host would wait for the GPU
    solution = torch.linalg.solve_ex(normal, target)[0][..., 0]
    # the coefficients of the gradients are gain · δ, so that δ has no meaning if gain is near 0
    gain = solution[:, 6]
    is_valid = gain > SLIGHT
    # displacements in cells, at the center and per half side
    delta = solution[:, :6] / torch.where(is_valid, gain, 1.0)[:, None]
    delta = delta.reshape(-1, 2, 3)
    farthest = delta.abs().sum(dim=2).amax(dim=1)
    # longer steps leave the range of the linearization; an invalid step becomes 0
    shrink = (MAX_STEP / farthest.clamp_min(MAX_STEP)) * is_valid
    delta = delta * shrink[:, None, None] * cell
    move = torch.cat((delta[..., 1:] / half, delta[..., :1]), dim=2)
    return _composed(maps, move)


def _composed(maps: Tensor, move: Tensor) -> Tensor:
    """Return the maps after displacing points x by move(x), (B, 2, 3)."""
    linear, shift = maps[..., :2], maps[..., 2:]
    # map(x + M·x + m) = A·(I + M)·x + A·m + t
    ahead = move[..., :2] + torch.eye(2, dtype=move.dtype, device=move.device)
    return torch.cat((linear @ ahead, linear @ move[..., 2:] + shift), dim=2)
