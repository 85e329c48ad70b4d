"""Image sources: list the images that a user gives, before any of them is decoded.

Each kind of source has its own module; this module only decides which kind a source is. Without a
source, the 20 demo images are used.
"""

import os
import re
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping, Sequence, Sized
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from eyechart.core.arguments import as_path, regular_file, short_repr
from eyechart.core.errors import UsageError, install_hint, reason_of
from eyechart.core.phrases import count_of, plural
from eyechart.core.storage.remote import (
    DataFile,
    RemoteFile,
    as_shown,
    is_remote_file,
    is_url,
    remote_files,
)
from eyechart.images.hf_images import (
    HUB,
    PARQUET,
    image_column,
    is_hf,
    is_saved_dataset,
    list_hf,
    list_hub,
    list_parquet,
    list_saved,
)
from eyechart.images.identity import pixel_digest
from eyechart.images.image_files import GRAY_MODES, images_in, unread_notes
from eyechart.images.image_list import (
    MANIFESTS,
    ImageListing,
    ListedImage,
    list_folder,
    list_manifest,
    list_numbered,
    list_remote_folder,
    list_remote_manifest,
)
from eyechart.images.image_types import to_batch
from eyechart.images.labels.matching import dataset_classes
from eyechart.images.published_source import LABELS, mapped_array
from eyechart.images.tar_shards import TAR, expand_braces, find_shards, list_shards

DEEP = ("uint16", "int16", "int32")
"""Types of gray arrays with more than 8 bits, which need a window."""


def is_arrays(source: object) -> bool:
    """Return whether this is an array of images, or a pair of such an array and its labels."""
    images = source[0] if isinstance(source, tuple) and len(source) == 2 else source
    return isinstance(images, np.ndarray | Tensor)


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
        if value.mode in ("L", "RGB", "F") or value.mode[0] == "I":
            return value
        return value.convert("L" if value.mode in GRAY_MODES else "RGB")
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
    # Few datasets can be read by several threads.
    lock = threading.Lock()

    def read_item(position: int) -> tuple[object, object]:
        try:
            with lock:
                item = dataset[position]
        except UsageError:
            raise
        except Exception as error:  # a foreign dataset may raise anything
            raise UsageError(
                f"Cannot read item {position} of {source}: {reason_of(error)}."
            ) from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"Each item of {source} must be a pair (image, label), got {short_repr(item)} for"
                f" item {position}."
            )
        return item[0], item[1]

    def read_image(position: int) -> Image.Image:
        try:
            return as_image(read_item(position)[0])
        except UsageError as error:
            if source in str(error):
                raise
            raise UsageError(f"Item {position} of {source}: {error}") from None

    # Images are identified by their pixels, which random augmentation would change at every read.
    if pixel_digest(read_image(0)) != pixel_digest(read_image(0)):
        raise UsageError(
            f"{source} must return the same image at every read, but item 0 changed: remove random"
            " transforms."
        )
    labels = _targets(dataset)
    # Reading every item only for its label decodes every image, but there is no other way.
    if labels is None:
        labels = [read_item(position)[1] for position in range(n_images)]
    return list_numbered(source, read_image, labels, names)


def _classes(dataset: Any, source: str) -> tuple[str, ...] | None:
    """Return the class names of a dataset; a Subset has the class names of its parent dataset."""
    while isinstance(dataset, torch.utils.data.Subset):
        dataset = dataset.dataset
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
    arrays: dict[str, NDArray[Any]] = {}
    present: list[str] = []
    try:
        if path.suffix.lower() == ".npy":
            arrays[IMAGES_KEY] = mapped_array(path)
            beside = path.with_name(LABELS)
            if beside.exists() and path.name != LABELS:
                arrays[LABELS_KEY] = mapped_array(beside)
        else:
            with zipfile.ZipFile(regular_file(path)) as file:
                present = [name.removesuffix(".npy") for name in file.namelist()]
                for key in (IMAGES_KEY, LABELS_KEY, NAMES_KEY):
                    if key in present:
                        arrays[key] = _extracted(file, f"{key}.npy")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        reason = reason_of(error, "it is empty")
        raise UsageError(
            f"{path} is not a file of NumPy arrays, or is truncated: {reason}."
        ) from None
    if IMAGES_KEY not in arrays:
        raise UsageError(
            f"{path} must contain an array named {IMAGES_KEY}, and may contain {LABELS_KEY} and"
            f" {NAMES_KEY}; it has {', '.join(present) or 'no arrays'}."
        )
    names = arrays.get(NAMES_KEY)
    return _list(
        arrays[IMAGES_KEY],
        arrays.get(LABELS_KEY),
        str(path),
        None if names is None else dataset_classes(names.tolist(), str(path)),
    )


