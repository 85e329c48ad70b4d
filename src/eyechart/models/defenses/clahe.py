"""Contrast-limited adaptive histogram equalization (CLAHE) of lightness, as in OpenCV.

Works on batches, on any device. Hues do not change, since Lab's a and b are not modified.
"""

import torch
from torch import Tensor

from eyechart.models.defenses.defense import Kind, Setting, before_model
from eyechart.models.defenses.lab import to_lab, to_rgb

LEVELS = 256


def equalize(images: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit RGB images (B, 3, H, W) with Lab lightness equalized in tiles.

    `tiles`: number of tiles in each row and in each column of the grid.
    `clip`: maximum count of a histogram bin, as a multiple of its count in a uniform histogram.
    """
    lab = to_lab(images)
    lab[:, 0] = equalize_levels(lab[:, 0], clip, tiles)
    return to_rgb(lab)


def equalize_levels(levels: Tensor, clip: float = 2.0, tiles: int = 8) -> Tensor:
    """Return 8-bit planes (B, H, W), equalized by interpolating between the four nearest tiles."""
    height, width = levels.shape[1:]
    padded = _padded(levels, tiles)
    tables = _tables(padded, clip, tiles)
    sides = (padded.shape[1] // tiles, padded.shape[2] // tiles)
    above, below, down = _neighbors(height, sides[0], tiles, levels.device)
    left, right, along = _neighbors(width, sides[1], tiles, levels.device)
    numbers = levels.long()
    image = torch.arange(len(levels), device=levels.device)[:, None, None]

    def look_up(row: Tensor, column: Tensor) -> Tensor:
        return tables[image, row[:, None], column, numbers]

    top = look_up(above, left) * (1 - along) + look_up(above, right) * along
    bottom = look_up(below, left) * (1 - along) + look_up(below, right) * along
    return (top * (1 - down[:, None]) + bottom * down[:, None]).round_().to(torch.uint8)


def mirrored(places: Tensor, length: int) -> Tensor:
    """Return the positions, reflected into 0 … length − 1 at the first and last pixel."""
    # A single pixel would have a period of 0.
    turn = max(2 * (length - 1), 1)
    around = places.remainder(turn)
    return torch.minimum(around, turn - around)


def _padded(levels: Tensor, tiles: int) -> Tensor:
    """Return planes padded by reflection to a multiple of the tile size, at bottom and right."""
    height, width = levels.shape[1:]
    if height % tiles == 0 and width % tiles == 0:
        return levels
    # If one side needs padding, OpenCV pads the other as well, by a full row of tiles.
    rows, columns = (
        mirrored(torch.arange(side + tiles - side % tiles, device=levels.device), side)
        for side in (height, width)
    )
    return levels[:, rows[:, None], columns]


def _tables(planes: Tensor, clip: float, tiles: int) -> Tensor:
    """Return the lookup table of each tile: float (B, tiles, tiles, 256)."""
    count, height, width = planes.shape
    area = (height // tiles) * (width // tiles)
    split = planes.reshape(count, tiles, height // tiles, tiles, width // tiles)
    split = split.transpose(2, 3).reshape(-1, area)
    bins = torch.arange(LEVELS, device=planes.device)
    # Offsets give every tile its own range of bins, so that one scatter counts all tiles.
    offsets = LEVELS * torch.arange(len(split), device=planes.device)[:, None]
    places = (split + offsets).flatten()
    counts = torch.zeros(len(split) * LEVELS, dtype=torch.long, device=planes.device)
    counts = counts.scatter_add_(0, places, torch.ones_like(places)).reshape(-1, LEVELS)
    # As in OpenCV, at least one pixel per level is allowed.
    limit = max(int(clip * area / LEVELS), 1)
    over = (counts - limit).clamp_(min=0).sum(dim=1, keepdim=True)
    # The excess is distributed evenly; its remainder goes, one each, to equally spaced bins.
    rest = over % LEVELS
    step = LEVELS // rest.clamp(min=1)
    extra = (bins % step == 0) & (bins // step < rest)
    counts = counts.clamp_(max=limit) + over // LEVELS + extra
    tables = (counts.cumsum(dim=1).float() * (255 / area)).round_().clamp_(max=255)
    return tables.reshape(count, tiles, tiles, LEVELS)


def _neighbors(
    length: int, side: int, tiles: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tiles before and after each pixel of a line, and the weight of the latter."""
    # OpenCV multiplies by the reciprocal as well; a division would round differently.
    position = torch.arange(length, dtype=torch.float32, device=device) * (1 / side) - 0.5
    before = position.floor()
    behind = (before + 1).clamp_(max=tiles - 1)
    return before.clamp(min=0).long(), behind.long(), position - before


DEFENSE = Kind((Setting("clip", 2.0, 256), Setting("tiles", 8, 64, 1)), before_model(equalize))
