"""Hugging Face `datasets`: a Dataset in memory, one saved with save_to_disk, or one from the hub.

The package is imported only for these sources.
"""

import sys
import threading
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError, install_hint
from eyechart.core.phrases import plural
from eyechart.images.image_list import (
    CATEGORY_COLUMNS,
    LABEL_COLUMNS,
    ImageListing,
    ListedImage,
    checked_category,
    first_of,
)
from eyechart.images.labels.matching import dataset_classes, label_texts

HUB = "hf:"
PACKAGE = "datasets"
SAVED, SAVED_SPLITS = "state.json", "dataset_dict.json"
IMAGE_COLUMNS = ("image", "img")

Untyped = Any
"""Type of objects from the package `datasets`, which declares few types."""


def is_hf(source: object) -> bool:
    """Return whether this is a dataset of the package `datasets`, without importing the package."""
    package = sys.modules.get(PACKAGE)
    if package is None:
        return False
    kinds = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    return isinstance(source, tuple(getattr(package, kind) for kind in kinds))


def is_saved_dataset(folder: Path) -> bool:
    """Return whether `save_to_disk` wrote this folder."""
    if (folder / SAVED_SPLITS).is_file():
        return True
    return (folder / SAVED).is_file() and (folder / "dataset_info.json").is_file()


def list_saved(folder: Path) -> ImageListing:
    """Return the images of a folder that `save_to_disk` wrote."""
    package = _package(str(folder))
    try:
        dataset = package.load_from_disk(str(folder))
    except Exception as error:  # the package raises errors of many packages
        raise UsageError(f"Cannot read the dataset {folder}: {_reason(error)}.") from error
    if isinstance(dataset, package.DatasetDict):
        dataset = _only_split(dataset, f"{folder}/{{}}", str(folder))
    return list_hf(dataset, str(folder))


def list_hub(name: str, *, download: bool) -> ImageListing:
    """Return the images of `hf:NAME` or `hf:NAME:SPLIT`, a dataset on the Hugging Face hub.

    Raises:
        UsageError: If `download` is False, or the dataset cannot be downloaded.
    """
    if not download:
        raise UsageError(
            f"{name} is a dataset on the Hugging Face hub: add --download (Python: download=True)"
            " to download it, or give a folder that save_to_disk wrote."
        )
    package = _package(name)
    repository, _, split = name.removeprefix(HUB).partition(":")
    try:
        # Which splits there are is asked first: all of them may be hundreds of gigabytes.
        splits = [split] if split else package.get_dataset_split_names(repository)
        if len(splits) == 1:
            return list_hf(package.load_dataset(repository, split=splits[0]), name)
    except UsageError:
        raise
    except Exception as error:  # the package raises errors of many packages
        raise UsageError(f"Cannot download {name}: {_reason(error)}.") from error
    raise _several_splits(name, splits, f"{name}:{{}}")


def list_hf(dataset: Untyped, source: str | None = None) -> ImageListing:
    """Return the images of a `datasets.Dataset`.

    Images come from the only Image column, or from the one named `image` or `img`. Labels come
    from the column `label`, or else from the only ClassLabel column. Images are read from the
    dataset's files when they are needed.

    Raises:
        UsageError: If there is no image column, the label is ambiguous, or the dataset is a stream.
    """
    package = _package("a Hugging Face dataset")
    if isinstance(dataset, package.DatasetDict):
        dataset = _only_split(dataset, 'dataset["{}"]', "The dataset")
    if not isinstance(dataset, package.Dataset):
        raise UsageError(
            "images must be a datasets.Dataset, which can be read in any order, got"
            f" {type(dataset).__name__}: load it with streaming=False."
        )
    if source is None:
        source = f"datasets.Dataset of {len(dataset)} {plural(len(dataset), 'image')}"
    if not len(dataset):
        raise UsageError(f"The dataset {source} is empty: give at least one image.")
    features = dataset.features
    image = _image_column(features, package, source)
    label = _label_column(features, package, source)
    category = first_of(CATEGORY_COLUMNS, features)
    # Without a format and transforms, which would decode or change what is stored.
    plain = dataset.with_format(None)
    names = None
    if label is not None and isinstance(features[label], package.ClassLabel):
        names = dataset_classes(features[label].names, source)
    labels = [None] * len(plain) if label is None else plain[label]
    categories = [None] * len(plain) if category is None else plain[category]
    stored = plain.select_columns([image]).cast_column(image, package.Image(decode=False))
    read = partial(_read, stored, image, threading.Lock(), source)
    listed = [
        ListedImage(
            Path(f"{source}/{position}"),
            str(position),
            text,
            checked_category(place, f"{source}, row {position}"),
            content=partial(read, position),
        )
        for position, (text, place) in enumerate(
            zip(label_texts(labels, source, names), categories, strict=True)
        )
    ]
    return ImageListing(source, listed, names)


def _read(dataset: Untyped, column: str, lock: threading.Lock, source: str, position: int) -> bytes:
    """Return the encoded bytes of an image, from the dataset or from the file that it names."""
    with lock:
        stored = dataset[position][column]
    if stored is None:
        raise UsageError(f"Row {position} of {source} has no image.")
    encoded: bytes | None = stored["bytes"]
    if encoded is not None:
        return encoded
    try:
        return regular_file(Path(stored["path"])).read_bytes()
    except OSError as error:
        raise UsageError(f"Cannot read {stored['path']}: {error.strerror}.") from None


def _image_column(features: Untyped, package: Untyped, source: str) -> str:
    columns = [name for name, kind in features.items() if isinstance(kind, package.Image)]
    column = columns[0] if len(columns) == 1 else first_of(IMAGE_COLUMNS, columns)
    if column is None:
        has = f"has {', '.join(columns)}" if columns else f"has only {', '.join(features)}"
        raise UsageError(
            f"{source} must have one column of images (datasets.Image) or one named image, but"
            f" {has}: rename or cast the column."
        )
    return column


def _label_column(features: Untyped, package: Untyped, source: str) -> str | None:
    classes: list[str] = [
        name for name, kind in features.items() if isinstance(kind, package.ClassLabel)
    ]
    if LABEL_COLUMNS[0] not in features and len(classes) > 1:
        raise UsageError(
            f"{source} has several columns of classes ({', '.join(classes)}): rename the one to"
            f" score with dataset.rename_column('{classes[0]}', '{LABEL_COLUMNS[0]}')."
        )
    if LABEL_COLUMNS[0] in features or not classes:
        return first_of(LABEL_COLUMNS, features)
    return classes[0]


def _only_split(splits: Untyped, form: str, source: str) -> Untyped:
    if len(splits) != 1:
        raise _several_splits(source, list(splits), form)
    return next(iter(splits.values()))


def _several_splits(source: str, splits: list[str], form: str) -> UsageError:
    first = form.format(splits[0]) if splits else "one with images"
    return UsageError(f"{source} has the splits {', '.join(splits)}: give one, such as {first}.")


def _package(name: str) -> Untyped:
    try:
        return import_module(PACKAGE)
    except ImportError as error:
        raise UsageError(f"{name} needs {PACKAGE} ({error}): {install_hint('datasets')}.") from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