def _extracted(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return an array of an .npz file, mapped from a temporary copy.

    A compressed array cannot be read in place, and all of its images may not fit into memory. The
    copy is deleted here; its pages stay readable while the array is in use.
    """
    with tempfile.TemporaryDirectory(prefix="eyechart-", ignore_cleanup_errors=True) as folder:
        copied = Path(folder, "array.npy")
        with file.open(name) as packed, copied.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        return mapped_array(copied)


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
    if labels is None:
        labels = [None] * len(images)
    values = labels.tolist() if isinstance(labels, np.ndarray | Tensor) else list(labels)
    n_labels = len(values) if isinstance(values, list) else 1
    if not isinstance(values, list) or n_labels != len(images):
        raise UsageError(
            f"There must be one label for each image of {source}, got"
            f" {count_of(n_labels, 'label')} for {count_of(len(images), 'image')}."
        )
    return list_numbered(source, read, values, class_names)


EXPECTED = "the path of a folder or a list"


class ImageData(Protocol):
    """Images in memory: a dataset of (image, label) pairs, an array, or images with labels."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def find_listing(
    source: str | os.PathLike[str] | ImageData,
    leave_out: Path | None = None,
    *,
    download: bool = False,
) -> ImageListing:
    """Return the images of a source; nothing is decoded yet, except to find labels or sizes.

    Args:
        source: A path, `hf:NAME[:SPLIT]`, or images in memory: see `load_images`.
        leave_out: A folder inside `source` to skip, such as the output folder.
        download: Whether a dataset may be downloaded from the Hugging Face hub.

    Raises:
        UsageError: If there are no images, or the source is invalid.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(as_path(source, "images", EXPECTED))
        name = as_shown(path)
        if name.startswith(HUB):
            return list_hub(name, download=download)
        if is_url(name) and not path.exists():
            files = [RemoteFile(url) for url in expand_braces(name)]
            return _of_files(files, name) or _of_remote_folder(name)
        is_shards = path.suffix.lower() == TAR and not path.is_dir()
        paths = find_shards(path) if is_shards else [path]
        return _of_files(paths, name) or _of_folder(path, name, leave_out)
    if is_hf(source):
        return list_hf(source)
    if is_arrays(source):
        return list_arrays(source)
    if is_map_style(source):
        return list_map_style(source)
    raise UsageError(
        f"images must be {EXPECTED}, an array of images, (images, labels), or a dataset of"
        f" (image, label) pairs, got {short_repr(source)}."
    )


def source_name(source: str) -> str:
    """Return the name of a source without its path, which differs between machines.

    Example:
        >>> source_name("/data/imagenet/val/"), source_name("hf:owner/name:test")
        ('val', 'hf:owner/name:test')
    """
    return source if source.startswith(HUB) else Path(os.path.abspath(source)).name


def find_images(source: Path, leave_out: Path | None = None) -> list[ListedImage]:
    """Return the images at a path: a folder, a list of images, tar shards or an array."""
    return list(find_listing(source, leave_out).images)


def _of_files(files: Sequence[DataFile], name: str) -> ImageListing | None:
    """Return the images in files on disk or at a URL; None if this is a folder."""
    first = files[0]
    suffix = first.suffix.lower()
    if isinstance(first, Path) and first.is_dir():
        return None
    if suffix == TAR:
        return list_shards(files, name)
    if isinstance(first, Path) and not first.is_file():
        return None
    if suffix == PARQUET and image_column(first) is not None:
        return list_parquet(files, name)
    if isinstance(first, RemoteFile):
        if not is_remote_file(name):
            return None
        if suffix in MANIFESTS:
            return ImageListing(name, list_remote_manifest(first))
        kinds = "or a .tar file"
    else:
        if suffix in MANIFESTS:
            return ImageListing(name, list_manifest(first))
        if suffix in ARRAYS:
            return list_array_file(first)
        kinds = "a .tar file, or a .npz or .npy file"
    raise UsageError(
        f"{name} is not a list of images: give a folder, a .csv or .parquet file with the columns"
        f" path and label, {kinds}."
    )


def _of_folder(source: Path, name: str, leave_out: Path | None) -> ImageListing:
    if is_saved_dataset(source):
        return list_saved(source)
    shards, tables = ([*sorted(source.glob(f"*{suffix}"))] for suffix in (TAR, PARQUET))
    # An archive beside class folders is their original rather than more images.
    if (shards or tables) and not images_in(source, leave_out):
        return list_shards(shards, name) if shards else list_parquet(tables, name)
    notes = unread_notes(source, leave_out)
    return ImageListing(name, list_folder(source, leave_out), notes=notes)


def _of_remote_folder(url: str) -> ImageListing:
    images = list_remote_folder(url)
    if images:
        return ImageListing(url, images)
    shards, tables = (
        [file for file, _ in remote_files(url, (suffix,))] for suffix in (TAR, PARQUET)
    )
    if not shards and not tables:
        raise UsageError(f"No images in {url}: give a folder of images, {TAR} or {PARQUET} files.")
    return list_shards(shards, url) if shards else list_parquet(tables, url)


NAME = re.compile(r"imagenet_\d+_(\d+)\.jpg")
# Do not reword: stored in results, and compared when their images are shown again.
SOURCE = "20 demo images"


def demo_images() -> list[ListedImage]:
    """Return the ImageNet images that ship with foolbox, labeled with ImageNet class indices.

    Only the package's files are read; foolbox itself is not imported.
    """
    spec = find_spec("foolbox")
    if spec is None or spec.origin is None:
        raise UsageError(
            f"The demo images are not installed: {install_hint('demo')}, or give --images FOLDER."
        )
    folder = Path(spec.origin).parent / "data"
    matches = [(path, NAME.fullmatch(path.name)) for path in sorted(folder.glob("imagenet_*.jpg"))]
    return [ListedImage(path, path.name, match[1]) for path, match in matches if match]
