"""Weather: snow, frost, fog and spatter between the camera and the scene."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.blur import trail
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image
from eyechart.corruptions.kernels.arithmetic import (
    GRID,
    UNIT,
    luma,
    to_levels,
    to_unit,
    truncate_levels,
)
from eyechart.corruptions.kernels.filters import smooth
from eyechart.corruptions.kernels.resampling import enlarge, fine_levels
from eyechart.corruptions.kernels.water import water_relief

MEAN = Parameter("mean", 0, 1, "fraction of full scale", "mean of the random field", clean=0)
SPREAD = Parameter(
    "spread", 0, 1, "fraction of full scale", "standard deviation of the random field", clean=0
)


@corruption(
    "snow",
    "weather",
    MEAN,
    SPREAD,
    Parameter("zoom", 1, 10, "factor", "size of the flakes"),
    Parameter("threshold", 0, 1, "fraction of full scale", "value below which there is no snow"),
    Parameter("radius", 1, 100, "px", "half the length of the flakes' trails", integer=True),
    Parameter("sigma", 0, 100, "px", "how slowly the trails fade"),
    Parameter("mix", 0, 1, "fraction", "weight of the image that is not whitened", clean=1),
    Parameter("angle", -135, -45, "degrees", "direction in which the flakes fall", drawn=True),
    random=True,
)
def snow(
    images: Tensor,
    random: ImageRandom,
    *,
    mean: Values,
    spread: Values,
    zoom: Values,
    threshold: Values,
    radius: Values,
    sigma: Values,
    mix: Values,
    angle: Values,
) -> Tensor:
    """Whiten the image and draw streaks of falling snow across it."""
    field = random.normal("flakes", (1, *images.shape[2:]))
    field = field.mul_(per_image(spread, images)).add_(per_image(mean, images))
    flakes = torch.empty_like(field)
    for factor in np.unique(zoom):
        chosen = torch.from_numpy(np.flatnonzero(zoom == factor)).to(images.device)
        flakes[chosen] = enlarge(fine_levels(field[chosen]), float(factor)) * UNIT
    flakes = flakes * (flakes >= per_image(threshold, images))
    # the published code passes the flakes through 8-bit images
    flakes = to_unit(truncate_levels(flakes.clamp_(0, 1)))
    flakes = to_unit(trail(flakes, radius, sigma, angle, rounding=to_levels))
    share = per_image(mix, images)
    white = torch.maximum(images, (luma(images) * 1.5).add_(0.5)).mul_(1 - share)
    # the flakes are used a second time, rotated by 180°, as published
    return (images * share).add_(white).add_(flakes).add_(flakes.flip((2, 3)))


IMAGE_WEIGHT = Parameter("image_weight", 0, 1, "fraction", "weight of the image", clean=1)
FROST_WEIGHT = Parameter("frost_weight", 0, 1, "fraction", "weight of the frost", clean=0)
TEXTURE = Parameter("texture", 0, 1, "fraction", "0 is the first texture, 1 the last", drawn=True)


@corruption(
    "frost",
    "weather",
    IMAGE_WEIGHT,
    FROST_WEIGHT,
    Parameter("scale", 0.01, 100, "px", "image pixels per texture pixel"),
    TEXTURE,
    random=True,
    needs="textures",
)
def frost(
    images: Tensor,
    random: ImageRandom,
    *,
    textures: tuple[Tensor, ...],
    image_weight: Values,
    frost_weight: Values,
    scale: Values,
    texture: Values,
) -> Tensor:
    """Overlay a random crop of a frosted pane."""
    height, width = images.shape[2:]
    down, across = random.scalar("place down"), random.scalar("place across")
    pieces = {}
    # images of the same scale one after the other, because only a few panes are cached
    for row in np.argsort(scale, kind="stable").tolist():
        chosen = textures[_number(texture[row], len(textures))]
        old_height, old_width = chosen.shape[1:]
        # a pane is always larger than the image, so that a crop exists
        factor = max(float(scale[row]), (height + 1) / old_height, (width + 1) / old_width)
        size = round(old_height * factor), round(old_width * factor)
        top, left = int(down[row] * (size[0] - height)), int(across[row] * (size[1] - width))
        if size[0] * size[1] <= LARGEST_PANE:
            whole = _pane(chosen, size, images.device)
            pieces[row] = whole[:, top : top + height, left : left + width]
        else:
            box = (top, left, top + height, left + width)
            pieces[row] = _resize_piece(chosen, size, box).to(images.device)
    pane = _as_pane(torch.stack([pieces[row] for row in range(len(images))]), images)
    return (images * per_image(image_weight, images)).add_(
        pane.mul_(per_image(frost_weight, images))
    )


@corruption(
    "vcr/frost",
    "weather",
    IMAGE_WEIGHT,
    FROST_WEIGHT,
    TEXTURE,
    needs="textures",
)
def vcr_frost(
    images: Tensor,
    random: ImageRandom,
    *,
    textures: tuple[Tensor, ...],
    image_weight: Values,
    frost_weight: Values,
    texture: Values,
) -> Tensor:
    """Overlay a whole frosted pane, resized to the image."""
    indices = [_number(value, len(textures)) for value in texture]
    height, width = images.shape[2:]
    device = images.device
    if height * width <= LARGEST_PANE:
        stack = _fitted_panes(textures, height, width, device)
        levels = stack[to_device(torch.tensor(indices), device)]
    else:
        resized = {
            index: _resize(textures[index], height, width, "bicubic").to(device)
            for index in {*indices}
        }
        levels = torch.stack([resized[index] for index in indices])
    pane = _as_pane(levels, images)
    return images * per_image(image_weight, images) + pane * per_image(frost_weight, images)


def _number(share: float, count: int) -> int:
    """Return the index that a number in [0, 1] selects from a list of `count` elements."""
    # a share of exactly 1 is the last one
    return min(int(share * count), count - 1)


def _as_pane(levels: Tensor, images: Tensor) -> Tensor:
    """Return uint8 color textures as float32 in [0, 1], or in gray if the images are gray."""
    pane = to_unit(levels)
    return pane if images.shape[1] == 3 else luma(pane)


LARGEST_PANE = 1 << 22
"""Panes with more pixels are not cached, and only their visible part is computed."""


@lru_cache(maxsize=8)
def _pane(texture: Tensor, size: tuple[int, int], device: torch.device) -> Tensor:
    return _resize(texture, *size, "bilinear").to(device)


@lru_cache(maxsize=8)
def _fitted_panes(
    textures: tuple[Tensor, ...], height: int, width: int, device: torch.device
) -> Tensor:
    return torch.stack([_resize(texture, height, width, "bicubic") for texture in textures]).to(
        device
    )


def _resize(texture: Tensor, height: int, width: int, mode: str) -> Tensor:
    """Resize on the CPU and round to 8 bits, so that every device uses the same texture."""
    if texture.shape[1:] == (height, width):
        return texture
    # torch resizes along rows first, for every row of the texture, even if the image has few rows;
    # and it fills a single column with one value
    is_wide = width > LONGEST_SHAPE * height and height > 1
    planes = []
    for plane in texture:  # one at a time, because float64 takes eight times the memory
        large = torch.nn.functional.interpolate(
            (plane.T if is_wide else plane)[None, None].to(torch.float64),
            (width, height) if is_wide else (height, width),
            mode=mode,
            antialias=mode == "bicubic",
        )[0, 0]
        # bicubic interpolation overshoots
        planes.append(_from_grid((large.T if is_wide else large).clamp_(0, 255).mul_(GRID)))
    return torch.stack(planes)


def _from_grid(levels: Tensor) -> Tensor:
    """Return gray levels, given in units of 1 / GRID, rounded to uint8; `levels` is overwritten."""
    # round to the grid first: the last bits depend on torch's threads, and ties are common
    levels.round_().add_(GRID / 2).mul_(1 / GRID)
    return levels.to(torch.uint8)  # truncates


VALUES_AT_ONCE = 1 << 15
"""Number of texture values that are interpolated at once, so that they fit into the CPU cache."""


def _resize_piece(texture: Tensor, size: tuple[int, int], box: tuple[int, int, int, int]) -> Tensor:
    """Return a region of the bilinear result of `_resize`, computing only that region."""
    top, left, bottom, right = box
    above, below, share = _neighbors(texture.shape[1], size[0], top, bottom)
    before, after, along = _neighbors(texture.shape[2], size[1], left, right)
    # horizontally first: only a few rows of an enlarged texture are needed
    rows = texture[:, int(above[0]) : int(below[-1]) + 1].to(torch.float64).mul_(GRID)
    # NumPy copies single values faster than torch
    near, far = (torch.from_numpy(rows.numpy().take(i.numpy(), axis=2)) for i in (before, after))
    wide = near.lerp_(far, along)
    above, below = above - above[0], below - above[0]
    out = torch.empty(len(texture), bottom - top, right - left, dtype=torch.uint8)
    step = max(1, VALUES_AT_ONCE // (right - left))
    for start in range(0, bottom - top, step):
        part = slice(start, start + step)
        upper = wide.index_select(1, above[part])
        upper.lerp_(wide.index_select(1, below[part]), share[part, None])
        out[:, part] = _from_grid(upper)
    return out


def _neighbors(old: int, new: int, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two old pixels that surround each new pixel, and the weight of the second."""
    position = (torch.arange(start, stop, dtype=torch.float64) + 0.5) * (old / new) - 0.5
    position.clamp_(min=0)
    nearer = position.floor().to(torch.int64)
    return nearer, (nearer + 1).clamp_(max=old - 1), position - nearer


