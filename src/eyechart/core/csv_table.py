"""Read and write CSV tables; every error names the file and the row, and says what to do.

The meaning of the columns is defined by the package that reads the table.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import nan
from pathlib import Path

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file


class Dialect(csv.excel):
    """The CSV dialect of all tables that users provide."""

    # without it, a quote that is never closed makes the rest of the file one cell
    strict = True


@dataclass(frozen=True)
class CsvRow:
    """One row of a table: its cells by lower-case column name, the file and the row number."""

    path: Path
    number: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def __contains__(self, column: str) -> bool:
        return column in self.cells

    def rejection(self, problem: str) -> UsageError:
        """Return the error for a problem in this row, with the file and the row number."""
        return UsageError(f"{self.path}, row {self.number}: {problem}.")

    def share(self, column: str, unknown: bool = False, below: bool = False) -> float:
        """Return the number in a column, which must be in [0, 1].

        Args:
            column: the name of the column, in lower case.
            unknown: whether an empty cell is allowed and returned as NaN.
            below: whether numbers in [−1, 0) are allowed and returned as 0.
        """
        if unknown and not self[column]:
            return nan
        value = self._number(column)
        if not (-1 if below else 0) <= value <= 1:
            raise self.rejection(f"{column} must be a number from 0 to 1, got '{self[column]}'")
        return max(value, 0.0)

    def whole(self, column: str) -> int:
        """Return the non-negative integer in a column."""
        value = self._number(column)
        # infinity is not an integer
        if not (value >= 0 and value.is_integer()):
            raise self.rejection(f"{column} must be a whole number, got '{self[column]}'")
        return int(value)

    def _number(self, column: str) -> float:
        """Return the number in a column; NaN, which fails every comparison, for other text."""
        try:
            return float(self[column])
        except ValueError:
            return nan

    def filled(self, column: str) -> str:
        """Return the text in a column; raise if it is empty."""
        if not self[column]:
            raise self.rejection(f"{column} is empty")
        return self[column]


def read_rows(
    path: Path,
    columns: Sequence[str] = (),
    *,
    is_ragged: bool = False,
) -> Iterator[CsvRow]:
    """Yield the rows of a CSV file (.csv or .csv.gz) that has at least these columns.

    Args:
        path: the file, in UTF-8.
        columns: the names of the required columns, in lower case.
        is_ragged: whether rows may be shorter or longer than the header: missing cells are then
            empty, and additional ones are ignored.

    Yields:
        The rows, numbered as in an editor (the header is row 1).

    Raises:
        UsageError: the file cannot be read, lacks a column, or has no rows.
    """
    lines = _lines(path)
    head = [name.lower() for name in next(lines, [])]
    missing = [name for name in columns if name not in head]
    if missing:
        raise UsageError(f"{path} lacks the column {missing[0]}: it needs {', '.join(columns)}.")
    count = 0
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        if is_ragged:
            line = [*line[: len(head)], *[""] * (len(head) - len(line))]
        if len(line) != len(head):
            raise UsageError(
                f"{path}, row {number}: {len(line)} cells instead of {len(head)}; fix the row or"
                " remove it."
            )
        count += 1
        yield CsvRow(path, number, dict(zip(head, line, strict=True)))
    if not count:
        raise UsageError(f"{path} has no rows.")


def column_names(path: Path) -> set[str]:
    """Return the names of a CSV file's columns, in lower case."""
    return {name.lower() for name in next(_lines(path), [])}


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the stripped cells of each line of a CSV file, the header first."""
    # newline="" leaves line breaks inside quoted cells to the csv module
    lines = csv.reader(io.StringIO(read_text(path), newline=""), Dialect)
    try:
        for line in lines:
            yield [cell.strip() for cell in line]
    except csv.Error as error:
        raise UsageError(
            f"{path}, row {lines.line_num}: {error}; the file is not valid CSV."
        ) from None


def read_text(path: Path) -> str:
    """Return the text of a file, decompressed if it is gzip; raise a UsageError if unreadable."""
    try:
        content = regular_file(path).read_bytes()
        # the magic number of gzip: after a download the suffix of the name is not reliable
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        # spreadsheets write a byte order mark, which would become part of the first column's name
        return content.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UsageError(f"{path} is damaged or truncated: decompress it again.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text: save it as CSV again.") from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None


def packaged_rows(package: str, *path: str) -> list[dict[str, str]]:
    """Return the rows of a table shipped with a package; comment lines (#) are skipped."""
    text = files(package).joinpath(*path).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return list(csv.DictReader(lines))


def read_cells(path: Path, content: str) -> list[list[str]]:
    """Return the stripped cells of all non-empty rows; `content` names the table in errors."""
    try:
        with regular_file(path).open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file, Dialect)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a CSV file in UTF-8"
        raise UsageError(f"{path} cannot be read as {content}: {reason}.") from None
    return [row for row in rows if any(row)]


def csv_text(lines: Iterable[Mapping[str, object]], columns: Sequence[str] = ()) -> str:
    """Return mappings with identical keys as CSV text with a header; None becomes an empty cell.

    `columns`: the header of a table that may have no lines.

    Example:
        >>> print(csv_text([{"model": "a", "mce": 71.2}, {"model": "b", "mce": None}]), end="")
        model,mce
        a,71.2
        b,
    """
    rows = list(lines)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_cells(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows to a CSV file atomically."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def check_width(path: Path, row: Sequence[str], width: int) -> None:
    """Raise a UsageError if a row does not have `width` cells."""
    if len(row) != width:
        raise UsageError(
            f"{path} must have {width} cells in every row, got {len(row)} in the row of {row[0]}."
        )


def first_duplicate(names: Sequence[str]) -> str | None:
    """Return the first name that occurs a second time, or None if all names differ.

    Example:
        >>> first_duplicate(["fog", "snow", "fog"])
        'fog'
        >>> first_duplicate(["fog", "snow"]) is None
        True
    """
    return next((name for index, name in enumerate(names) if name in names[:index]), None)
