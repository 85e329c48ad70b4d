"""Refine an affine map by Gauss–Newton steps, with the gain, offset and blur of gray levels."""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from eyechart.core.devices import has_triton
from eyechart.visual_change.registration.warping import (
    centers,
    for_maps,
    inside,
    moved,
    sample,
)

RIDGES = (1e-4,) * 6 + (0.0, 0.0, 1e-3)
"""Added to the diagonal of the normal equations, relative to it: of displacements, gain and offset,
which stay free, and blur.
"""

TINY = 1e-6
"""Added to the diagonal, so that the equations have a solution even for constant images."""

MAX_STEP = 2.0
"""Largest displacement of a corner in one step, in cells."""

SLIGHT = 1e-3
"""Gain below which a step has no meaning."""

MARGIN_CELLS, MARGIN_PX = 2.0, 6.0
"""Width of the border of what both images show that is left out, at least: in cells of the clean
image, because gradients read the neighbors of a point, and in pixels of the corrupted one, because
blur mixes what fills the rest of it with what it shows.
"""

BEYOND = 2.0
"""Distance from the clean image's edge in cells from which on a corrupted image shows its fill."""

MIN_FILLED, MAX_FILL_VARIANCE = 0.05, 0.1
"""Share of an image that must be fill for its color to be known, and the variance of gray levels
in it, relative to that in the whole image, up to which it is a constant color.
"""

FILL_GAINS = (0.3, 1.5)
"""Range of the gain by which the color of the fill is converted to gray levels of the clean image;
a wrong map may have any.
"""

EDGE_SLOPE = 0.35
"""How fast fill turns into the image at its edge, per cell; copies are smoothed."""

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
    *,
    stride: int = 1,
    has_fill: bool = False,
) -> Tensor:
    """Return better maps (B · n, 2, 3) between images (B, h, w) of one resolution, n for each.

    Each step solves corrupted(x) ≈ gain · clean(map(x + δ(x))) + blur · ∇²clean + offset for an
    affine displacement δ, gain, blur and offset, by least squares over what both images show.
    Gradients are those of the clean image, so noise in the corrupted one does not shorten the
    steps. Sums are over every `stride`-th line of the images.

    With `has_fill`, the corrupted image may be filled with one color where it does not show the
    clean one. Then the clean image is continued by this color, and all pixels count: a map that
    shows only a part of the image, however well, leaves its border unexplained.
    """
    if has_triton(corrupted.device):
        from eyechart.visual_change.registration.refinement_triton import refine_in_triton

        return refine_in_triton(clean, corrupted, maps, size, steps, stride, has_fill)
    clean, corrupted = for_maps(clean, maps), for_maps(corrupted, maps)
    for _ in range(steps):
        maps = _step(clean, corrupted, maps, size, stride, has_fill)
    return maps


def _step(
    clean: Tensor,
    corrupted: Tensor,
    maps: Tensor,
    size: tuple[int, int],
    stride: int,
    has_fill: bool,
) -> Tensor:
    rows, columns = corrupted.shape[1:]
    cell, half = size[1] / columns, max(size) / 2
    points = centers_of(rows, columns, size, corrupted.device)
    places = moved(points, maps)
    shown = sample(clean, places, size)
    distance = _from_edge(places, maps, size)
    is_visible = inside(places, size, margin=MARGIN_CELLS * cell) & (distance >= MARGIN_PX)
    # the outermost cells have no central difference
    is_inner = torch.zeros_like(is_visible)
    is_inner[:, 1:-1, 1:-1] = True
    weight = (is_visible & is_inner).to(torch.float32)
    if has_fill:
        shown, weight = _filled(shown, corrupted, weight, distance / cell, is_inner)
    # after warping, because δ displaces points of the corrupted image, not of the clean one
    down, across = torch.gradient(shown, dim=(1, 2))
    blur = _laplacian(shown)
    # scaled to −1 … 1, so that the normal equations are well conditioned
    x, y = (points / half)[:, ::stride].flatten(1)
    across, down, blur, shown, weight, seen = (
        values[:, ::stride].flatten(1) for values in (across, down, blur, shown, weight, corrupted)
    )
    slopes = (across, across * x, across * y, down, down * x, down * y)
    features = torch.stack((*slopes, shown, torch.ones_like(shown), blur), dim=1)
    features = features.mul_(weight[:, None])
    # gray levels are around 0, so that float32 suffices for the sums
    normal = (features @ features.mT).to(torch.float64)
    target = (features @ seen[..., None]).to(torch.float64)
    # a direction without structure is not moved along, and what needs no blur gets none
    ridges = torch.tensor(RIDGES, dtype=torch.float64, device=normal.device)
    ridge = ridges * normal.diagonal(dim1=1, dim2=2)
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