@corruption(
    "fog",
    "weather",
    Parameter("thickness", 0, 10, "fraction of full scale", "brightness of the fog", clean=0),
    Parameter("decay", 1, 10, "factor", "how quickly fine detail fades in the fog"),
    random=True,
)
def fog(images: Tensor, random: ImageRandom, *, thickness: Values, decay: Values) -> Tensor:
    """Add a fractal cloud of fog, then rescale so that the image's maximum brightness is kept."""
    height, width = images.shape[2:]
    cloud = plasma(random, decay, height, width)
    brightest = images.amax(dim=(1, 2, 3), keepdim=True)
    thick = per_image(thickness, images)
    total = brightest + thick
    # as published: the maximum of image plus fog is scaled back to the maximum of the image
    gain = brightest / torch.where(total == 0, 1.0, total)
    return (images + cloud * thick).mul_(gain)


def plasma(random: ImageRandom, decay: Values, height: int, width: int) -> Tensor:
    """Return (B, 1, height, width) fractal clouds in [0, 1].

    The algorithm is diamond-square on a torus: each round doubles the grid, and a new point is the
    mean of its four neighbors plus a random shift within ±w²; w starts at 100 and is divided by
    `decay` every round. The torus is a square that covers the image; for elongated images it is
    a row of squares.
    """
    rounds, tiles = cloud_grid(height, width)
    # a point of the first grid becomes 4^rounds points, of which all but itself are new
    shifts = random.uniform16("cloud", (int(np.prod(tiles)) * (4**rounds - 1),)).mul_(2).sub_(1)
    reach = torch.from_numpy((100 / decay[:, None] ** np.arange(rounds)) ** 2).to(shifts)
    grid = torch.zeros(len(random), *tiles, device=random.device)
    if grid[0].numel() > 1:
        # a single starting point may be 0; many equal points would be visible as a pattern
        corners = random.uniform16("corners", tiles).mul_(2).sub_(1)
        grid = corners.mul_(reach[:, :1, None])
    used = 0
    for level in range(rounds):
        rows, columns = grid.shape[1:]
        # each round adds three new points per existing point
        noise = shifts[:, used : used + 3 * rows * columns] * reach[:, level, None]
        used += 3 * rows * columns
        first, second, third = noise.reshape(-1, 3, rows, columns).unbind(dim=1)
        finer = grid.new_empty(len(grid), 2 * rows, 2 * columns)
        finer[:, ::2, ::2] = grid
        # sums of two are shared by the means of four
        pairs_down = grid + grid.roll(-1, 1)
        center = (pairs_down + pairs_down.roll(-1, 2)).mul_(0.25).add_(first)
        finer[:, 1::2, 1::2] = center
        above = (grid + grid.roll(-1, 2)).add_(center + center.roll(1, 1))
        finer[:, ::2, 1::2] = above.mul_(0.25).add_(second)
        beside = pairs_down.add_(center + center.roll(1, 2))
        finer[:, 1::2, ::2] = beside.mul_(0.25).add_(third)
        grid = finer
    # over the whole torus, before it is cropped to the image
    grid -= grid.amin(dim=(1, 2), keepdim=True)
    grid /= grid.amax(dim=(1, 2), keepdim=True)
    return grid[:, None, :height, :width]


