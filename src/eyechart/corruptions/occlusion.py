"""Occlusion: part of the image is covered or lightened; the rest is unchanged.

Objects are stamps: lists of pixel offsets that are placed at random centers. Random values are
always drawn for `MOST` objects, so that a higher count adds objects without moving the others.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption, per_image

MOST = 500
LONGEST = 10_000.0
DISK = np.sqrt(121 / np.pi) / 6
"""Scale factor with which a disk of nominal radius 6 has the published disk's area, 121 pixels."""

Offsets = NDArray[np.int64]
"""Pixel offsets (P, 2): rows and columns relative to a center."""

GRAY = Parameter("grey", 0, 1, "fraction of full scale", "gray value of the cover", drawn=True)


def _count(objects: str) -> Parameter:
    return Parameter("count", 0, MOST, objects, f"number of {objects}", clean=0, integer=True)


@lru_cache(maxsize=256)
def disk(radius: float) -> Offsets:
    """Return the pixels of a disk; with radius 6, rows have half-widths 6, 6, 5, 5, 4, 3, 1."""
    reach = int(radius * DISK) + 1
    row, column = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    inside = row**2 + column**2 <= (radius * DISK) ** 2
    return np.stack((row[inside], column[inside]), axis=1)


@lru_cache(maxsize=256)
def diamond(radius: float) -> Offsets:
    """Return the pixels of a half-open diamond: 98 pixels for radius 7, 7 × 7 for radius 3.5."""
    reach = int(np.ceil(radius))
    row, column = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    half = radius - np.abs(row)
    inside = (-half <= column) & (column < half)
    return np.stack((row[inside], column[inside]), axis=1)


@lru_cache(maxsize=256)
def dotted_line(dash: float) -> tuple[Offsets, Offsets, Offsets, tuple[float, ...]]:
    """Return three sets of pixels: a dash `dash` px long, the dots on its right, those on its left.

    Fourth, how far the dash (up, down, left, right) and the dots (left, right) extend.

    The thickness of the dash is three fifths of its length. On each side there are five dots, each
    a fifth of the dash long, whose spacing is two fifths of the dash. If dots would be smaller than
    a pixel, there are fewer dots, so that gaps remain between them.
    """
    fifth = dash / 5
    # at least two pixels, or dots would merge
    step = max(2 * fifth, 2.0)
    dots = np.arange(min(5, int((9 * fifth + 1) / 2 + 0.5)))

    def stretch(start: float, length: float) -> NDArray[np.int64]:
        first = int(np.floor(start + 0.5))
        return np.arange(first, first + max(1, int(np.floor(length + 0.5))))

    def bars(columns: list[NDArray[np.int64]]) -> Offsets:
        row, column = np.meshgrid(
            stretch(-1.5 * fifth, 3 * fifth), np.concatenate(columns), indexing="ij"
        )
        return np.stack((row.ravel(), column.ravel()), axis=1)

    middle = bars([stretch(-2.5 * fifth, 5 * fifth)])
    right = bars([stretch(5.5 * fifth + dot * step, fifth) for dot in dots])
    left = bars([stretch(-10.5 * fifth + dot * step, fifth) for dot in dots])
    (top, start), (bottom, stop) = middle.min(axis=0), middle.max(axis=0)
    extent = (-top, bottom, -start, stop, -left[:, 1].min(), right[:, 1].max())
    return middle, right, left, extent


def stamp_indices(
    stamps: Sequence[Offsets], rows: Tensor, columns: Tensor, size: tuple[int, int]
) -> Tensor:
    """Return (B, N, P) flat pixel indices of each image's stamp, placed at its (B, N) centers.

    Pixels outside the image, and the padding of shorter stamps, have the index H · W.
    """
    height, width = size
    longest = max(len(stamp) for stamp in stamps)
    # padding offsets are large enough to be outside every image
    table = np.full((len(stamps), longest, 2), 2 * max(size), dtype=np.int64)
    for offsets_of_stamp, stamp in zip(table, stamps, strict=True):
        offsets_of_stamp[: len(stamp)] = stamp
    offsets = torch.from_numpy(table).to(rows.device)
    row = rows[:, :, None] + offsets[:, None, :, 0]
    column = columns[:, :, None] + offsets[:, None, :, 1]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    return torch.where(inside, row * width + column, height * width)


