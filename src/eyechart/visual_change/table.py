"""The table of measured pairs as a CSV file that a stopped run can go on with."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Protocol

from eyechart.core.errors import UsageError
from eyechart.images.files import atomic_file


@dataclass(frozen=True)
class Row:
    """One pair of pictures.

    Δv (empty where not measurable) and VIF; bits per coefficient of the clean picture; scales of
    the pyramid; flags; how it was measured; digests of both files.
    """

    name: str
    delta_v: float
    vif: float
    information: float
    scales: int
    measurable: bool
    ill_conditioned: bool
    definition: str
    dtype: str
    clean_digest: str
    corrupted_digest: str

    def is_of(self, clean: str, corrupted: str, definition: str, dtype: str) -> bool:
        """Whether the row was measured from files of these digests, in this way."""
        own = self.clean_digest, self.corrupted_digest, self.definition, self.dtype
        return own == (clean, corrupted, definition, dtype)


COLUMNS = [each.name for each in fields(Row)]


class Append(Protocol):
    """Adds a row to the file."""

    def __call__(self, row: Row) -> None:
        """Write the row; it is on disk when this returns."""


def read_table(path: Path, names: Iterable[str]) -> dict[str, Row]:
    """Return the rows of an earlier run by name, or none if there is no file.

    A file of another kind, or with rows for other pictures than `names`, is refused. A last line
    that was cut off is left out.
    """
    if not path.exists():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        lines = [[]]
    if lines and lines[0] != COLUMNS:
        raise UsageError(f"{path} is there already and is no table of this command: rename it.")
    rows = {row.name: row for line in lines[1:] if (row := _parse(line)) is not None}
    others = rows.keys() - set(names)
    if others:
        raise UsageError(
            f"{path} holds rows of other pictures, such as {min(others)}: choose another file."
        )
    return rows


@contextmanager
def appending(path: Path, rows: Sequence[Row]) -> Iterator[Append]:
    """Write the rows, and give a function that adds more, one at a time."""
    write_table(path, rows)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)

        def append(row: Row) -> None:
            writer.writerow(_cells(row))
            file.flush()

        yield append


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write the whole file at once; it appears whole or not at all."""
    with (
        atomic_file(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(map(_cells, rows))


def _cells(row: Row) -> list[object]:
    cells = asdict(row)
    if not row.measurable:
        cells["delta_v"] = ""
    return list(cells.values())


def _parse(line: list[str]) -> Row | None:
    if len(line) != len(COLUMNS):
        return None
    cells = dict(zip(COLUMNS, line, strict=True))
    try:
        return Row(
            cells["name"],
            float(cells["delta_v"] or "nan"),
            float(cells["vif"]),
            float(cells["information"]),
            int(cells["scales"]),
            cells["measurable"] == "True",
            cells["ill_conditioned"] == "True",
            cells["definition"],
            cells["dtype"],
            cells["clean_digest"],
            cells["corrupted_digest"],
        )
    except ValueError:
        return None
