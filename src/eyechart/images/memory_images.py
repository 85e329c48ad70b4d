"""Images in memory: arrays, also in .npy and .npz files, and datasets of (image, label) pairs."""

import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import brief, regular_file
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, plural
from eyechart.images.identity import pixel_digest
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.image_types import to_batch
from eyechart.images.labels.matching import dataset_classes, label_texts
from eyechart.images.published_source import LABELS

DEEP = ("uint16", "int16", "int32")
"""Types of gray arrays with more than 8 bits, which need a window."""


def is_arrays(source: object) -> bool:
    """Return whether this is an array of images, or a pair of such an array and its labels."""
    if isinstance(source, tuple) and len(source) == 2:
        source = source[0]
    return isinstance(source, np.ndarray | Tensor)


def is_map_style(source: object) -> bool:
    """Return whether this has a length and items; a list must contain pairs."""
    if isinstance(source, str | bytes | Mapping) or not hasattr(source, "__getitem__"):
        return False
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(item, tuple | list) for item in source[:1])
    # torch's Dataset inherits from no class with a length, and neither do streams.
    return isinstance(source, Sized)


def as_image(value: object) -> Image.Image:
    """Return one image as a PIL image; values of more than 8 bits are kept.

    Accepts a PIL image, an array (H, W, C) or (H, W), or a tensor (C, H, W). Values may be uint8,
    or float in [0, 1]; floats are rounded to the nearest of 256 levels.

    Raises:
        UsageError: If the shape, the type or the values are invalid.

    Example:
        >>> as_image(torch.full((3, 8, 8), 0.5)).getpixel((0, 0))
        (128, 128, 128)
    """
    if isinstance(value, Image.Image):
        return value if value.mode in ("L", "RGB", "F") or value.mode[0] == "I" else _plain(value)
    if isinstance(value, np.ndarray) and value.dtype in DEEP and value.ndim == 2:
        kept = np.uint16 if value.dtype == np.uint16 else np.int32
        return Image.fromarray(value.astype(kept))
    if isinstance(value, np.ndarray | Tensor) and value.ndim not in (2, 3):
        raise UsageError(
            "an image must be (H, W, C) or (H, W) as an array and (C, H, W) as a tensor, got the"
            f" shape {tuple(value.shape)}."
        )
    batch = to_batch(value)[0]
    levels = batch if batch.dtype == torch.uint8 else (batch * 255).round().to(torch.uint8)
    pixels = levels[0].permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))


def _plain(image: Image.Image) -> Image.Image:
    """Return a palette, transparent or binary image in mode L or RGB."""
    return image.convert("L" if image.mode in ("1", "LA", "La") else "RGB")


class MapStyleReader:
    """Reads items of a dataset one at a time, since few datasets can be read by several threads."""

    def __init__(self, dataset: Any, source: str) -> None:
        self.dataset, self.source = dataset, source
        self._lock = threading.Lock()

    def item(self, position: int) -> tuple[object, object]:
        """Return the image and the label of an item as the dataset returns them."""
        try:
            with self._lock:
                item = self.dataset[position]
        except UsageError:
            raise
        except Exception as error:  # a foreign dataset may raise anything
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise UsageError(f"Cannot read item {position} of {self.source}: {reason}.") from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"Each item of {self.source} must be a pair (image, label), got"
                f" {brief(item)} for item {position}."
            )
        return item[0], item[1]

    def image(self, position: int) -> Image.Image:
        """Return the image of an item."""
        try:
            return as_image(self.item(position)[0])
        except UsageError as error:
            if self.source in str(error):
                raise
            raise UsageError(f"Item {position} of {self.source}: {error}") from None


def list_map_style(dataset: Any) -> ImageListing:
    """Return the images of a dataset; its labels come from `targets`, or else from its items.

    The attribute `classes`, if there is one, names the classes.

    Raises:
        UsageError: If the dataset is empty, an item is not a pair, or images change between reads.
    """
    n_images = len(dataset)
    source = f"{type(dataset).__name__} of {n_images} {plural(n_images, 'image')}"
    if not n_images:
        raise UsageError(f"{type(dataset).__name__} is empty: give at least one image.")
    names = _classes(dataset, source)
    reader = MapStyleReader(dataset, source)
    # Images are identified by their pixels, which random augmentation would change at every read.
    if pixel_digest(reader.image(0)) != pixel_digest(reader.image(0)):
        raise UsageError(
            f"{source} must return the same image at every read, but item 0 changed: remove random"
            " transforms."
        )
    values = _targets(dataset)
    # Reading every item only for its label decodes every image, but there is no other way.
    if values is None:
        values = [reader.item(position)[1] for position in range(n_images)]
    labels = label_texts(values, source, names)
    images = [
        ListedImage(
            Path(f"{source}/{position}"),
            str(position),
            label,
            content=partial(reader.image, position),
        )
        for position, label in enumerate(labels)
    ]
    return ImageListing(source, images, names)


def _classes(dataset: Any, source: str) -> tuple[str, ...] | None:
    """Return the class names of a dataset; a Subset has the class names of its parent dataset."""
    if isinstance(dataset, torch.utils.data.Subset):
        return _classes(dataset.dataset, source)
    classes = getattr(dataset, "classes", None)
    if not isinstance(classes, list | tuple):
        return None
    return dataset_classes(classes, source) or None


def _targets(dataset: Any) -> Sequence[object] | None:
    """Return the labels in `targets`, without decoding images; None if they cannot be used."""
    targets = getattr(dataset, "targets", None)
    # A transform of labels applies to items, but not to this list.
    if getattr(dataset, "target_transform", None) is not None:
        return None
    # torchvision has lists, MNIST-like datasets have tensors.
    if isinstance(targets, np.ndarray | Tensor):
        targets = targets.tolist()
    return targets if isinstance(targets, list) and len(targets) == len(dataset) else None


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
