"""Hugging Face `datasets` (in memory, saved with save_to_disk, or from the hub) and Parquet files.

The package is imported only for the former. Parquet files contain image bytes, as on the hub: rows
are read when they are needed, a few at a time. `image_list` reads files that list paths of images.
"""

import json
import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError, install_hint, reason_of
from eyechart.core.phrases import plural
from eyechart.core.storage.remote import DataFile
from eyechart.images.image_list import (
    CATEGORY_COLUMNS,
    LABEL_COLUMNS,
    ImageListing,
    first_of,
    list_numbered,
)
from eyechart.images.labels.matching import dataset_classes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    files = (SAVED, "dataset_info.json")
    return (folder / SAVED_SPLITS).is_file() or all((folder / name).is_file() for name in files)


def list_saved(folder: Path) -> ImageListing:
    """Return the images of a folder that `save_to_disk` wrote."""
    package = _package(str(folder))
    try:
        dataset = package.load_from_disk(str(folder))
    except Exception as error:  # the package raises errors of many packages
        raise UsageError(f"Cannot read the dataset {folder}: {reason_of(error)}.") from error
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
        raise UsageError(f"Cannot download {name}: {reason_of(error)}.") from error
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
    categories = None if category is None else plain[category]
    stored = plain.select_columns([image]).cast_column(image, package.Image(decode=False))
    read = partial(_read, stored, image, threading.Lock(), source)
    return list_numbered(source, read, labels, names, categories)


def _read(dataset: Untyped, column: str, lock: threading.Lock, source: str, position: int) -> bytes:
    """Return the encoded bytes of an image, from the dataset or from the file that it names."""
    with lock:
        stored = dataset[position][column]
    if stored is None:
        raise UsageError(f"Row {position} of {source} has no image.")
    if stored["bytes"] is not None:
        return cast(bytes, stored["bytes"])
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


PARQUET = ".parquet"
BYTES = "bytes"
BYTES_COLUMNS = (*IMAGE_COLUMNS, "jpg", "png", BYTES)

ROWS_AT_ONCE, BATCHES_KEPT = 16, 4
"""Number of rows that are read at once, and number of such batches that are kept: threads that
decode images ask for neighboring rows in any order."""

BUFFER = 1 << 20
"""Number of bytes of a column that are read from the file at once."""


@dataclass
class _Group:
    """The rows of a row group that is being read: its file and number, and the next row."""

    file: int
    number: int
    batches: "Iterator[pa.RecordBatch]"
    next_row: int


class RowReader:
    """Reads the image bytes of single rows of Parquet files; memory use is bounded.

    Rows within a row group can only be read in order. Rows that follow each other are therefore
    read once; a row before the last ones starts its row group again.

    Args:
        files: The files; rows are numbered through all of them.
        column: The column of images.
        starts: For each file, the numbers of the first rows of its row groups, and the number after
            its last row.
    """

    def __init__(
        self, files: Sequence[DataFile], column: str, starts: Sequence[Sequence[int]]
    ) -> None:
        self.files, self.column, self.starts = files, column, starts
        self._lock = threading.Lock()
        # two row groups: at the end of one, some threads ask for rows of the next already
        self._groups: deque[_Group] = deque(maxlen=2)
        # first row and content of the latest batches
        self._kept: deque[tuple[int, pa.Array]] = deque(maxlen=BATCHES_KEPT)

    def __reduce__(self) -> tuple[object, ...]:
        # for other processes, which open the files again
        return RowReader, (self.files, self.column, self.starts)

    def read(self, row: int) -> bytes:
        """Return the encoded image in a row.

        Raises:
            UsageError: The row has no image, or the file cannot be read.
        """
        file = bisect_right([starts[0] for starts in self.starts], row) - 1
        where = self.files[file]
        with self._lock, _reading(where):
            value = self._value(file, row)
        if isinstance(value, dict):
            value = value.get(BYTES)
        if not isinstance(value, bytes):
            raise UsageError(f"Row {row - self.starts[file][0]} of {where} has no image bytes.")
        return value

    def _value(self, file: int, row: int) -> object:
        while True:
            for first, values in self._kept:
                if first <= row < first + len(values):
                    return values[row - first].as_py()
            group = self._group(file, bisect_right(self.starts[file], row) - 1, row)
            batch = next(group.batches)
            self._kept.append((group.next_row, batch.column(0)))
            group.next_row += len(batch)

    def _group(self, file: int, number: int, row: int) -> _Group:
        """Return the row group, at this row or before it."""
        for group in self._groups:
            if (group.file, group.number) == (file, number) and group.next_row <= row:
                return group
        self._groups.append(self._start(file, number))
        return self._groups[-1]

    def _start(self, file: int, number: int) -> _Group:
        batches = open_parquet(self.files[file]).iter_batches(
            ROWS_AT_ONCE, row_groups=[number], columns=[self.column], use_threads=False
        )
        return _Group(file, number, batches, self.starts[file][number])


