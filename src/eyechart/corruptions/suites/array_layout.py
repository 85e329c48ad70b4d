"""CIFAR-10-C's layout: CORRUPTION.npy with all images at severities 1 to 5, and labels.npy.

Each severity is stored in a separate file until all five are complete, so that an interrupted run
can resume, and several shards can write them. `merge_corrupted` finishes the folder of shards.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance
from eyechart.core.storage.files import atomic_file, remove_leftovers
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.shards import (
    SHARDS,
    Shard,
    jobs_of,
    missing_shard,
    read_shard_records,
    remove_shard_records,
)
from eyechart.corruptions.suites.apply import corrupt
from eyechart.corruptions.suites.file_corruption import ARRAYS, common_settings, folder_name
from eyechart.corruptions.suites.folder import Job, Settings, claim
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.images.published_source import (
    CLASSES,
    CLEAN,
    LABELS,
    SEVERITIES,
    open_images,
    open_labels,
    to_planes,
)
from eyechart.images.stimulus import find_stimulus

PARTS = ".parts"
AT_ONCE = 256


def load_stack(source: Path, stimulus: str, step: Callable[[int], Advance]) -> ImageSet:
    """Return images of equal size with labels, to be written as arrays.

    They are in class folders, a manifest, or a .npy file with labels.npy next to it.

    `step` is called with the number of images to read and returns their progress callback.
    """
    if source.suffix == ".npy":
        images = _from_array(source, stimulus)
    else:
        listed = find_images(source)
        images = load_listed(listed, str(source), stimulus, step(len(listed)))
    sizes = sorted(set(images.sizes))
    if len(sizes) > 1:
        first, second = (f"{width} × {height}" for height, width in sizes[:2])
        raise UsageError(
            f"--layout {ARRAYS} needs images of equal size, but {source} has images of {first} and "
            f"of {second} px: give --stimulus 32x32, or another size."
        )
    _class_numbers(images)
    return images


def _from_array(source: Path, stimulus: str) -> ImageSet:
    array = open_images(source)
    labels = open_labels(source.with_name(LABELS), len(array))
    how = find_stimulus(stimulus)
    if how.width_and_height is not None:
        raise UsageError(f"The images in {source} already have the same size: omit --stimulus.")
    return ImageSet(
        str(source),
        how,
        tuple(ListedImage(source, str(index), str(label)) for index, label in enumerate(labels)),
        tuple(hashlib.sha256(levels.tobytes()).hexdigest() for levels in array),
        (array.shape[1:3],) * len(array),
        kept=dict(enumerate(to_planes(array))),
    )


def _class_numbers(images: ImageSet) -> tuple[NDArray[np.int64], list[str]]:
    """Return class numbers, and the names of the classes if the labels are not numbers."""
    labels = [label for label in images.labels if label is not None]
    if len(labels) < len(images):
        raise UsageError(
            f"--layout {ARRAYS} writes labels.npy, but some images in {images.source} have no"
            " label: put them into class folders, or give a list with the columns path and label."
        )
    if all(label.isascii() and label.isdecimal() and len(label) < 10 for label in labels):
        return np.array([int(label) for label in labels]), []
    names = sorted({*labels})
    return np.searchsorted(names, labels).astype(np.int64), names


def write_arrays(
    images: ImageSet, parts: Sequence[Settings], out: Path, step: Advance, shard: Shard | None
) -> int:
    """Write all arrays that do not exist yet, with these settings; return their number.

    With a shard, only its severities are written, as separate files, which are joined later.

    `step` is called with the number of finished images, including images of an earlier run.
    """
    # one file contains all images, so they are part of its settings
    parts = [replace(cell, images=images.fingerprint) for cell in parts]
    files = {cell.corruption: array_path(out, cell.corruption) for cell in parts}
    begun = {name: existing for name, path in files.items() if (existing := _begun(path))}
    # `claim` looks at targets only; an array has no single source
    claim(out, common_settings(parts, out, begun), [Job(path, path) for path in files.values()])
    with nullcontext() if shard is not None else lock_folder(out):
        try:
            (out / PARTS).mkdir(exist_ok=True)
            remove_leftovers((out / PARTS,))
            _write_labels(images, out)
            if shard is not None:
                return sum(
                    _write_severity(images, cell, out, step) for cell in jobs_of(parts, shard)
                )
            written = 0
            for corruption, path in files.items():
                cells = [cell for cell in parts if cell.corruption == corruption]
                for cell in cells:
                    _write_severity(images, cell, out, step)
                if not _is_whole(path, images, len(cells)):
                    join_array([part_path(out, corruption, cell.severity) for cell in cells], path)
                    written += 1
            (out / PARTS).rmdir()
        except OSError as error:
            raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
    return written


def array_path(out: Path, corruption: str) -> Path:
    """Return the path of a corruption's array."""
    return out / f"{folder_name(corruption)}.npy"


