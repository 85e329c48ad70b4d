"""Handle files that could not be read: if they are few, their images are left out everywhere."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from eyechart.core.storage.parts import Parts
from eyechart.images.imageset import Damaged, ImageSet, reject_too_many
from eyechart.testsets.stimuli import LoadedSamples

UNREADABLE = "unreadable"
"""Name under which samples with unreadable files are recorded; a resumed run tries them again."""

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("image", pa.string()),
        ("corruption", pa.string()),
        ("severity", pa.float64()),
        ("why", pa.string()),
    ]
)


class LeftOut:
    """Counts the images with unreadable files, and raises an error if there are too many."""

    def __init__(self, images: ImageSet) -> None:
        self.images = images
        self.damaged: dict[str, str] = {}

    def table(self, loaded: LoadedSamples) -> pa.Table:
        """Count the samples whose files could not be read, and return them as a table."""
        samples = loaded.unreadable
        names = [self.images.listed[position].name for position in samples.image]
        columns = (samples.row, names, [samples.name] * len(samples), samples.severity, loaded.why)
        arrays = [pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)]
        # By name: an image with several unreadable files counts once.
        self.damaged.update(zip(names, loaded.why, strict=True))
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def check(self) -> None:
        """Raise a UsageError if too many images are left out."""
        reject_unless_few([Damaged(*pair) for pair in self.damaged.items()], self.images)


def reject_unless_few(damaged: Sequence[Damaged], images: ImageSet) -> None:
    """Raise a UsageError if more than 1 % of the images are left out."""
    advice = "Fix the files, and run the same command to resume."
    reject_too_many(damaged, len(images), advice)


def left_out(folder: Path) -> list[Damaged]:
    """Return the images that a run leaves out, each with the first recorded error."""
    if UNREADABLE not in Parts(folder).names():
        return []
    table = Parts(folder).read(UNREADABLE)
    reasons: dict[str, str] = {}
    for name, why in zip(table["image"].to_pylist(), table["why"].to_pylist(), strict=True):
        # Several files of an image may be unreadable: keep the first reason.
        reasons.setdefault(name, why)
    return [Damaged(name, why) for name, why in reasons.items()]


def read_rows(folder: Path, name: str, columns: list[str]) -> pa.Table:
    """Return the rows of a corruption, except for images that are left out.

    `columns`: the columns to read, which must include `image`.
    """
    return without(Parts(folder).read(name, columns), left_out(folder))


def without(table: pa.Table, images: list[Damaged]) -> pa.Table:
    """Return the rows of all images except these."""
    if not images:
        return table
    names = pa.array([damaged.name for damaged in images], pa.string())
    return table.filter(pc.invert(pc.is_in(table["image"], names)))
