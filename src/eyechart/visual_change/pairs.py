"""Match clean and corrupted image files by name, measure them in batches, and write a table.

The table is a CSV file from which an interrupted run can resume.
"""

import csv
import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from PIL import Image
from torch import Tensor

from eyechart.core.arguments import regular_file, resolved_path
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.core.version import __version__
from eyechart.images.identity import file_digest
from eyechart.images.image_files import ImageFile, find_image_files, read_image
from eyechart.images.image_types import to_batch
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.measure import measure_change
from eyechart.visual_change.measure_inputs import check_pair, read_images
from eyechart.visual_change.registry import MeasureSettings, find_ruler


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
        try:
            if file is None:
                kept = _whole_lines(path) if path.exists() else b""
                file = path.open("a", newline="", encoding="utf-8", errors="surrogateescape")
                # a killed run may have left half a line behind
                file.truncate(len(kept))
                if not kept:
                    _writer(file).writerow(COLUMNS)
            _writer(file).writerow(_cells(row))
            # each row is written immediately, so that a killed run loses none
            file.flush()
        except OSError as error:
            raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None

    try:
        yield append
    finally:
        if file is not None:
            file.close()


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write the whole file atomically."""
    with (
        atomic_file(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        _writer(file).writerows([COLUMNS, *map(_cells, rows)])


def _whole_lines(path: Path) -> bytes:
    content = regular_file(path).read_bytes()
    return content[: content.rfind(b"\n") + 1]


def _writer(file: TextIO) -> Any:
    return csv.writer(file, lineterminator="\n")


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


READ_AT_ONCE = 8
MEASURED_PIXELS = 8 * 512 * 512
"""Maximum numbers of pairs read and of pixels measured at once. They limit memory use, and make the
first results appear early.
"""


class ImagePair(NamedTuple):
    """A clean image and the corrupted image with the same name."""

    name: str
    clean: Path
    corrupted: Path


@dataclass(frozen=True)
class PairOutcome:
    """The outcome for a pair: its row, or None with the reason in `why`.

    `kept`: whether the row is from an earlier run.
    """

    pair: ImagePair
    row: Row | None
    kept: bool = False
    why: str = ""


LoadedPair = tuple[ImagePair, tuple[str, str], Tensor, Tensor]
"""A pair, the digests of both files, and the images as the ruler reads them."""


def find_pairs(clean: Path, corrupted: Path) -> tuple[list[ImagePair], list[Path]]:
    """Return the pairs of two images or two folders, and the images without a partner.

    In folders, images are matched by their relative path without the suffix.
    """
    for path in (clean, corrupted):
        if not path.exists():
            raise UsageError(f"No such file or folder: {path}.")
    if clean.is_dir() != corrupted.is_dir():
        raise UsageError("Give two images or two folders, not one image and one folder.")
    if not clean.is_dir():
        return [ImagePair(corrupted.stem, clean, corrupted)], []
    if resolved_path(clean) == resolved_path(corrupted):
        raise UsageError(f"{clean} is given twice: give the clean and the corrupted folder.")
    # one folder may be inside the other
    before = _by_name(find_image_files([clean], leave_out=corrupted))
    after = _by_name(find_image_files([corrupted], leave_out=clean))
    pairs = [ImagePair(name, before[name], after[name]) for name in sorted(before) if name in after]
    if not pairs:
        raise UsageError(
            f"No image in {corrupted} has the same name as an image in {clean}:"
            " names and subfolders must match, except for the suffix."
        )
    alone = [path for name, path in before.items() if name not in after]
    return pairs, alone + [path for name, path in after.items() if name not in before]


def _by_name(images: Sequence[ImageFile]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for image in images:
        name = image.relative.with_suffix("").as_posix()
        other = paths.setdefault(name, image.path)
        # `setdefault` returns this very path if the name is new
        if other is not image.path:
            raise UsageError(f"{other} and {image.path} differ only in the suffix: rename one.")
    return paths


def measure_pairs(
    pairs: Sequence[ImagePair], settings: MeasureSettings, known: Mapping[str, Row]
) -> Generator[PairOutcome]:
    """Measure the pairs and yield the outcome for each as soon as it is known.

    A pair that cannot be read or compared is left out, and the others are measured. Rows in `known`
    are kept; a row that was measured from other files or with other settings is an error.
    """
    with ThreadPoolExecutor(max_workers=READ_AT_ONCE) as pool:
        # in blocks: `pool.map` over all pairs would read the whole folder ahead
        for start in range(0, len(pairs), READ_AT_ONCE):
            block = pairs[start : start + READ_AT_ONCE]
            rows = [known.get(pair.name) for pair in block]
            held: list[LoadedPair] = []
            for prepared in pool.map(_prepare, block, repeat(settings), rows):
                if isinstance(prepared, PairOutcome):
                    yield prepared
                    continue
                held.append(prepared)
                if sum(clean.numel() for _, _, clean, _ in held) >= MEASURED_PIXELS:
                    yield from _measure(held, settings)
                    held = []
            if held:
                yield from _measure(held, settings)


def gray_of(image: Image.Image) -> Tensor:
    """Return the integer gray levels (1, H, W) of an image in mode RGB or L."""
    return to_gray(to_batch(image)[0])


def _prepare(
    pair: ImagePair, settings: MeasureSettings, known: Row | None
) -> PairOutcome | LoadedPair:
    try:
        # hashed first: a row that is known needs no decoding
        digests = file_digest(pair.clean), file_digest(pair.corrupted)
    except OSError as error:
        return PairOutcome(pair, None, why=f"Cannot read {error.filename}: {error.strerror}.")
    if known is not None:
        measured = (known.clean_digest, known.corrupted_digest, known.ruler, known.dtype)
        if (*measured, known.eyechart) != (*digests, settings.ruler, settings.dtype, __version__):
            raise UsageError(
                f"The row for {pair.name} in the table is from a different file, ruler, dtype or "
                "version: choose another table, or delete it."
            )
        return PairOutcome(pair, known, kept=True)
    try:
        ruler = find_ruler(settings.ruler)
        clean, corrupted = (
            read_images(read_image(path), role, ruler, differentiable=False)[0]
            for role, path in (("clean", pair.clean), ("corrupted", pair.corrupted))
        )
        check_pair(clean, corrupted, ruler)
    except UsageError as error:
        sentence = str(error)
        # errors about the pixels do not include the file name
        named = any(str(path) in sentence for path in (pair.clean, pair.corrupted))
        return PairOutcome(pair, None, why=sentence if named else f"{pair.corrupted}: {sentence}")
    return pair, digests, clean, corrupted


def _measure(held: Sequence[LoadedPair], settings: MeasureSettings) -> Iterator[PairOutcome]:
    device = find_device(settings.device)
    change = measure_change(
        [clean.to(device) for _, _, clean, _ in held],
        [corrupted.to(device) for _, _, _, corrupted in held],
        ruler=settings.ruler,
        dtype=settings.dtype,
    )
    for index, (pair, digests, _, _) in enumerate(held):
        row = Row(
            pair.name,
            float(change.delta_v[index]),
            float(change.vif[index]),
            float(change.raw[index]),
            float(change.information[index]),
            int(change.scales[index]),
            bool(change.measurable[index]),
            bool(change.ill_conditioned[index]),
            settings.ruler,
            settings.dtype,
            *digests,
        )
        yield PairOutcome(pair, row)