def part_path(out: Path, corruption: str, severity: float | None) -> Path:
    """Return the path of a corruption at one severity until its array is complete."""
    return out / PARTS / f"{folder_name(corruption)}.{severity:g}.npy"


def _begun(path: Path) -> Path | None:
    """Return the array, or the folder with some of its severities; None if neither exists."""
    parts = path.parent / PARTS
    return path if path.exists() else next((parts for _ in parts.glob(f"{path.stem}.*.npy")), None)


def _write_labels(images: ImageSet, out: Path) -> None:
    """Write the labels, the clean images in the same order, and any class names."""
    numbers, names = _class_numbers(images)
    # CIFAR-10-C repeats the labels for each severity
    _save(out / LABELS, np.tile(numbers, len(SEVERITIES)))
    _save(out / CLEAN, _rows(images.batch(range(len(images)))))
    if names:
        with atomic_file(out / CLASSES) as temporary:
            temporary.write_text("\n".join(names) + "\n", encoding="utf-8")


def _write_severity(images: ImageSet, cell: Settings, out: Path, step: Advance) -> bool:
    """Write all images, corrupted at one severity; return False if the file exists already."""
    part = part_path(out, cell.corruption, cell.severity)
    whole = array_path(out, cell.corruption)
    if _is_whole(whole, images, len(SEVERITIES)) or _is_whole(part, images, 1):
        step(len(images), "")
        return False
    array = np.empty((len(images), *images.sizes[0], 3), dtype=np.uint8)
    for start in range(0, len(array), AT_ONCE):
        indices = range(start, min(start + AT_ONCE, len(array)))
        result = corrupt(
            images.batch(indices).to(torch.device(cell.device)),
            cell.corruption,
            severity=cell.severity,
            seed=cell.seed,
            keys=[images.digests[index] for index in indices],
            frost_textures=cell.frost_textures,
        )
        array[start : start + len(indices)] = _rows(result)
        step(len(indices), "")
    _save(part, array)
    return True


def join_array(parts: Sequence[Path], path: Path) -> None:
    """Write the arrays of all severities into one file, and remove them."""
    arrays = [np.load(part, mmap_mode="r", allow_pickle=False) for part in parts]
    count = len(arrays[0])
    shape = (len(arrays) * count, *arrays[0].shape[1:])
    # through a memory map, so that the array of all severities need not fit into memory
    with atomic_file(path) as temporary:
        joined = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        for index, array in enumerate(arrays):
            joined[index * count : (index + 1) * count] = array
        joined.flush()
    # only once the whole array is in place
    for part in parts:
        part.unlink()


def _rows(images: torch.Tensor) -> NDArray[np.uint8]:
    rows: NDArray[np.uint8] = images.permute(0, 2, 3, 1).cpu().contiguous().numpy()
    return rows


def _is_whole(path: Path, images: ImageSet, n_severities: int) -> bool:
    """Return whether the file contains the images at this many severities."""
    shape = (n_severities * len(images), *images.sizes[0], 3)
    try:
        array = np.load(regular_file(path), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return False
    return bool(array.shape == shape and array.dtype == np.uint8)


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        # an open file, because np.save would append .npy to a temporary name
        np.save(file, array)


def has_corrupted_shards(out: Path) -> bool:
    """Return whether a folder contains corrupted images from shards that are not merged yet."""
    return (out / SHARDS).is_dir()


def merge_corrupted(out: Path) -> int:
    """Finish a folder that several shards of `eyechart corrupt` have written.

    Image files are complete as they are; arrays are joined. Then the records of the shards are
    removed, so that the folder is the same as without shards.

    Returns:
        The number of images, or of arrays with --layout cifar-c.

    Raises:
        UsageError: a shard is missing, unfinished or from another task.
    """
    identity, counts = read_shard_records(out / SHARDS)
    n_written = sum(count["written"] for count in counts.values())
    if identity.get("layout") == ARRAYS:
        with lock_folder(out):
            n_written = _join_arrays(out, identity["cells"], len(counts))
    remove_shard_records(out / SHARDS)
    return n_written


def _join_arrays(out: Path, cells: object, n_shards: int) -> int:
    """Write the arrays of all corruptions from the arrays of each severity."""
    assert isinstance(cells, list), "written by `record_shard`"
    parts: dict[Path, list[Path]] = {}
    for index, (corruption, severity) in enumerate(cells):
        path, part = array_path(out, corruption), part_path(out, corruption, severity)
        if not (path.exists() or part.exists()):
            # somebody has deleted it since
            raise missing_shard(out, Shard(index % n_shards + 1, n_shards))
        parts.setdefault(path, []).append(part)
    for path, parts_of_path in parts.items():
        if not path.exists():
            join_array(parts_of_path, path)
    # not if it contains arrays of corruptions that are not written by these shards
    if not any((out / PARTS).iterdir()):
        (out / PARTS).rmdir()
    return len(parts)
