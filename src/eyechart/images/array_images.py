"""Arrays of images: in memory, or in .npy and .npz files, which are memory-mapped."""

import shutil
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, plural
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.label_values import dataset_classes, label_texts
from eyechart.images.map_style import DEEP, as_image
from eyechart.images.published_arrays import LABELS

ARRAYS = (".npy", ".npz")
IMAGES_KEY, LABELS_KEY, NAMES_KEY = "images", "labels", "class_names"


def list_arrays(source: Any) -> ImageListing:
    """Return the images of an array (N, H, W, C) or tensor (N, C, H, W), alone or with labels.

    Raises:
        UsageError: If a shape or type is invalid, or the numbers of labels and images differ.
    """
    images, labels = source if isinstance(source, tuple) else (source, None)
    kind = "tensor" if isinstance(images, Tensor) else "array"
    n_images = len(images) if images.ndim else 0
    return _list(images, labels, f"{kind} of {n_images} {plural(n_images, 'image')}")


def list_array_file(path: Path) -> ImageListing:
    """Return the images of an .npz or .npy file.

    An .npz file contains the array `images`, and optionally `labels` and `class_names`.
    The labels of a .npy file are in labels.npy beside it, if there is such a file.
    """
    try:
        if path.suffix.lower() == ".npy":
            beside = path.with_name(LABELS)
            labels = _mapped(beside) if beside.exists() and path.name != LABELS else None
            return _list(_mapped(path), labels, str(path))
        with zipfile.ZipFile(regular_file(path)) as file:
            arrays = {
                name.removesuffix(".npy"): _extracted(file, name) for name in _keys(file, path)
            }
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()).rstrip(".") or "it is empty"
        raise UsageError(
            f"{path} is not a file of NumPy arrays, or is truncated: {reason}."
        ) from None
    names = arrays.get(NAMES_KEY)
    return _list(
        arrays[IMAGES_KEY],
        arrays.get(LABELS_KEY),
        str(path),
        None if names is None else dataset_classes(names.tolist(), str(path)),
    )


def _mapped(path: Path) -> NDArray[Any]:
    # Not pickled objects, since unpickling can run code.
    array: NDArray[Any] = np.load(regular_file(path), mmap_mode="r", allow_pickle=False)
    return array


def _keys(file: zipfile.ZipFile, path: Path) -> list[str]:
    """Return the members of an .npz file that are used."""
    names = [name.removesuffix(".npy") for name in file.namelist()]
    if IMAGES_KEY not in names:
        raise UsageError(
            f"{path} must contain an array named {IMAGES_KEY}, and may contain {LABELS_KEY} and"
            f" {NAMES_KEY}; it has {', '.join(names) or 'no arrays'}."
        )
    return [f"{key}.npy" for key in (IMAGES_KEY, LABELS_KEY, NAMES_KEY) if key in names]


def _extracted(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return an array of an .npz file, mapped from a temporary copy.

    A compressed array cannot be read in place, and all of its images may not fit into memory. The
    copy is deleted here; its pages stay readable while the array is in use.
    """
    with tempfile.TemporaryDirectory(prefix="eyechart-", ignore_cleanup_errors=True) as folder:
        copied = Path(folder, "array.npy")
        with file.open(name) as packed, copied.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        return _mapped(copied)


def _list(
    images: Any, labels: Any, source: str, class_names: tuple[str, ...] | None = None
) -> ImageListing:
    is_tensor = isinstance(images, Tensor)
    is_deep = not is_tensor and images.dtype in DEEP and images.ndim == 3
    if not is_deep and (images.ndim != 4 or images.shape[1 if is_tensor else 3] not in (1, 3)):
        shape = "(N, C, H, W) with C = 3 or 1" if is_tensor else "(N, H, W, 3) or (N, H, W, 1)"
        raise UsageError(
            f"Images must have the shape {shape}, got {tuple(images.shape)} from {source}."
        )
    if not len(images):
        raise UsageError(f"The {source} is empty: give at least one image.")

    def read(position: int) -> Image.Image:
        try:
            return as_image(images[position])
        except UsageError as error:
            raise UsageError(f"Image {position} of {source}: {error}") from None

    # A type or range that is invalid is invalid for all images: report it once, and now.
    read(0)
    texts: list[str | None] = [None] * len(images)
    if labels is not None:
        values = labels.tolist() if isinstance(labels, np.ndarray | Tensor) else list(labels)
        if not isinstance(values, list) or len(values) != len(images):
            n_labels = len(values) if isinstance(values, list) else 1
            raise UsageError(
                f"There must be one label for each image of {source}, got"
                f" {count_of(n_labels, 'label')} for {count_of(len(images), 'image')}."
            )
        texts = label_texts(values, source, class_names)
    listed = [
        ListedImage(
            Path(f"{source}/{position}"), str(position), label, content=partial(read, position)
        )
        for position, label in enumerate(texts)
    ]
    return ImageListing(source, listed, class_names)
