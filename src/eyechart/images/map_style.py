"""Map-style datasets, as in torch: objects with a length and (image, label) items."""

import threading
from collections.abc import Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import brief
from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.images.identity import pixel_digest
from eyechart.images.image_list import ImageListing, ListedImage
from eyechart.images.image_types import to_batch
from eyechart.images.label_values import dataset_classes, label_texts

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
