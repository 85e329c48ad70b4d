"""Reading CSV tables of others: every refusal names the file, the row and what to do."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError


@dataclass(frozen=True)
class Row:
    """One row of a table by the names of its columns (small letters), and where it stands."""

    path: Path
    number: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def __contains__(self, column: str) -> bool:
        return column in self.cells

    def refusal(self, what: str) -> UsageError:
        """Return the error that says what is wrong with this row."""
        return UsageError(f"{self.path}, row {self.number}: {what}.")

    def share(self, column: str, unknown: bool = False, below: bool = False) -> float:
        """Return the number in 0…1 of a column; NaN for an empty cell if that may be `unknown`.

        `below`: numbers from −1 to 0 are taken for 0.
        """
        text = self[column]
        if unknown and not text:
            return float("nan")
        try:
            value = float(text)
        except ValueError:
            value = -2.0
        if below and -1 <= value < 0:
            value = 0.0
        if not 0 <= value <= 1:
            raise self.refusal(f"{column} must be a number from 0 to 1, got '{text}'")
        return value

    def whole(self, column: str) -> int:
        """Return the whole number, 0 or more, of a column."""
        text = self[column]
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not (value >= 0 and value.is_integer()):
            raise self.refusal(f"{column} must be a whole number, got '{text}'")
        return int(value)

    def filled(self, column: str) -> str:
        """Return the text of a column that may not be empty."""
        if not self[column]:
            raise self.refusal(f"{column} is empty")
        return self[column]


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a CSV file (.csv or .csv.gz) that has at least these columns."""
    lines = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    count = 0
    try:
        head = [name.strip().lower() for name in next(lines, [])]
        missing = [name for name in columns if name not in head]
        if missing:
            raise UsageError(
                f"{path} lacks the column {missing[0]}: it needs {', '.join(columns)}."
            )
        for number, line in enumerate(lines, 2):
            if not line:
                continue
            if len(line) != len(head):
                raise UsageError(
                    f"{path}, row {number}: {len(line)} cells instead of {len(head)}; mend the row"
                    " or remove it."
                )
            count += 1
            cells = (cell.strip() for cell in line)
            yield Row(path, number, dict(zip(head, cells, strict=True)))
    except csv.Error as error:
        raise UsageError(f"{path}, row {lines.line_num}: {error}; it is no CSV.") from None
    if not count:
        raise UsageError(f"{path} has no rows.")


def head_of(path: Path) -> set[str]:
    """Return the names of a CSV file's columns, in small letters."""
    first = next(csv.reader(io.StringIO(read_text(path), newline="")), [])
    return {name.strip().lower() for name in first}


def read_text(path: Path) -> str:
    """Return the text of a file, unpacked if it is gzip; a UsageError where it has none."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UsageError(f"{path} is damaged or cut off: unpack it again.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8: save it as CSV again.") from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}.") from None