def _from_edge(places: Tensor, maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Return how far points (B, 2, h, w) of clean images are from their edge; negative outside.

    Distances are in px of the corrupted images.
    """
    # a step of 1 px across an edge of the corrupted image is as long as a row of A in the clean one
    across, down = maps[:, :, :2].to(torch.float32).norm(dim=2)[..., None, None].unbind(dim=1)
    x, y = places.unbind(dim=1)
    return torch.minimum((size[1] / 2 - x.abs()) / across, (size[0] / 2 - y.abs()) / down)


def _filled(
    shown: Tensor, corrupted: Tensor, weight: Tensor, distance: Tensor, is_inner: Tensor
) -> tuple[Tensor, Tensor]:
    """Return clean images (B, h, w), continued by the color that fills the corrupted ones.

    Args:
        shown: clean images, moved.
        corrupted: corrupted images.
        weight: what both show, (B, h, w).
        distance: how far points are from the clean image's edge, in cells.
        is_inner: which points are not at the border of the corrupted image.

    Returns:
        The images, and the weights of their pixels. Both are unchanged if there is no such color.
    """
    is_beyond = (is_inner & (distance < -BEYOND)).to(torch.float32)
    count, color, variance = _moments(corrupted, is_beyond)
    _, _, overall = _moments(corrupted, torch.ones_like(corrupted))
    pixels = shown.shape[1] * shown.shape[2]
    is_filled = (count >= MIN_FILLED * pixels) & (variance < MAX_FILL_VARIANCE * overall)
    _, mean, spread = _moments(shown, weight)
    count, target, _ = _moments(corrupted, weight)
    shared = ((shown - mean) * (corrupted - target) * weight).sum(dim=(1, 2), keepdim=True)
    gain = (shared / (count * spread).clamp_min(1e-6)).clamp(*FILL_GAINS)
    # in gray levels of the clean image
    color = (color - target) / gain + mean
    share = (0.5 + EDGE_SLOPE * distance).clamp(0, 1)
    filled = color + share * (shown - color)
    return torch.where(is_filled, filled, shown), torch.where(is_filled, is_inner, weight)


def _moments(images: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the number of pixels, mean and variance (B, 1, 1) of a part of images (B, h, w)."""
    count = weight.sum(dim=(1, 2), keepdim=True).clamp_min(1)
    mean = (images * weight).sum(dim=(1, 2), keepdim=True) / count
    variance = ((images - mean).square() * weight).sum(dim=(1, 2), keepdim=True) / count
    return count, mean, variance


def _laplacian(images: Tensor) -> Tensor:
    """Return ∇² of images (B, h, w), in which blur changes them first; 0 at their border."""
    inner = images[:, 1:-1, 1:-1]
    around = images[:, :-2, 1:-1] + images[:, 2:, 1:-1]
    around = around + images[:, 1:-1, :-2] + images[:, 1:-1, 2:]
    return functional.pad(around - 4 * inner, (1, 1, 1, 1))


def _composed(maps: Tensor, move: Tensor) -> Tensor:
    """Return the maps after displacing points x by move(x), (B, 2, 3)."""
    linear, shift = maps[..., :2], maps[..., 2:]
    # map(x + M·x + m) = A·(I + M)·x + A·m + t
    ahead = move[..., :2] + torch.eye(2, dtype=move.dtype, device=move.device)
    return torch.cat((linear @ ahead, linear @ move[..., 2:] + shift), dim=2)
