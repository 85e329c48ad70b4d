"""Writing a test set's pictures out: files that give the same answers as the manifest."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.files import remove_leftovers
from eyechart.core.parts import file_name
from eyechart.core.progress import Advance
from eyechart.images.files import is_damaged, read_note, write_picture
from eyechart.images.imageset import ImageSet
from eyechart.testsets.drawing import BATCH, each_chunk
from eyechart.testsets.draws import Draws
from eyechart.testsets.making import rows_of
from eyechart.testsets.testset import TestSet


def render_testset(
    testset: TestSet, images: ImageSet, device: torch.device, out: Path, step: Advance
) -> int:
    """Write `CORRUPTION/LABEL/ROW.png` for every row and return how many there are.

    Pixels that differ from the manifest's digest are an error; files that are there are kept.
    """
    digests = dict(
        zip(testset.table["row"].to_pylist(), testset.table["pixels"].to_pylist(), strict=True)
    )
    # clean pictures that the test set does not hold are not asked for
    rows = [draws for draws in testset.draws(images) if int(draws.row[0]) in digests]
    remove_leftovers(
        {_target(draws, images, at, out).parent for draws in rows for at in range(len(draws))}
    )
    groups = [_missing(draws, images, out, digests, step) for draws in rows]
    for draws, place, picture in each_picture(testset, images, device, groups):
        target = _target(draws, images, place, out)
        _write(Image.fromarray(picture), target, _note(digests[int(draws.row[place])]))
        step(1, "")
    return len(testset)


def each_picture(
    testset: TestSet, images: ImageSet, device: torch.device, groups: Sequence[Draws]
) -> Iterator[tuple[Draws, int, NDArray[np.uint8]]]:
    """Yield the rows of `groups`, which are of the test set: draws, place in them, and the picture.

    Pictures are (H, W, 3). Pixels that differ from the manifest's digest are an error.
    """
    table = testset.table
    digests = dict(zip(table["row"].to_pylist(), table["pixels"].to_pylist(), strict=True))
    left = [draws for draws in groups if len(draws)]
    for chunk in each_chunk(images, left, testset.plan, device) if left else ():
        for draws, _ in rows_of(left, chunk.places):
            for start in range(0, len(draws), BATCH[device.type]):
                end = min(start + BATCH[device.type], len(draws))
                part = draws.take(np.arange(start, end))
                made = chunk.make(part)
                pixels = made.pixels.cpu().numpy().view(np.uint64)
                pictures = made.pictures.permute(0, 2, 3, 1).cpu().numpy()
                for place, row in enumerate(part.row.tolist()):
                    if int(pixels[place]) != digests[row]:
                        raise UsageError(
                            f"Row {row} ({part.name}) has other pixels than the test set says: it"
                            " was made by another version, or on another kind of device."
                        )
                    yield part, place, pictures[place]


def _missing(
    draws: Draws, images: ImageSet, out: Path, digests: dict[int, int], step: Advance
) -> Draws:
    """Return the rows whose pictures are not there yet; what is not ours is never replaced."""
    left = []
    for place, row in enumerate(draws.row.tolist()):
        target = _target(draws, images, place, out)
        if not target.exists() or is_damaged(target):
            left.append(place)
            continue
        if read_note(target) != _note(digests[row]):
            raise UsageError(
                f"{target} is there already and is another picture: choose another --out."
            )
        step(1, "")
    return draws.take(np.array(left, dtype=np.int64))


def _target(draws: Draws, images: ImageSet, place: int, out: Path) -> Path:
    label = images.pictures[draws.image[place]].label
    folder = out / file_name(draws.name) / (label or "unlabelled").replace("/", "-")
    return folder / f"{draws.row[place]:08d}.png"


def _note(pixels: int) -> str:
    return f"row of a test set, pixels {pixels:016x}"


def _write(picture: Image.Image, target: Path, note: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_picture(picture, target, note=note)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