@contextmanager
def _reading(file: DataFile) -> Iterator[None]:
    """Turn the errors of a Parquet file into a UsageError that names it."""
    try:
        yield
    except UsageError:
        raise
    # pyarrow's errors are ValueErrors and OSErrors; a batch too few ends an iterator
    except (OSError, ValueError, StopIteration) as error:
        raise UsageError(f"Cannot read {file}: {reason_of(error, 'it has changed')}.") from None


def open_parquet(file: DataFile) -> "pq.ParquetFile":
    """Return a Parquet file whose columns are read in pieces rather than as a whole."""
    import pyarrow.parquet as pq

    with _reading(file):
        # pyarrow closes the files that it has opened itself
        opened = regular_file(file) if isinstance(file, Path) else file.open()
        return pq.ParquetFile(opened, pre_buffer=False, buffer_size=BUFFER)


def image_column(file: DataFile) -> str | None:
    """Return the column of a Parquet file with image bytes; None if there is none.

    It contains bytes, or records with the field `bytes` as Hugging Face's `datasets` writes them.
    Of several, the first of `BYTES_COLUMNS` is used.
    """
    import pyarrow as pa

    with open_parquet(file) as opened:
        schema = opened.schema_arrow
    columns = []
    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind) and kind.get_field_index(BYTES) >= 0:
            kind = kind.field(BYTES).type
        if kind in (pa.binary(), pa.large_binary()):
            columns.append(field.name)
    return columns[0] if len(columns) == 1 else first_of(BYTES_COLUMNS, columns)


def list_parquet(files: Sequence[DataFile], source: str) -> ImageListing:
    """Return the images in Parquet files; only labels are read now.

    Labels come from the column `label` (or `wnid`, `class`, `imagenet_index`). Images are named by
    their row, counted from 0 through all files.

    Raises:
        UsageError: A file cannot be read, has no column of image bytes, or is empty.
    """
    column = image_column(files[0])
    starts: list[list[int]] = []
    labels: list[object] = []
    categories: list[object] = []
    names: tuple[str, ...] | None = None
    for file in files:
        with open_parquet(file) as opened, _reading(file):
            present = opened.schema_arrow.names
            if column is None or column not in present:
                raise UsageError(
                    f"{file} must have a column of image bytes, such as {BYTES_COLUMNS[0]}; it has"
                    f" {', '.join(present)}."
                )
            groups = [
                opened.metadata.row_group(number).num_rows
                for number in range(opened.metadata.num_row_groups)
            ]
            starts.append(list(accumulate(groups, initial=len(labels))))
            label = first_of(LABEL_COLUMNS, present)
            labels += _column(opened, label)
            categories += _column(opened, first_of(CATEGORY_COLUMNS, present))
            names = names or _class_names(opened.schema_arrow.metadata, label, source)
    if not labels:
        raise UsageError(f"{source} has no rows: give at least one image.")
    reader = RowReader(files, column or "", starts)
    return list_numbered(source, reader.read, labels, names, categories)


def _column(file: "pq.ParquetFile", name: str | None) -> list[object]:
    """Return the values of a column, each None if there is no such column."""
    return [None] * file.metadata.num_rows if name is None else file.read([name])[name].to_pylist()


def _class_names(
    metadata: dict[bytes, bytes] | None, label: str | None, source: str
) -> tuple[str, ...] | None:
    """Return the names of the classes, which `datasets` stores in the file; None without them."""
    try:
        stored: Any = json.loads((metadata or {})[b"huggingface"])
        names = stored["info"]["features"][label]["names"]
    except (KeyError, ValueError, TypeError):
        return None
    return dataset_classes(names, source)
