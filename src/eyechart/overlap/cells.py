"""CSV files as rows of cells, with a sentence for what cannot be read."""

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file


def read_cells(path: Path, what: str) -> list[list[str]]:
    """Return the cells of all rows that are not empty, without the spaces around them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a CSV file in UTF-8"
        raise UsageError(f"{path} cannot be read as {what}: {why}.") from None
    return [row for row in rows if any(row)]


def write_cells(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows; the file appears whole or not at all."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        with atomic_file(path) as temporary:
            temporary.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        what = error.strerror or os.strerror(error.errno or 0)
        raise UsageError(f"Cannot write {path}: {what}.") from None


def check_width(path: Path, row: Sequence[str], width: int) -> None:
    """Refuse a row that is not as long as the first one."""
    if len(row) != width:
        raise UsageError(
            f"{path} must have {width} cells in every row, got {len(row)} in that of {row[0]}."
        )


def first_double(names: Sequence[str]) -> str | None:
    """Return the first name that is there twice."""
    return next((name for place, name in enumerate(names) if name in names[:place]), None)
