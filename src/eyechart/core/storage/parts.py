"""A table that grows on disk: a folder of small Parquet files, each written atomically.

A killed run loses only the rows that were not yet written, and continues with these when resumed.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError, reason_of
from eyechart.core.parallel import on_all_cores
from eyechart.core.phrases import count_of
from eyechart.core.storage.files import atomic_file, remove_leftovers

ROW = "row"
"""The column with the row numbers."""

BETWEEN = "--"
"""The separator between the name of a part file and its number."""

# seven digits or more: `write` pads to seven, and the ranges of later writers need more
NUMBERED = re.compile(rf"(.+){BETWEEN}(\d{{7,}})")
"""Pattern of a part file's name without its suffix: a table's name and a part number."""

PER_WRITER = 10_000_000
"""Size of the range of part numbers reserved for each writer, so that no two names collide."""


class PartFiles:
    """The tables in a folder, each stored in part files that are finally merged into one file.

    Part files are called `NAME--NUMBER.parquet`, and the merged file is called `NAME.parquet`.
    A row may be in a part file and in the merged file if the run was killed while the parts were
    merged.

    Args:
        folder: the folder, which must exist to be written to.
        names: the names of the tables in the folder. Other Parquet files, such as copies made by
            file synchronization, are strays and are ignored. Without `names`, every file
            belongs to the table that its name contains.
        writer: a number that differs between processes that write at the same time.
    """

    def __init__(self, folder: Path, names: Iterable[str] | None = None, writer: int = 0) -> None:
        self.folder = folder
        self.number = writer * PER_WRITER
        self._last = self.number + PER_WRITER
        self._known = None if names is None else {file_name(name) for name in names}

    def done(self) -> NDArray[np.int64]:
        """Return the distinct row numbers on disk; remove temporary files of killed runs."""
        remove_leftovers([self.folder])
        return self.rows()

    def rows(self) -> NDArray[np.int64]:
        """Return the distinct row numbers on disk, while others may be writing."""
        numbers = [np.empty(0, dtype=np.int64)]
        for path, _, number in self._files():
            numbers.append(read_parquet(path, [ROW])[ROW].to_numpy())
            # new parts are numbered after those of this writer; other writers' ranges stay theirs
            if number <= self._last:
                self.number = max(self.number, number)
        return np.unique(np.concatenate(numbers))

    def names(self) -> list[str]:
        """Return the names of the tables that have rows."""
        return sorted({name for _, name, _ in self._files()})

    def notes(self) -> list[str]:
        """Return a list with one warning if there are strays, otherwise an empty list."""
        ours = {path for path, _, _ in self._files()}
        strays = sorted({*self.folder.glob("*.parquet")} - ours)
        if not strays:
            return []
        return [
            f"Ignored {count_of(len(strays), 'Parquet file')} not from this run, such as"
            f" {strays[0]}: delete such files, or move them to another folder."
        ]

    def _files(self) -> Iterator[tuple[Path, str, int]]:
        """Yield each file with its table name and its part number, which is 0 for a merged file."""
        for path in self.folder.glob("*.parquet"):
            part = NUMBERED.fullmatch(path.stem)
            name, number = (part[1], int(part[2])) if part else (path.stem, 0)
            if self._known is None or name in self._known:
                yield path, name, number

    def _parts(self, name: str) -> list[Path]:
        """Return the part files of a table, in the order in which they were written."""
        stem = file_name(name)
        return sorted(
            path for path, part_name, number in self._files() if part_name == stem and number
        )

    def write(self, name: str, table: pa.Table) -> None:
        """Add rows to the table with this name; they are on disk when this function returns."""
        # numbers of existing files are skipped, also if `done` was not called before
        while True:
            self.number += 1
            path = self.folder / f"{file_name(name)}{BETWEEN}{self.number:07d}.parquet"
            if not path.exists():
                break
        write_parquet(table, path)

    def read(
        self, name: str, columns: list[str] | None = None, only: tuple[str, str] | None = None
    ) -> pa.Table:
        """Return the rows of a table in row order.

        Args:
            name: the table's name, as given to `write`.
            columns: the columns to read; all by default.
            only: a column and a value; rows with a different value are skipped.
        """
        stem = file_name(name)
        merged = self.folder / f"{stem}.parquet"
        paths = [*([merged] if merged.exists() else []), *self._parts(name)]
        if not paths:
            raise UsageError(f"{self.folder} has no rows of {name}.")
        tables = [read_parquet(path, columns) for path in paths]
        table = pa.concat_tables(tables)
        if len(tables) > 1:
            # a run killed during `merge` leaves rows in the merged file and in parts: keep the
            # first
            file = np.repeat(np.arange(len(tables)), [len(part) for part in tables])
            _, first, row = np.unique(table[ROW].to_numpy(), return_index=True, return_inverse=True)
            is_first = file == file[first][row]
            if not is_first.all():
                table = table.filter(pa.array(is_first))
        if only is not None:
            is_wanted = pc.equal(table[only[0]], only[1])
            # most runs have one model: nothing to leave out, and no reason to copy the table
            if not pc.all(is_wanted, min_count=0).as_py():
                table = table.filter(is_wanted)
        rows = table[ROW].to_numpy()
        # a merged file is in order already
        return table if (rows[1:] > rows[:-1]).all() else table.sort_by(ROW)

    def is_merged(self, name: str) -> bool:
        """Return whether all parts of a table are merged into one file."""
        return (self.folder / f"{file_name(name)}.parquet").exists() and not self._parts(name)

    def drop(self, name: str) -> None:
        """Remove all rows of a table."""
        for path in (*self._parts(name), self.folder / f"{file_name(name)}.parquet"):
            path.unlink(missing_ok=True)

    def merge(self) -> None:
        """Merge the parts of each table into one file."""
        on_all_cores(self._merge, self.names())

    def _merge(self, name: str) -> None:
        parts = self._parts(name)
        if parts:
            write_parquet(self.read(name), self.folder / f"{name}.parquet")
            # only now: if the run is killed before, the parts are still complete
            for path in parts:
                path.unlink()


def file_name(name: str) -> str:
    """Return a corruption's name as a file name ("vcr/frost" → "vcr-frost")."""
    return name.replace("/", "-")


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return a table read from a Parquet file; raise a UsageError if it cannot be read."""
    try:
        # an open file, since resolving a path's file system takes longer than reading a small part
        with pa.OSFile(os.fspath(regular_file(path))) as source, pq.ParquetFile(source) as file:
            missing = set(columns or ()) - set(file.schema_arrow.names)
            if missing:
                raise UsageError(f"{path} has no column {missing.pop()}: it is a different table.")
            return file.read(columns)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise UsageError(
            f"Cannot read {path}: {reason_of(error)}; if the file is from a stopped run, delete it"
            " and run again."
        ) from None


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table atomically and flush it to disk."""
    try:
        with atomic_file(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
            with temporary.open("rb") as file:
                # on disk before it is renamed, so that a power failure leaves no empty file
                os.fsync(file.fileno())
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"Cannot write {path}: {reason}; finished work is kept: free disk space and resume."
        ) from None


def read_header(path: Path) -> Mapping[str, str]:
    """Return the key-value metadata of a Parquet file."""
    try:
        stored = pq.read_metadata(regular_file(path)).metadata or {}
    except FileNotFoundError:
        raise UsageError(f"No such file: {path}.") from None
    except UsageError:
        raise
    except (OSError, pa.ArrowException):
        raise UsageError(f"{path} is not a Parquet file, or is damaged.") from None
    return {key.decode(): value.decode() for key, value in stored.items() if key != b"ARROW:schema"}
