"""Write the images of a test set to files, which give the same predictions as the manifest."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.storage.files import remove_leftovers
from eyechart.core.storage.parts import file_name
from eyechart.images.image_files import is_damaged, read_note, write_image
from eyechart.images.imageset import ImageSet
from eyechart.testsets.samples import Samples
from eyechart.testsets.stimuli import corrupt_samples
from eyechart.testsets.testset import TestSet


def render_testset(
    testset: TestSet, images: ImageSet, device: torch.device, out: Path, step: Advance
) -> int:
    """Write `CORRUPTION/LABEL/ROW.png` for every sample and return the number of samples.

    Files that already exist are kept.

    Raises:
        UsageError: If the pixels differ from the digest in the manifest.
    """
    digests = _digests(testset)
    # `samples` adds clean images that the test set itself may lack; these are not written.
    rows = [samples for samples in testset.samples(images) if int(samples.row[0]) in digests]
    # Temporary files of an interrupted run.
    remove_leftovers(
        {_target(samples, images, at, out).parent for samples in rows for at in range(len(samples))}
    )
    groups = [_missing(samples, images, out, digests, step) for samples in rows]
    for samples, position, image in render_each(testset, images, device, groups):
        target = _target(samples, images, position, out)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            note = _note(digests[int(samples.row[position])])
            write_image(Image.fromarray(image), target, note=note)
        except OSError as error:
            raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
        step(1, "")
    return len(testset)


def render_each(
    testset: TestSet, images: ImageSet, device: torch.device, groups: Sequence[Samples]
) -> Iterator[tuple[Samples, int, NDArray[np.uint8]]]:
    """Yield each image with the samples it belongs to and its position among them.

    Images are uint8 (H, W, 3). `groups` must be samples of the test set.

    Raises:
        UsageError: If the pixels differ from the digest in the manifest.
    """
    digests = _digests(testset)
    for samples, _, corrupted in corrupt_samples(images, groups, testset.plan, device):
        pixels = corrupted.pixels.cpu().numpy().view(np.uint64)
        rendered = corrupted.images.permute(0, 2, 3, 1).cpu().numpy()
        for position, row in enumerate(samples.row.tolist()):
            # Files must be the images that were measured, or predictions on them would not match.
            if int(pixels[position]) != digests[row]:
                raise UsageError(
                    f"The pixels of row {row} ({samples.name}) differ from the test set: it was"
                    " drawn with a different version or on a different type of device."
                )
            yield samples, position, rendered[position]


def _digests(testset: TestSet) -> dict[int, int]:
    """Return the digest of the pixels of each row."""
    table = testset.table
    return dict(zip(table["row"].to_pylist(), table["pixels"].to_pylist(), strict=True))


def _missing(
    samples: Samples, images: ImageSet, out: Path, digests: dict[int, int], step: Advance
) -> Samples:
    """Return the samples whose files are missing or damaged; other files are never replaced."""
    left = []
    for position, row in enumerate(samples.row.tolist()):
        target = _target(samples, images, position, out)
        if not target.exists() or is_damaged(target):
            left.append(position)
            continue
        if read_note(target) != _note(digests[row]):
            raise UsageError(
                f"{target} already exists and is a different image: choose another --out."
            )
        step(1, "")
    return samples.select(np.array(left, dtype=np.int64))


def _target(samples: Samples, images: ImageSet, position: int, out: Path) -> Path:
    label = images.listed[samples.image[position]].label
    folder = out / file_name(samples.name) / (label or "unlabeled").replace("/", "-")
    return folder / f"{samples.row[position]:08d}.png"


def _note(pixels: int) -> str:
    return f"row of a test set, pixels {pixels:016x}"
