"""Parquet files with image bytes: rows are read when they are needed, a few at a time.

`image_list` reads Parquet files that list paths of images.
"""

import json
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.remote import DataFile, as_shown
from eyechart.images.image_list import (
    CATEGORY_COLUMNS,
    LABEL_COLUMNS,
    ImageListing,
    ListedImage,
    checked_category,
    first_of,
)
from eyechart.images.labels.matching import dataset_classes, label_texts

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

PARQUET = ".parquet"
IMAGE_COLUMNS = ("image", "img", "jpg", "png", "bytes")
BYTES = "bytes"

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
        reason = " ".join(str(error).split()).rstrip(".") or "it has changed"
        raise UsageError(f"Cannot read {file}: {reason}.") from None


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
    Of several, the first of `IMAGE_COLUMNS` is used.
    """
    import pyarrow as pa

    with open_parquet(file) as opened:
        schema = opened.schema_arrow
    columns = []
    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind) and kind.get_field_index(BYTES) >= 0:
            kind = kind.field(BYTES).type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            columns.append(field.name)
    return columns[0] if len(columns) == 1 else first_of(IMAGE_COLUMNS, columns)


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
    n_rows = 0
    for file in files:
        with open_parquet(file) as opened, _reading(file):
            present = opened.schema_arrow.names
            if column is None or column not in present:
                raise UsageError(
                    f"{file} must have a column of image bytes, such as {IMAGE_COLUMNS[0]}; it has"
                    f" {', '.join(present)}."
                )
            label, category = first_of(LABEL_COLUMNS, present), first_of(CATEGORY_COLUMNS, present)
            wanted = [name for name in (label, category) if name is not None]
            table = opened.read(wanted) if wanted else None
            count = opened.metadata.num_rows
            groups = [
                opened.metadata.row_group(number).num_rows
                for number in range(opened.metadata.num_row_groups)
            ]
            names = names or _class_names(opened.schema_arrow.metadata, label, source)
        empty = [None] * count
        labels += empty if table is None or label is None else table[label].to_pylist()
        categories += empty if table is None or category is None else table[category].to_pylist()
        starts.append([n_rows + sum(groups[:number]) for number in range(len(groups) + 1)])
        n_rows += count
    if not n_rows:
        raise UsageError(f"{source} has no rows: give at least one image.")
    reader = RowReader(files, column or "", starts)
    listed = [
        ListedImage(
            Path(f"{source}/{row}"),
            str(row),
            text,
            checked_category(None if kind is None else str(kind), f"{source}, row {row}"),
            content=partial(reader.read, row),
        )
        for row, (text, kind) in enumerate(
            zip(label_texts(labels, as_shown(source), names), categories, strict=True)
        )
    ]
    return ImageListing(source, listed, names)


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