def draw_objects(
    random: ImageRandom,
    before: tuple[Values, Values],
    after: tuple[Values, Values],
    size: tuple[int, int],
    numbers: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and integers 0 … numbers − 1 for `MOST` random objects, each (B, MOST).

    Centers are at least `before` px away from the top and left edges and `after` px from the bottom
    and right edges, if the image is large enough.
    """
    # objects larger than the image stay near its center
    room = [np.maximum(s - b - a, 1) for b, a, s in zip(before, after, size, strict=True)]
    first = [np.minimum(b, (s - 1) // 2) for b, s in zip(before, size, strict=True)]
    start, count = (
        torch.from_numpy(np.stack((*both, np.full_like(both[0], last)), axis=1).astype(np.int64))
        for both, last in ((first, 0), (room, numbers))
    )
    drawn = random.integers("objects", (3, MOST), count.to(random.device)[:, :, None])
    rows, columns, number = (drawn + start.to(random.device)[:, :, None]).unbind(dim=1)
    return rows, columns, number


def present(count: Values, device: torch.device) -> Tensor:
    """Return bool (B, n): whether each of the first n = max(count, 1) objects is in its image."""
    # one column at least, because pixels are gathered from the objects
    numbers = torch.arange(max(1, int(count.max())), device=device)
    return numbers < torch.from_numpy(count).to(device)[:, None]


# float32 holds every k / 2²⁴ below 1 exactly
GRAYS = 2**24


def _round_objects(
    images: Tensor,
    random: ImageRandom,
    count: Values,
    radius: Values,
    shape: Callable[..., Offsets],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return pixel indices (B, n, P) of disks or diamonds, whether each is present, and grays."""
    height, width = images.shape[-2:]
    # as published: margins at the top and left are rounded up; the opposite ones are one smaller
    margin = np.ceil(radius * DISK) if shape is disk else np.ceil(radius)
    is_present = present(count, images.device)
    drawn = draw_objects(random, (margin,) * 2, (margin - 1,) * 2, (height, width), GRAYS)
    rows, columns, gray = (values[:, : is_present.shape[1]] for values in drawn)
    pixels = stamp_indices([shape(float(one)) for one in radius], rows, columns, (height, width))
    return pixels, is_present, gray.to(torch.float32) / GRAYS


def _paint(images: Tensor, pixels: Tensor, is_present: Tensor, grays: Tensor) -> Tensor:
    """Return the images with each object painted in its gray, later objects over earlier ones."""
    batch, _, height, width = images.shape
    number = torch.arange(1, is_present.shape[1] + 1, device=images.device) * is_present
    number = number[:, :, None].expand_as(pixels).flatten(1)
    # the topmost object at a pixel is the one with the highest number
    # one more cell collects the pixels outside the image
    canvas = torch.zeros(batch, height * width + 1, dtype=torch.int64, device=images.device)
    canvas.scatter_reduce_(1, pixels.flatten(1), number, "amax")
    last = canvas[:, :-1]
    gray = grays.gather(1, (last - 1).clamp_(min=0))
    last, gray = (plane.reshape(batch, 1, height, width) for plane in (last, gray))
    return torch.where(last > 0, gray, images)


@corruption(
    "noc/circles",
    "occlusion",
    _count("disks"),
    Parameter("radius", 1, LONGEST, "px", "radius of a disk"),
    random=True,
)
def circles(images: Tensor, random: ImageRandom, *, count: Values, radius: Values) -> Tensor:
    """Draw disks, each in a random gray."""
    return _paint(images, *_round_objects(images, random, count, radius, disk))


@corruption(
    "noc/rhombus",
    "occlusion",
    _count("diamonds"),
    Parameter("radius", 0.5, LONGEST, "px", "half the width of a diamond"),
    random=True,
)
def rhombus(images: Tensor, random: ImageRandom, *, count: Values, radius: Values) -> Tensor:
    """Draw diamonds, each in a random gray."""
    return _paint(images, *_round_objects(images, random, count, radius, diamond))


@corruption(
    "noc/rain",
    "occlusion",
    _count("drops"),
    Parameter("radius", 1, LONGEST, "px", "radius of a drop"),
    random=True,
)
def rain(images: Tensor, random: ImageRandom, *, count: Values, radius: Values) -> Tensor:
    """Halve the distance to white inside each drop; overlapping drops halve it repeatedly."""
    batch, _, height, width = images.shape
    pixels, is_present, _ = _round_objects(images, random, count, radius, disk)
    # one more cell collects the pixels outside the image
    hits = torch.zeros(batch, height * width + 1, dtype=torch.int32, device=images.device)
    once = is_present[:, :, None].expand_as(pixels).flatten(1).to(torch.int32)
    hits.scatter_add_(1, pixels.flatten(1), once)
    # after 30 drops the image is completely white in float32
    shares = torch.from_numpy(1 - 0.5 ** np.arange(31, dtype=np.float32)).to(images.device)
    share = shares[hits[:, :-1].clamp(max=30).to(torch.int64)].reshape(batch, 1, height, width)
    return (1 - images).mul_(share).add_(images)


def _dotted_lines(
    random: ImageRandom, count: Values, dash: Values, lines: int, length: int
) -> Tensor:
    """Return bool (B, lines, length): whether dotted lines along the last axis cover a pixel."""
    device = random.device
    dashes, rights, lefts, extents = zip(*(dotted_line(float(one)) for one in dash), strict=True)
    up, down, left, right, far_left, far_right = np.array(extents, dtype=np.float64).T
    is_present = present(count, device)
    drawn = draw_objects(random, (up, left), (down, right), (lines, length), 7)
    row, column, seventh = (values[:, : is_present.shape[1]] for values in drawn)
    # as published: one dash in seven has no dots; if not all dots fit, they are left out
    dotted = is_present & (seventh > 0)
    room_left, room_right = (
        torch.from_numpy(far).to(device)[:, None] for far in (far_left, far_right)
    )
    canvas = torch.zeros(len(random), lines * length + 1, dtype=torch.int32, device=device)
    for parts, is_drawn in (
        (dashes, is_present),
        (rights, dotted & (column + room_right < length)),
        (lefts, dotted & (column >= room_left)),
    ):
        pixels = stamp_indices(parts, row, column, (lines, length))
        canvas.scatter_add_(
            1, pixels.flatten(1), is_drawn[:, :, None].expand_as(pixels).flatten(1).to(torch.int32)
        )
    return canvas[:, :-1].reshape(-1, lines, length) > 0


DASH = Parameter(
    "dash", 0.1, LONGEST, "px", "length of the dash; dots and thickness are proportional to it"
)


@corruption("noc/artifacts", "occlusion", _count("dotted lines"), DASH, GRAY, random=True)
def artifacts(
    images: Tensor, random: ImageRandom, *, count: Values, dash: Values, grey: Values
) -> Tensor:
    """Draw short horizontal dotted lines, all in the same gray."""
    height, width = images.shape[-2:]
    covered = _dotted_lines(random, count, dash, height, width)
    return torch.where(covered[:, None], per_image(grey, images), images)


@corruption("noc/vertical_artifacts", "occlusion", _count("dotted lines"), DASH, GRAY, random=True)
def vertical_artifacts(
    images: Tensor, random: ImageRandom, *, count: Values, dash: Values, grey: Values
) -> Tensor:
    """Draw short vertical dotted lines, all in the same gray."""
    height, width = images.shape[-2:]
    # horizontal lines of the transposed image
    covered = _dotted_lines(random, count, dash, width, height).mT
    return torch.where(covered[:, None], per_image(grey, images), images)


def _position(name: str, meaning: str) -> Parameter:
    return Parameter(name, 0, 1, "fraction of the free space", meaning, drawn=True)


@corruption(
    "noc/obstruction",
    "occlusion",
    Parameter("side", 0, LONGEST, "px", "side of the square", clean=0, integer=True),
    _position("top", "vertical position of the square"),
    _position("left", "horizontal position of the square"),
    GRAY,
)
def obstruction(
    images: Tensor, random: ImageRandom, *, side: Values, top: Values, left: Values, grey: Values
) -> Tensor:
    """Cover one square at a random position with a uniform gray."""
    height, width = images.shape[-2:]
    # the square always fits
    side = np.minimum(side, min(height, width))
    # `top` and `left` may be exactly 1 if the user gives them
    first_row = np.minimum(np.floor(top * (height - side + 1)), height - side)
    first_column = np.minimum(np.floor(left * (width - side + 1)), width - side)
    row = torch.arange(height, device=images.device).reshape(1, 1, -1, 1)
    column = torch.arange(width, device=images.device)
    rows = (row >= per_image(first_row, images)) & (row < per_image(first_row + side, images))
    columns = (column >= per_image(first_column, images)) & (
        column < per_image(first_column + side, images)
    )
    return torch.where(rows & columns, per_image(grey, images), images)


@corruption(
    "noc/border",
    "occlusion",
    Parameter("thickness", 0, LONGEST, "px", "thickness of the frame", clean=0, integer=True),
    GRAY,
)
def border(images: Tensor, random: ImageRandom, *, thickness: Values, grey: Values) -> Tensor:
    """Cover the edges of the image with a uniform gray frame."""
    height, width = images.shape[-2:]
    row = torch.arange(height, device=images.device).reshape(1, 1, -1, 1)
    column = torch.arange(width, device=images.device)
    from_edge = torch.minimum(
        torch.minimum(row, height - 1 - row), torch.minimum(column, width - 1 - column)
    )
    return torch.where(from_edge < per_image(thickness, images), per_image(grey, images), images)
