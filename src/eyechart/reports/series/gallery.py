"""A gallery: one image under every corruption of a suite, with increasing strength.

This module computes the cells; `gallery_sheet` arranges them as an image, `html.page` as a page.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from eyechart.core.arguments import as_whole
from eyechart.corruptions import Parameter, Values
from eyechart.images.identity import named_keys
from eyechart.images.image_types import MAX_SIDE, SMALLEST_SIDE
from eyechart.suites.apply import corrupt_batch, draw_random
from eyechart.suites.assets import assets_of, ready_entries
from eyechart.suites.strength import Strengths, resolve
from eyechart.suites.suite import Entry, Suite

UNITS = {"px": " px", "degrees": "°", "degree": "°", "°": "°", "%": " %", "percent": " %"}
"""Units that are short enough for a caption."""

MAX_COLUMNS = 50
"""Maximum number of severities side by side."""


@dataclass(frozen=True)
class GalleryImage:
    """One corrupted image; `severity` and `parameter` (such as "sigma 0.4") are its captions."""

    image: Image.Image
    severity: float
    parameter: str


@dataclass(frozen=True)
class GalleryRow:
    """One corruption with increasing strength."""

    name: str
    summary: str
    cells: tuple[GalleryImage, ...]


@dataclass(frozen=True)
class Group:
    """The rows of one published group (noise, blur, …)."""

    name: str
    rows: tuple[GalleryRow, ...]


@dataclass(frozen=True)
class Gallery:
    """A complete gallery."""

    title: str
    subtitle: str
    source: str
    clean: Image.Image
    groups: tuple[Group, ...]


def make_gallery(
    image: Image.Image,
    suite: Suite,
    *,
    name: str,
    key: str,
    columns: int,
    size: int,
    seed: int,
) -> Gallery:
    """Return the gallery of an image (RGB or L), cropped to a square of `size` px.

    `name` is the title of the image; `key` identifies it for random number generation.
    """
    as_whole(columns, "columns", 1, MAX_COLUMNS)
    as_whole(size, "size", SMALLEST_SIDE, MAX_SIDE)
    clean = ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)
    rows: dict[str, list[GalleryRow]] = {}
    for entry in ready_entries(suite):
        rows.setdefault(entry.group, []).append(_row(clean, entry, key, columns, seed))
    return Gallery(
        title=suite.title,
        subtitle=f"{name}, {size} px, under {len(suite)} corruptions at increasing severity",
        source=suite.source,
        clean=clean,
        groups=tuple(Group(group, tuple(members)) for group, members in rows.items()),
    )


def severities(entry: Entry, columns: int) -> Values:
    """Return increasing severities up to 5: published levels if there are any, else equal steps.

    Without published levels, severity 1 is the mild end of the range, which is hardly visible, so
    the steps start above it.
    """
    if entry.levels and columns > 1:
        return np.linspace(1, 5, columns)
    return 1 + 4 * np.arange(1, columns + 1) / columns


def _row(clean: Image.Image, entry: Entry, key: str, columns: int, seed: int) -> GalleryRow:
    levels = np.atleast_3d(np.array(clean)).transpose(2, 0, 1)
    batch = torch.from_numpy(levels.copy()).expand(columns, *levels.shape)
    # One key for all columns: random numbers do not depend on severity, so that along a row only
    # the strength changes.
    keys = named_keys([key] * columns, columns)
    severity = severities(entry, columns)
    random = draw_random(entry, keys, seed, 0, keys.device)
    changed = corrupt_batch(batch, entry, Strengths(severity), random, assets_of(entry))
    values = resolve(entry, severity, {}, min(clean.size), random)
    captions = _captions(entry, values, columns)
    cells = tuple(
        GalleryImage(_to_image(one.numpy()), float(level), caption)
        for one, level, caption in zip(changed, severity, captions, strict=True)
    )
    return GalleryRow(entry.name, entry.corruption.summary, cells)


def _to_image(planes: NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(planes[0] if len(planes) == 1 else planes.transpose(1, 2, 0))


def _captions(entry: Entry, values: dict[str, Values], columns: int) -> Sequence[str]:
    """Return, for each column, the value of the parameter with the most distinct values."""
    moved = {*entry.path, *(name for table in entry.levels.values() for name in table)}
    candidates = [parameter for parameter in entry.corruption.parameters if parameter.name in moved]
    if not candidates:
        return [""] * columns
    # The parameter with the most distinct values: others may be constant over several columns.
    best = max(candidates, key=lambda parameter: len(np.unique(values[parameter.name])))
    return [_caption(best, float(value)) for value in values[best.name]]


def _caption(parameter: Parameter, value: float) -> str:
    number = f"{value:.0f}" if parameter.integer or abs(value) >= 100 else f"{value:.3g}"
    number = number.replace("-", "−") + UNITS.get(parameter.unit, "")
    if parameter.name == parameter.unit:
        return number
    return f"{parameter.name.replace('_', ' ')} {number}"
