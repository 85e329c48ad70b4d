"""Match clean and corrupted image files by name, and measure them in batches."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from torch import Tensor

from eyechart.core.arguments import resolved_path
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.images.identity import file_digest
from eyechart.images.image_files import ImageFile, find_image_files, read_image
from eyechart.images.image_types import to_batch
from eyechart.visual_change.gray import to_gray
from eyechart.visual_change.measure import measure_change
from eyechart.visual_change.measure_inputs import check_pair, read_images
from eyechart.visual_change.measure_settings import MeasureSettings
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.table import Row

READ_AT_ONCE = 8
MEASURED_PIXELS = 8 * 512 * 512
"""Maximum numbers of pairs read and of pixels measured at once. They limit memory use, and make the
first results appear early.
"""


@dataclass(frozen=True)
class ImagePair:
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


@dataclass(frozen=True)
class _LoadedPair:
    pair: ImagePair
    digests: tuple[str, str]
    clean: Tensor
    corrupted: Tensor


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
    pairs: Sequence[ImagePair], settings: MeasureSettings, known: Mapping[str, Row] | None = None
) -> Generator[PairOutcome]:
    """Measure the pairs and yield the outcome for each as soon as it is known.

    A pair that cannot be read or compared is left out, and the others are measured. Rows in `known`
    are kept; a row that was measured from other files or with other settings is an error.
    """

    def prepare(pair: ImagePair) -> PairOutcome | _LoadedPair:
        return _prepare(pair, settings, (known or {}).get(pair.name))

    with ThreadPoolExecutor(max_workers=READ_AT_ONCE) as pool:
        # in blocks: `pool.map` over all pairs would read the whole folder ahead
        for start in range(0, len(pairs), READ_AT_ONCE):
            held: list[_LoadedPair] = []
            for prepared in pool.map(prepare, pairs[start : start + READ_AT_ONCE]):
                if isinstance(prepared, PairOutcome):
                    yield prepared
                    continue
                held.append(prepared)
                if sum(loaded.clean.numel() for loaded in held) >= MEASURED_PIXELS:
                    yield from _measure(held, settings)
                    held = []
            if held:
                yield from _measure(held, settings)


def gray_of(image: Image.Image) -> Tensor:
    """Return the integer gray levels (1, H, W) of an image in mode RGB or L."""
    return to_gray(to_batch(image)[0])


def _prepare(
    pair: ImagePair, settings: MeasureSettings, known: Row | None
) -> PairOutcome | _LoadedPair:
    try:
        # hashed first: a row that is known needs no decoding
        digests = file_digest(pair.clean), file_digest(pair.corrupted)
    except OSError as error:
        return PairOutcome(pair, None, why=f"Cannot read {error.filename}: {error.strerror}.")
    if known is not None:
        if not known.is_of(*digests, settings.ruler, settings.dtype):
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
    return _LoadedPair(pair, digests, clean, corrupted)


def _measure(held: Sequence[_LoadedPair], settings: MeasureSettings) -> Iterator[PairOutcome]:
    device = find_device(settings.device)
    change = measure_change(
        [loaded.clean.to(device) for loaded in held],
        [loaded.corrupted.to(device) for loaded in held],
        ruler=settings.ruler,
        dtype=settings.dtype,
    )
    for index, loaded in enumerate(held):
        row = Row(
            loaded.pair.name,
            float(change.delta_v[index]),
            float(change.vif[index]),
            float(change.raw[index]),
            float(change.information[index]),
            int(change.scales[index]),
            bool(change.measurable[index]),
            bool(change.ill_conditioned[index]),
            settings.ruler,
            settings.dtype,
            *loaded.digests,
        )
        yield PairOutcome(loaded.pair, row)
