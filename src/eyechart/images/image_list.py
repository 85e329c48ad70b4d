"""Labeled images: class folders, or a CSV or Parquet file that lists them."""

import hashlib
import io
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path, PurePath

from PIL import Image
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.csv_table import CsvRow, read_rows
from eyechart.core.errors import UsageError, reason_of
from eyechart.core.registry import unknown_name
from eyechart.core.storage.remote import RemoteFile, as_shown, is_url, remote_files
from eyechart.images.identity import file_digest, pixel_digest
from eyechart.images.image_files import (
    DECODING,
    IMAGE_SUFFIXES,
    Window,
    decode_image,
    eight_bit,
    find_image_files,
    image_size,
)
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.images.labels.matching import label_texts
from eyechart.images.stimulus import Stimulus

Content = Callable[[], bytes | Image.Image]
"""Function that returns the encoded bytes or the pixels of an image without a separate file."""

MANIFESTS = (".csv", ".parquet")
# In order of precedence: of several columns, the first one listed here is used.
PATH_COLUMNS = ("path", "file", "filename")
LABEL_COLUMNS = ("label", "wnid", "class", "imagenet_index")
CATEGORY_COLUMNS = ("category16", "category")
MISSING = ("", "-1")


@dataclass(frozen=True)
class ListedImage:
    """An image file, its name in the dataset, and its label and category (None if unknown).

    Labels are strings as the dataset spells them: a folder name, a WordNet id or a number.
    `category` is one of the 16 everyday categories. `style` (how the object is depicted) and
    `subclass` (a finer class within the label) are None unless the dataset states them. An image
    without a separate file is read by calling `content`, and its `path` only says where it is.
    """

    path: Path
    name: str
    label: str | None = None
    category: str | None = None
    style: str | None = None
    subclass: str | None = None
    content: Content | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        """Path or URL of the image, for messages."""
        return as_shown(self.path)

    def read(self, window: Window | None = None) -> tuple[Image.Image, str]:
        """Return the decoded image, in mode L or RGB, and its digest.

        The digest of an encoded image, in a file or elsewhere, is the SHA-256 of its bytes. For
        any other image, it is computed by `pixel_digest`.
        """
        loaded = self._load()
        return self._decode(loaded, window), _digest_of(loaded)

    def stimulus(self, how: Stimulus) -> tuple[Tensor, str, tuple[int, int]]:
        """Return the stimulus, uint8 (3, H, W), the digest, and the width and height of the image.

        Threads that decode large images wait for each other, so that memory use is bounded.
        """
        loaded = self._load()
        with DECODING.hold(prod(_size_of(loaded) or (0, 0))):
            decoded = self._decode(loaded, how.window)
            return how(decoded), _digest_of(loaded), decoded.size

    def _load(self) -> bytes | Image.Image:
        if self.content is not None:
            return self.content()
        try:
            return regular_file(self.path).read_bytes()
        except OSError as error:
            raise UsageError(f"Cannot read {self.path}: {error.strerror}.") from None

    def _decode(self, loaded: bytes | Image.Image, window: Window | None) -> Image.Image:
        if isinstance(loaded, bytes):
            return decode_image(io.BytesIO(loaded), self.where, window)
        return eight_bit(loaded, self.where, window)

    def digest(self) -> str:
        """Return the digest alone; nothing is decoded."""
        return file_digest(self.path) if self.content is None else _digest_of(self._load())

    def size(self) -> tuple[int, int] | None:
        """Return height and width in px, or None if the image cannot be read."""
        if self.content is None:
            return image_size(self.path)
        try:
            return _size_of(self.content())
        except UsageError:
            return None


def _digest_of(loaded: bytes | Image.Image) -> str:
    if isinstance(loaded, bytes):
        return hashlib.sha256(loaded).hexdigest()
    return pixel_digest(loaded)


def _size_of(loaded: bytes | Image.Image) -> tuple[int, int] | None:
    if isinstance(loaded, bytes):
        return image_size(io.BytesIO(loaded))
    return loaded.height, loaded.width


