"""CSV files that a spreadsheet can open without harm, whole or not there at all."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from eyechart.core.files import atomic_file

Cell = str | int | float | bool | None

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What makes a spreadsheet take a text for a formula."""

BREAKS = str.maketrans("\r\n\0", "   ")


def safe(cell: Cell) -> str:
    """Return the text of a cell: numbers as they are; texts in one line, formulas quoted."""
    if cell is None or cell != cell:  # not a number
        return ""
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, int | float):
        return str(cell)
    line = cell.translate(BREAKS)
    return f"'{line}" if cell.startswith(FORMULA) else line


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a table."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        table.writerows([safe(cell) for cell in row] for row in rows)