LONGEST_SHAPE = 2
"""Images with a larger aspect ratio get a row of square clouds."""


def cloud_grid(height: int, width: int) -> tuple[int, tuple[int, int]]:
    """Return how often the grid is doubled to cover an image, and the size of the first grid.

    For narrow images, one square that covers the image would be too expensive.
    """
    longer, shorter = max(height, width), min(height, width)
    side = longer if longer <= LONGEST_SHAPE * shorter else shorter
    rounds = max(1, int(np.ceil(np.log2(side))))
    square = 2**rounds
    return rounds, (-(-height // square), -(-width // square))


@corruption(
    "spatter",
    "weather",
    Parameter("mean", 0, 1, "fraction of full scale", "mean of the random field"),
    Parameter("spread", 0, 1, "fraction of full scale", "standard deviation of the random field"),
    Parameter("sigma", 0, 100, "px", "size of the drops"),
    Parameter("threshold", 0, 1, "fraction of full scale", "value below which the lens stays dry"),
    Parameter("strength", 0, 10, "factor", "opacity of water; softness of mud in px", clean=0),
    Parameter("mud", 0, 1, "choice", "0 for water, 1 for mud", choices=(0, 1)),
    random=True,
)
def spatter(
    images: Tensor,
    random: ImageRandom,
    *,
    mean: Values,
    spread: Values,
    sigma: Values,
    threshold: Values,
    strength: Values,
    mud: Values,
) -> Tensor:
    """Splash drops of water or mud onto the lens."""
    field = random.normal("drops", (1, *images.shape[2:]))
    field = field.mul_(per_image(spread, images)).add_(per_image(mean, images))
    liquid = smooth(field, sigma)
    limit = per_image(threshold, images)
    if mud.all():
        return _mud(images, liquid > limit, strength)
    layer = truncate_levels((liquid * (liquid >= limit)).clamp(0, 1))
    relief = layer * water_relief(layer.to(torch.uint8)).to(torch.float32)
    peak = relief.amax(dim=(1, 2, 3), keepdim=True)
    relief = relief / torch.where(peak == 0, 1.0, peak) * per_image(strength, images)
    watery = images + relief * _tint((175, 238, 238), images)
    if not mud.any():
        return watery
    muddy = torch.from_numpy(mud == 1).to(images.device).reshape(-1, 1, 1, 1)
    return torch.where(muddy, _mud(images, liquid > limit, strength), watery)


def _mud(images: Tensor, wet: Tensor, softness: Values) -> Tensor:
    cover = smooth(wet.to(torch.float32), softness)
    # the threshold of the published code
    cover = cover * (cover >= 0.8)
    return images * (1 - cover) + cover * _tint((63, 42, 20), images)


def _tint(color: tuple[int, int, int], images: Tensor) -> Tensor:
    tint = to_unit(torch.tensor(color, device=images.device).reshape(1, 3, 1, 1))
    return tint if images.shape[1] == 3 else luma(tint)
