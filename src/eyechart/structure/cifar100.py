"""Read CIFAR-100 as published by its authors: pickles with 100 fine and 20 coarse classes.

Pickles of arrays, also those of ICONS-50, are read without executing code.
"""

import hashlib
import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.stimulus import find_stimulus
from eyechart.structure.holdout_images import HoldoutImages, as_holdout_images, subclass_of

ALLOWED = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        # NumPy 2 renamed numpy.core to numpy._core; files with either name exist.
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        # Protocols before 3 store bytes as text, which this function converts back.
        ("_codecs", "encode"),
    }
)
"""Classes and functions needed to unpickle arrays; anything else could run code."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed class or function; raise an UnpicklingError for any other name."""
        # Unpickling runs any code that a file names, so only constructors of arrays are allowed.
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)


def read_pickle(content: bytes, encoding: str = "bytes") -> Any:
    """Return the content of a pickle; raise a ValueError if it cannot be read safely."""
    try:
        return _Plain(io.BytesIO(content), encoding=encoding).load()
    # Damaged pickles can raise almost any exception; callers get a ValueError.
    except Exception as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None


SIDE = 32
FOLDER = "cifar-100-python"

PUBLISHED = (
    (72, 4, 95, 30, 55), (73, 32, 67, 91, 1), (92, 70, 82, 54, 62), (16, 61, 9, 10, 28),
    (51, 0, 53, 57, 83), (40, 39, 22, 87, 86), (20, 25, 94, 84, 5), (14, 24, 6, 7, 18),
    (43, 97, 42, 3, 88), (37, 17, 76, 12, 68), (49, 33, 71, 23, 60), (15, 21, 19, 31, 38),
    (75, 63, 66, 64, 34), (77, 26, 45, 99, 79), (11, 2, 35, 46, 98), (29, 93, 27, 78, 44),
    (65, 50, 74, 36, 80), (56, 52, 47, 59, 96), (8, 58, 90, 13, 48), (81, 69, 41, 89, 85),
)  # fmt: skip
"""Fine classes of each coarse class, in the order in which the published experiment (Hendrycks &
Dietterich) holds them out: the first one, two or three fine classes of each coarse class.
"""


def load_cifar100(folder: Path, progress: Progress) -> HoldoutImages:
    """Return CIFAR-100 with coarse classes and fine subclasses; its test set is for testing only.

    `folder` contains the files train, test and meta, or a subfolder with these files.
    """
    # The archive unpacks into a subfolder; either level is accepted.
    where = folder if (folder / "train").is_file() else folder / FOLDER
    meta = _read(where / "meta")
    fine, coarse = (_names(where / "meta", meta, key) for key in
                    (b"fine_label_names", b"coarse_label_names"))  # fmt: skip
    listed: list[ListedImage] = []
    digests: list[str] = []
    kept: dict[int, torch.Tensor] = {}
    to_test: list[bool] = []
    for part in ("train", "test"):
        path = where / part
        pixels, kinds, groups = _part(path, len(fine), len(coarse))
        step = progress.begin(f"CIFAR-100, {part}", len(pixels))
        for number, (image, kind, group) in enumerate(zip(pixels, kinds, groups, strict=True)):
            kept[len(listed)] = torch.from_numpy(image.copy())
            # Images are not separate files, so an image is identified by its pixels.
            digests.append(hashlib.sha256(image.tobytes()).hexdigest())
            name = f"{part}/{number}"
            listed.append(ListedImage(path, name, coarse[group], subclass=fine[kind]))
            to_test.append(part == "test")
            step(1, "")
    sizes = ((SIDE, SIDE),) * len(listed)
    images = ImageSet(
        str(where), find_stimulus("native"), tuple(listed), tuple(digests), sizes, kept=kept
    )
    return as_holdout_images(images, to_test, progress)


def published_order(kinds: HoldoutImages, folder: Path) -> list[list[str]]:
    """Return the subclasses of each class in the order of the published experiment."""
    where = folder if (folder / "meta").is_file() else folder / FOLDER
    meta = _read(where / "meta")
    fine, coarse = (_names(where / "meta", meta, key) for key in
                    (b"fine_label_names", b"coarse_label_names"))  # fmt: skip
    if (len(fine), len(coarse)) != (100, len(PUBLISHED)):
        raise UsageError(
            f"The published order applies to CIFAR-100's 20 classes with 100 subclasses, but "
            f"{where} has {len(coarse)} with {len(fine)}: use --order random."
        )
    order = {
        label: [subclass_of(label, fine[number]) for number in numbers]
        for label, numbers in zip(coarse, PUBLISHED, strict=True)
    }
    # Other groupings of the 100 classes exist; the published order is for the original one.
    if set(kinds.names("subclass")) != {name for names in order.values() for name in names}:
        raise UsageError(
            f"The published order applies to CIFAR-100, but {where} groups its classes "
            "differently: use --order random."
        )
    return [order[label] for label in kinds.data.class_names]


def _read(path: Path) -> Mapping[bytes, object]:
    try:
        content = read_pickle(regular_file(path).read_bytes())
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}; pass the folder of the Python version of"
            " CIFAR-100, with the files train, test and meta."
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{path} is not a file of the Python version of CIFAR-100 ({error}): download it again."
        ) from None
    if not isinstance(content, dict):
        raise UsageError(
            f"{path} is not a file of the Python version of CIFAR-100: download it again."
        )
    # Pickles written by Python 2 have bytes as keys, those written by Python 3 have strings.
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}


def _names(path: Path, content: Mapping[bytes, object], key: bytes) -> list[str]:
    names = content.get(key)
    if not isinstance(names, list) or not names:
        raise UsageError(f"{path} has no {key.decode()}: download CIFAR-100 again.")
    try:
        return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    except UnicodeDecodeError:
        raise UsageError(
            f"{path} has names that are not strings: download CIFAR-100 again."
        ) from None


def _part(
    path: Path, fine: int, coarse: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    content = _read(path)
    try:
        # A row of the file has all red values of an image, then all green and all blue values.
        pixels = np.asarray(content[b"data"], dtype=np.uint8).reshape(-1, 3, SIDE, SIDE)
        kinds = np.asarray(content[b"fine_labels"], dtype=np.int64)
        groups = np.asarray(content[b"coarse_labels"], dtype=np.int64)
        if not len(pixels) or not (len(pixels),) == kinds.shape == groups.shape:
            raise ValueError
        if kinds.min() < 0 or groups.min() < 0 or kinds.max() >= fine or groups.max() >= coarse:
            raise ValueError
    except (KeyError, ValueError, TypeError, OverflowError):
        raise UsageError(
            f"{path} must contain images of 32 × 32 px with fine and coarse labels: download "
            "CIFAR-100 again."
        ) from None
    return pixels, kinds, groups