@dataclass(frozen=True)
class ImageListing:
    """The images of a source before any of them is decoded.

    Attributes:
        source: Name of the source, for messages and results.
        images: The images in order.
        class_names: The classes in the order of their numbers; None if they have no numbers.
        notes: Sentences for the reader of the results.
    """

    source: str
    images: Sequence[ListedImage]
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def printable(name: str) -> str:
    """Return a file name as valid text, with undecodable bytes as backslash escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def list_folder(source: Path, leave_out: Path | None = None) -> list[ListedImage]:
    """Return the images in a folder.

    The name of a first-level subfolder is the label of its images, and the name of a second-level
    subfolder is their subclass. Images directly in the folder have no label.
    """
    return [_in_folder(file.path, file.relative) for file in find_image_files([source], leave_out)]


def list_remote_folder(url: str) -> list[ListedImage]:
    """Return the images below a URL, labeled as those in a folder; the list may be empty."""
    return [
        _in_folder(Path(file.url), relative, file.read)
        for file, relative in remote_files(url, IMAGE_SUFFIXES)
    ]


def _in_folder(path: Path, relative: PurePath, content: Content | None = None) -> ListedImage:
    # The two Nones pad the path, so that images in shallow folders get no label or subclass.
    label, subclass, *_ = (*map(printable, relative.parts[:-1]), None, None)
    name = printable(relative.as_posix())
    return ListedImage(path, name, label, subclass=subclass, content=content)


def list_remote_manifest(file: RemoteFile) -> list[ListedImage]:
    """Return the images that a CSV or Parquet file at a URL lists; their paths are relative to it.

    Only the list itself is downloaded now.
    """
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        local = Path(folder, file.name)
        local.write_bytes(file.read())
        listed = list_manifest(local)
    folder_url = file.url.rpartition("/")[0]
    # a path in the list may itself be a URL
    urls = [image.name if is_url(image.name) else f"{folder_url}/{image.name}" for image in listed]
    return [
        replace(image, path=Path(url), content=RemoteFile(url).read)
        for image, url in zip(listed, urls, strict=True)
    ]


def list_manifest(source: Path) -> list[ListedImage]:
    """Return the images that a CSV or Parquet file lists."""
    rows = _read_manifest(source)
    if not rows:
        raise UsageError(f"{source} lists no images.")
    columns = list(rows[0].cells)
    path = first_of(PATH_COLUMNS, columns)
    if path is None:
        raise UsageError(f"{source} must have a column named path; it has {', '.join(columns)}.")
    label, category = first_of(LABEL_COLUMNS, columns), first_of(CATEGORY_COLUMNS, columns)
    images = []
    rows_by_name: dict[str, int] = {}
    for row in rows:
        name, number = row[path], row.number
        # Names identify images in results, so each may occur only once.
        first = rows_by_name.setdefault(name, number)
        if first != number:
            raise UsageError(f"{source} lists {name} twice, in rows {first} and {number}.")
        if not name:
            raise UsageError(f"Row {number} of {source} names no image: fill in its {path}.")
        # imagenet_index −1 marks a WordNet id that is not one of ImageNet's 1,000 classes.
        has_label = "imagenet_index" not in row or row["imagenet_index"] not in MISSING
        images.append(
            ListedImage(
                source.parent / name,
                printable(name),
                _value(row, label) if has_label else None,
                checked_category(_value(row, category), f"{row.path}, row {row.number}"),
                _value(row, "style"),
                _value(row, "subclass"),
            )
        )
    return images


def checked_category(name: str | None, where: str) -> str | None:
    """Return the name of an everyday category; raise a UsageError if it is not one of the 16."""
    if name is not None and name not in CATEGORIES:
        raise UsageError(f"{where}: {unknown_name('category', name, CATEGORIES)}")
    return name


def _read_manifest(source: Path) -> list[CsvRow]:
    if source.suffix.lower() == ".csv":
        return list(read_rows(source, is_ragged=True))
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(regular_file(source)).to_pylist()
    except OSError as error:
        raise UsageError(
            f"Cannot read {source}: {error.strerror or 'not a Parquet file'}."
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{source} is not a well-formed list of images: {reason_of(error)}."
        ) from None
    # Normalized like the cells of a CSV file, where the first row after the header is row 2.
    return [
        CsvRow(
            source,
            number,
            {
                name.strip().lower(): "" if value is None else str(value).strip()
                for name, value in row.items()
            },
        )
        for number, row in enumerate(table, start=2)
    ]


def first_of(wanted: Sequence[str], columns: Collection[str]) -> str | None:
    """Return the first of the wanted columns that exists, or None."""
    return next((name for name in wanted if name in columns), None)


def _value(row: CsvRow, column: str | None) -> str | None:
    value = "" if column is None else row.cells.get(column, "")
    return None if value in MISSING else value


def list_numbered(
    source: str,
    read: Callable[[int], bytes | Image.Image],
    labels: Iterable[object],
    class_names: tuple[str, ...] | None = None,
    categories: Iterable[object] | None = None,
) -> ImageListing:
    """Return the images of a dataset whose images have numbers instead of names.

    Args:
        source: Name of the dataset, for messages and results.
        read: Returns the image with a number, encoded or decoded.
        labels: The label of each image as the dataset stores it; see `label_texts`.
        class_names: The classes in the order of their numbers.
        categories: The everyday category of each image, if the dataset declares it.

    Raises:
        UsageError: If a label or a category is invalid.
    """
    texts = label_texts(labels, as_shown(source), class_names)
    stated = [None] * len(texts) if categories is None else categories
    images = [
        ListedImage(
            Path(f"{source}/{number}"),
            str(number),
            text,
            checked_category(
                None if category is None else str(category), f"{source}, row {number}"
            ),
            content=partial(read, number),
        )
        for number, (text, category) in enumerate(zip(texts, stated, strict=True))
    ]
    return ImageListing(source, images, class_names)
