"""Labeled images: class folders, or a CSV or Parquet file that lists them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.csv_table import CsvRow, read_rows
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.images.image_files import find_image_files
from eyechart.labels.categories import CATEGORIES

MANIFESTS = (".csv", ".parquet")
# In order of precedence: of several columns, the first one listed here is used.
PATH_COLUMNS = ("path", "file", "filename")
LABEL_COLUMNS = ("label", "wnid", "class", "imagenet_index")
CATEGORY_COLUMNS = ("category16", "category")
MISSING = ("", "-1")


@dataclass(frozen=True)
class ListedImage:
    """An image file, its name in the dataset, and its label and category (None if unknown).

    Labels are strings as the dataset spells them: a folder name, a WordNet id or a number.
    `category` is one of the 16 everyday categories. `style` (how the object is depicted) and
    `subclass` (a finer class within the label) are None unless the dataset states them.
    """

    path: Path
    name: str
    label: str | None = None
    category: str | None = None
    style: str | None = None
    subclass: str | None = None


def printable(name: str) -> str:
    """Return a file name as valid text, with undecodable bytes as backslash escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_images(source: Path, leave_out: Path | None = None) -> list[ListedImage]:
    """Return the images in a folder, or the images listed in a CSV or Parquet file.

    In a folder, the name of a first-level subfolder is the label of its images, and the name of a
    second-level subfolder is their subclass. Images directly in the folder have no label.
    """
    if source.is_file():
        if source.suffix.lower() not in MANIFESTS:
            raise UsageError(
                f"{source} is not a list of images: give a folder, or a .csv or .parquet file with"
                " the columns path and label."
            )
        return _listed(source)
    images = []
    for file in find_image_files([source], leave_out):
        # The two Nones pad the path, so that images in shallow folders get no label or subclass.
        label, subclass, *_ = (*map(printable, file.relative.parts[:-1]), None, None)
        name = printable(file.relative.as_posix())
        images.append(ListedImage(file.path, name, label, subclass=subclass))
    return images


def _listed(source: Path) -> list[ListedImage]:
    rows = _read_manifest(source)
    if not rows:
        raise UsageError(f"{source} lists no images.")
    columns = list(rows[0].cells)
    path = _first(PATH_COLUMNS, columns)
    if path is None:
        raise UsageError(f"{source} must have a column named path; it has {', '.join(columns)}.")
    label, category = _first(LABEL_COLUMNS, columns), _first(CATEGORY_COLUMNS, columns)
    images = []
    rows_by_name: dict[str, int] = {}
    for row in rows:
        name, number = row[path], row.number
        # Names identify images in results, so each may occur only once.
        first = rows_by_name.setdefault(name, number)
        if first != number:
            raise UsageError(f"{source} lists {name} twice, in rows {first} and {number}.")
        if not name:
            raise UsageError(f"Row {number} of {source} names no image: fill in its {path}.")
        # imagenet_index −1 marks a WordNet id that is not one of ImageNet's 1,000 classes.
        has_label = "imagenet_index" not in row or row["imagenet_index"] not in MISSING
        images.append(
            ListedImage(
                source.parent / name,
                printable(name),
                _value(row, label) if has_label else None,
                _category(row, _value(row, category)),
                _value(row, "style"),
                _value(row, "subclass"),
            )
        )
    return images


def _category(row: CsvRow, name: str | None) -> str | None:
    if name is not None and name not in CATEGORIES:
        problem = str(unknown_name("category", name, CATEGORIES))
        raise UsageError(f"{row.path}, row {row.number}: {problem}")
    return name


def _read_manifest(source: Path) -> list[CsvRow]:
    if source.suffix.lower() == ".csv":
        return list(read_rows(source, is_ragged=True))
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(source).to_pylist()
    except OSError as error:
        reason = error.strerror or "not a Parquet file"
        raise UsageError(f"Cannot read {source}: {reason}.") from None
    except ValueError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"{source} is not a well-formed list of images: {reason}.") from None
    # Rows count from 2, as in a CSV file whose first line is the header.
    return [CsvRow(source, number, _cells(row)) for number, row in enumerate(table, start=2)]


def _cells(row: Mapping[str, object]) -> dict[str, str]:
    """Return the cells of a Parquet row as text, normalized in the same way as CSV cells."""
    return {
        name.strip().lower(): "" if value is None else str(value).strip()
        for name, value in row.items()
    }


def _first(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in columns), None)


def _value(row: CsvRow, column: str | None) -> str | None:
    if column is None or column not in row:
        return None
    return None if row[column] in MISSING else row[column]
