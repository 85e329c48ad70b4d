"""What loaders of ImageNet-C and CIFAR-10-C rely on, written down as two small readers.

RobustBench looks ImageNet-C's files up by name: CLASS/NAME.JPEG from a list, in
CORRUPTION/SEVERITY/, a class's number being its place among the sorted folders. Of CIFAR-10-C it
takes rows (severity − 1) N … severity N of CORRUPTION.npy, with the first labels of labels.npy.
torchvision's and timm's ImageFolder list every file that ends as an image in every class folder.
"""

import os
from pathlib import Path

import numpy as np
from PIL import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def read_listed(root: Path, corruption: str, severity: int, listed: list[str]):
    """Return images (N, H, W, 3) and class numbers of files CLASS/NAME.JPEG, by name."""
    folder = root / corruption / str(severity)
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    images = []
    for name in listed:
        with (folder / name).open("rb") as file:
            images.append(np.asarray(Image.open(file).convert("RGB")))
    return np.stack(images), [classes.index(name.split("/")[0]) for name in listed]


def list_folder(folder: Path) -> list[tuple[str, int]]:
    """Return CLASS/NAME and class number of everything that an ImageFolder finds."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    return [
        (f"{name}/{file}", number)
        for number, name in enumerate(classes)
        for parent, _, files in sorted(os.walk(folder / name))
        for file in sorted(files)
        if file.lower().endswith(ENDINGS)
    ]


def read_arrays(root: Path, corruption: str, severity: int, total: int, n: int):
    """Return n images and labels of CIFAR-10-C as RobustBench does; it has 10,000 in `total`."""
    images = np.load(root / f"{corruption}.npy")[(severity - 1) * total : severity * total][:n]
    return images, np.load(root / "labels.npy")[:n]
