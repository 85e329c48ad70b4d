"""Small data sets whose pictures have a style and a subclass: in memory, or files and a list."""

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.stimulus import find_stimulus
from eyechart.structure.holdout_images import as_holdout_images

SIDE = 20
TINTS = {"blue": (-60, -60, 60), "green": (-60, 60, -60), "red": (60, -60, -60)}
STYLES = ("inverted", "pale", "plain")


@dataclass(frozen=True)
class Row:
    """A picture to make; those of one drawing differ by a gray level here and there."""

    label: str
    style: str = "plain"
    subclass: str = "usual"
    drawing: int = 0
    is_mirrored: bool = False


def drawn(row, number):
    """Sixteen patches of random colors, and noise that nobody sees."""
    patches = np.random.default_rng(row.drawing).integers(5, 250, (4, 4, 3))
    noise = np.random.default_rng([1, number]).integers(-1, 2, (SIDE, SIDE, 3))
    made = patches.repeat(SIDE // 4, axis=0).repeat(SIDE // 4, axis=1)
    made = made[:, ::-1] if row.is_mirrored else made
    return (made + noise).astype(np.uint8)


def tinted(row, number):
    """Patches of random brightness in the color that the class is called by, no two alike."""
    light = np.random.default_rng([2, number]).uniform(70, 185, (4, 4, 1))
    levels = (light + np.array(TINTS[row.label])).clip(0, 255)
    levels = {"plain": levels, "pale": 0.7 * levels + 0.3 * 255, "inverted": 255 - levels}[
        row.style
    ]
    return levels.astype(np.uint8).repeat(SIDE // 4, axis=0).repeat(SIDE // 4, axis=1)


def colors(each=4, styles=STYLES, subclasses=("calm", "wild")):
    """Rows of three colors, so many of each style and subclass."""
    return [
        Row(label, style, subclass)
        for label in TINTS
        for style in styles
        for subclass in subclasses
        for _ in range(each)
    ]


def in_memory(rows, to_test=None):
    """Return the pictures of rows, ready to hold some out of."""
    made = [drawn(row, number) for number, row in enumerate(rows)]
    pixels = tuple(
        ListedImage(Path(f"{n}.png"), f"{n}.png", row.label, style=row.style, subclass=row.subclass)
        for n, row in enumerate(rows)
    )
    images = ImageSet(
        "a list",
        find_stimulus("native"),
        pixels,
        tuple(hashlib.sha256(each.tobytes()).hexdigest() for each in made),
        ((SIDE, SIDE),) * len(rows),
        kept={n: torch.from_numpy(own).permute(2, 0, 1) for n, own in enumerate(made)},
    )
    return as_holdout_images(images, to_test)


def write_rows(folder, rows, draw=drawn, columns=("style", "subclass")):
    """Write the pictures and a list of them, and return the list's path.

    All names are in the paths too, where nobody may look for them.
    """
    listed = []
    for number, row in enumerate(rows):
        path = folder / row.style / row.label / f"{row.subclass}-{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw(row, number)).save(path)
        own = {name: getattr(row, name) for name in columns}
        listed.append({"path": path.relative_to(folder).as_posix(), "label": row.label, **own})
    with (folder / "list.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["path", "label", *columns])
        writer.writeheader()
        writer.writerows(listed)
    return folder / "list.csv"
