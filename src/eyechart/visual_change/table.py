"""The table of measured pairs: a CSV file from which an interrupted run can resume."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.core.version import __version__


@dataclass(frozen=True)
class Row:
    """The row of one pair of images.

    It contains Δv, VIF, the ruler's raw value, the clean image's bits per coefficient, the number
    of image scales, flags, how the pair was measured, and digests of both files. Values that are
    NaN (Δv if not measurable, VIF of other rulers) are empty in the file.
    """

    name: str
    delta_v: float
    vif: float
    raw: float
    information: float
    scales: int
    measurable: bool
    ill_conditioned: bool
    ruler: str
    dtype: str
    clean_digest: str
    corrupted_digest: str
    eyechart: str = __version__

    def is_of(self, clean: str, corrupted: str, ruler: str, dtype: str) -> bool:
        """Return whether this version measured the row from these files with these settings."""
        measured = self.clean_digest, self.corrupted_digest, self.ruler, self.dtype
        return measured == (clean, corrupted, ruler, dtype) and self.eyechart == __version__


COLUMNS = [field.name for field in fields(Row)]


def read_table(path: Path, names: Iterable[str]) -> dict[str, Row]:
    """Return the rows of an earlier run by name, or an empty dict if there is no file.

    A truncated last line is ignored.

    Raises:
        UsageError: the file was not written by this command, or has rows for images not in `names`.
    """
    if not path.exists():
        return {}
    try:
        # file names need not be valid UTF-8
        text = _whole_lines(path).decode("utf-8", "surrogateescape")
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, csv.Error):
        lines = [[]]
    if lines and lines[0] != COLUMNS:
        raise UsageError(
            f"{path} already exists and is not from this command and version: rename it."
        )
    # a line that cannot be parsed is measured again
    rows = {row.name: row for line in lines[1:] if (row := _parse(line)) is not None}
    other_names = rows.keys() - set(names)
    if other_names:
        raise UsageError(
            f"{path} has rows for other images, such as {min(other_names)}: choose another file."
        )
    return rows


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Row], None]]:
    """Yield a function that appends a row to the file; the row is on disk when it returns.

    The file is not changed before the first row.
    """
    file: TextIO | None = None

    def append(row: Row) -> None:
        nonlocal file
        with _sentences(path):
            if file is None:
                file = _opened_after(path, _whole_lines(path) if path.exists() else b"")
            _writer(file).writerow(_cells(row))
            # each row is written immediately, so that a killed run loses none
            file.flush()

    try:
        yield append
    finally:
        if file is not None:
            file.close()


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write the whole file atomically."""
    with (
        _sentences(path),
        atomic_file(path) as temporary,
        _opened_after(temporary, b"") as file,
    ):
        _writer(file).writerows(map(_cells, rows))


def _opened_after(path: Path, kept: bytes) -> TextIO:
    """Return the file opened for appending after the bytes to keep, or after a new header."""
    # a killed run may have left half a line behind
    if path.exists():
        os.truncate(path, len(kept))
    file = path.open("a", newline="", encoding="utf-8", errors="surrogateescape")
    if not kept:
        _writer(file).writerow(COLUMNS)
    return file


def _whole_lines(path: Path) -> bytes:
    content = regular_file(path).read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _writer(file: TextIO) -> Any:
    return csv.writer(file, lineterminator="\n")


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None


def _cells(row: Row) -> list[object]:
    # NaN is the only value that differs from itself
    return ["" if value != value else value for value in asdict(row).values()]


def _parse(line: list[str]) -> Row | None:
    if len(line) != len(COLUMNS):
        return None
    cells = dict(zip(COLUMNS, line, strict=True))
    try:
        return Row(
            cells["name"],
            # NaN is written as an empty cell
            float(cells["delta_v"] or "nan"),
            float(cells["vif"] or "nan"),
            float(cells["raw"] or "nan"),
            float(cells["information"] or "nan"),
            int(cells["scales"]),
            # flags are written by `str`, and `bool("False")` would be true
            cells["measurable"] == "True",
            cells["ill_conditioned"] == "True",
            # from `ruler` on, all columns are text
            *(cells[name] for name in COLUMNS[8:]),
        )
    except ValueError:
        return None
