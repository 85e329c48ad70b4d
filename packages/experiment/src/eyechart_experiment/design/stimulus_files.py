"""Write the images of a study atomically, as files named after the digest of their pixels.

Finished files are recorded with their row in the test set, so that an interrupted build can resume.
"""

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.images.identity import content_keys
from eyechart.images.image_files import write_image
from eyechart.images.imageset import ImageSet
from eyechart.testsets.render import render_each
from eyechart.testsets.testset import TestSet
from eyechart_experiment.storage.experiment_folder import STIMULI, image_path, read_pixels

RENDERED = "rendered.csv"
LINE = re.compile(r"(\d+),([0-9a-f]{64})")


def make_images(
    testset: TestSet,
    images: ImageSet,
    rows: Collection[int],
    study: Path,
    *,
    device: torch.device,
    side: int,
    step: Advance,
) -> dict[int, str]:
    """Write the missing images for these rows and return the SHA-256 of every row's image."""
    done = good_images(testset, rows, study, side)
    step(len(done), "")
    left = np.array(sorted(set(rows) - done.keys()), dtype=np.int64)
    groups = [
        samples.take(np.flatnonzero(np.isin(samples.row, left)))
        for samples in testset.samples(images)
    ]
    try:
        (study / STIMULI).mkdir(exist_ok=True)
        with (study / RENDERED).open("a", encoding="ascii") as record:
            # Start on a new line: an interrupted build may have left a partial one.
            record.write("\n")
            for samples, index, image in render_each(testset, images, device, groups):
                row, sha256 = int(samples.row[index]), hashlib.sha256(image.tobytes()).hexdigest()
                write_image(Image.fromarray(image), image_path(study, sha256))
                # After the image, so that a row that is listed always has its file.
                record.write(f"{row},{sha256}\n")
                record.flush()
                done[row] = sha256
                step(1, "")
    except OSError as error:
        raise UsageError(f"Cannot write into {study}: {error.strerror or error}.") from None
    return done


def good_images(testset: TestSet, rows: Collection[int], study: Path, side: int) -> dict[int, str]:
    """Return the SHA-256 of each row whose image file exists and matches the test set."""
    known = zip(testset.table["row"].to_pylist(), testset.table["pixels"].to_pylist(), strict=True)
    shown = set(rows)
    wanted = {row: pixels for row, pixels in known if row in shown}
    good = {}
    for row, sha256 in recorded_images(study).items():
        if row not in wanted:
            continue
        try:
            pixels = read_pixels(study, sha256, side)
        except UsageError:
            continue
        levels = np.frombuffer(pixels, dtype=np.uint8).reshape(side, side, 3)
        planes = torch.from_numpy(np.ascontiguousarray(levels.transpose(2, 0, 1)))[None]
        if int(content_keys(planes).numpy().view(np.uint64)[0]) == wanted[row]:
            good[row] = sha256
    return good


def recorded_images(study: Path) -> dict[int, str]:
    """Return the recorded SHA-256 of each row's image; truncated lines are ignored."""
    try:
        lines = (study / RENDERED).read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ValueError):
        return {}
    matches = (LINE.fullmatch(line) for line in lines)
    return {int(match[1]): match[2] for match in matches if match}
