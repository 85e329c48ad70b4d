"""Tiny images with the names and labels of ImageNet's validation set, where tables are valid."""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.images.labels.imagenet import wordnet_ids

VALIDATION_SET = [f"ILSVRC2012_val_{number:08d}" for number in range(1, 50_001)]


def save_archive(path: Path, names: Sequence[str] = VALIDATION_SET) -> Path:
    """Write an image of 4 × 4 px for each name, as many of each class, into a .tar file."""
    numbers = np.random.default_rng(0)
    with tarfile.open(path, "w") as archive:
        for place, name in enumerate(names):
            file = io.BytesIO()
            pixels = numbers.integers(0, 256, (4, 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file, "BMP")
            member = tarfile.TarInfo(f"{wordnet_ids()[place % 1000]}/{Path(name).stem}.JPEG")
            member.size = file.tell()
            file.seek(0)
            archive.addfile(member, file)
    return path
