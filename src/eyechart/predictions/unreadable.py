"""Files that could not be read: their pictures are left out everywhere, if they are few."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from eyechart.core.errors import UsageError
from eyechart.core.parts import Parts
from eyechart.images.imageset import MOST_DAMAGED, Damaged, ImageSet
from eyechart.testsets.stimuli import LoadedSamples

UNREADABLE = "unreadable"
"""The name under which their rows are recorded, which are tried again when a run goes on."""

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("picture", pa.string()),
        ("corruption", pa.string()),
        ("severity", pa.float64()),
        ("why", pa.string()),
    ]
)


class LeftOut:
    """Counts the pictures of which a file could not be read, and refuses when they are many."""

    def __init__(self, images: ImageSet, parts: Parts) -> None:
        self.images, self.parts = images, parts
        self.pictures: set[str] = set()

    def add(self, work: LoadedSamples) -> int:
        """Record what could not be read of some rows and return how many that are."""
        rows = work.unreadable
        if not len(rows):
            return 0
        names = [self.images.pictures[place].name for place in rows.image]
        columns = (rows.row, names, [rows.name] * len(rows), rows.severity, work.why)
        arrays = [pa.array(each, of.type) for each, of in zip(columns, SCHEMA, strict=True)]
        self.parts.write(UNREADABLE, pa.Table.from_arrays(arrays, schema=SCHEMA))
        self.pictures.update(names)
        if len(self.pictures) > MOST_DAMAGED * len(self.images):
            raise UsageError(
                f"At least {len(self.pictures)} of {len(self.images)} pictures cannot be used, more"
                f" than 1 %, the last because: {work.why[-1]} Mend them, and the same command goes"
                " on."
            )
        return len(rows)


def left_out(folder: Path) -> list[Damaged]:
    """Return the pictures of a run that are left out, each with the first reason."""
    if UNREADABLE not in Parts(folder).names():
        return []
    table = Parts(folder).read(UNREADABLE)
    found: dict[str, str] = {}
    for name, why in zip(table["picture"].to_pylist(), table["why"].to_pylist(), strict=True):
        found.setdefault(name, why)
    return [Damaged(name, why) for name, why in found.items()]


def read_rows(folder: Path, name: str, columns: list[str]) -> pa.Table:
    """Return the rows of a corruption without pictures that are left out.

    `columns` are those to read, `picture` among them.
    """
    return without(Parts(folder).read(name, columns), left_out(folder))


def without(table: pa.Table, pictures: list[Damaged]) -> pa.Table:
    """Return the rows of other pictures than these."""
    if not pictures:
        return table
    names = pa.array([each.name for each in pictures], pa.string())
    return table.filter(pc.invert(pc.is_in(table["picture"], names)))
