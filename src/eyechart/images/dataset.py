"""Labelled pictures: class folders, or a CSV or Parquet file that lists them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.images.files import find_pictures
from eyechart.labels.categories import CATEGORIES

MANIFESTS = (".csv", ".parquet")
PATH_COLUMNS = ("path", "file", "filename")
LABEL_COLUMNS = ("label", "wnid", "class", "imagenet_index")
CATEGORY_COLUMNS = ("category16", "category")
MISSING = ("", "-1")


@dataclass(frozen=True)
class Picture:
    """A picture file, its name within the data set, and its label and everyday category if known.

    Labels are texts as the data set has them: a folder's name, a WordNet id, a number. `style`: how
    the thing is shown; `subclass`: what kind of its class it is; where the data set says so.
    """

    path: Path
    name: str
    label: str | None = None
    category: str | None = None
    style: str | None = None
    subclass: str | None = None


def printable(name: str) -> str:
    """Return a name as text; bytes that are none are shown as such."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_images(source: Path, leave_out: Path | None = None) -> list[Picture]:
    """Return the pictures of a folder, or those that a manifest lists.

    In a folder, the first folder below it is the label, and the one below that, if there is one,
    the subclass; pictures beside the folders have none.
    """
    if source.is_file():
        if source.suffix.lower() not in MANIFESTS:
            raise UsageError(
                f"{source} is no list of pictures: give a folder, or a .csv or .parquet file with"
                " the columns path and label."
            )
        return _listed(source)
    pictures = []
    for found in find_pictures([source], leave_out):
        label, subclass, *_ = (*map(printable, found.place.parts[:-1]), None, None)
        name = printable(found.place.as_posix())
        pictures.append(Picture(found.path, name, label, subclass=subclass))
    return pictures


def _listed(source: Path) -> list[Picture]:
    rows = _read_rows(source)
    if not rows:
        raise UsageError(f"{source} lists no pictures.")
    path = _column(rows[0], PATH_COLUMNS)
    if path is None:
        raise UsageError(f"{source} must have a column named path; it has {', '.join(rows[0])}.")
    label, category = _column(rows[0], LABEL_COLUMNS), _column(rows[0], CATEGORY_COLUMNS)
    style, subclass = _column(rows[0], ("style",)), _column(rows[0], ("subclass",))
    known = _column(rows[0], ("imagenet_index",))
    pictures = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, start=2):
        name = row[path].strip()
        if seen.setdefault(name, number) != number:
            raise UsageError(f"{source} lists {name} twice, in rows {seen[name]} and {number}.")
        if not name:
            raise UsageError(f"{source} names no picture in row {number}: fill in its {path}.")
        # a WordNet id above ImageNet's classes is marked by a class of −1
        has_label = known is None or row[known].strip() not in MISSING
        pictures.append(
            Picture(
                source.parent / name,
                printable(name),
                _value(row, label) if has_label else None,
                _category(source, number, _value(row, category)),
                _value(row, style),
                _value(row, subclass),
            )
        )
    return pictures


def _category(source: Path, number: int, name: str | None) -> str | None:
    if name is not None and name not in CATEGORIES:
        raise UsageError(f"{source}, row {number}: {unknown_name('category', name, CATEGORIES)}")
    return name


def _read_rows(source: Path) -> Sequence[Mapping[str, str]]:
    try:
        if source.suffix.lower() == ".csv":
            with source.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file, restval="")
                return [{k: v or "" for k, v in row.items() if k is not None} for row in reader]
        import pyarrow.parquet as pq

        table = pq.read_table(source).to_pylist()
        return [{k: "" if v is None else str(v) for k, v in row.items()} for row in table]
    except OSError as error:
        raise UsageError(
            f"Cannot read {source}: {error.strerror or 'not a Parquet file'}."
        ) from None
    except (ValueError, csv.Error) as error:
        what = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{source} is not a well-formed list of pictures: {what}.") from None


def _column(row: Mapping[str, str], names: Sequence[str]) -> str | None:
    own = {name.strip().lower(): name for name in row}
    return next((own[name] for name in names if name in own), None)


def _value(row: Mapping[str, str], column: str | None) -> str | None:
    if column is None:
        return None
    text = row[column].strip()
    return None if text in MISSING else text
