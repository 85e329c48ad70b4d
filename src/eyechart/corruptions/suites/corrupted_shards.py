"""Folders of corrupted images that several shards write, and their merge.

A shard has every n-th image, in the order of their names: digests would need all files to be read
before the work begins, and all shards see the same names. The arrays of --layout cifar-c contain
all images, so there a shard has every n-th array of one corruption at one severity.
"""

from collections.abc import Sequence
from pathlib import Path

from eyechart.core.randomness import hash64
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.shards import (
    SHARDS,
    Shard,
    jobs_of,
    missing_shard,
    read_shard_records,
    remove_shard_records,
    write_shard_record,
)
from eyechart.corruptions.suites.array_layout import PARTS, array_path, join_array, part_path
from eyechart.corruptions.suites.folder import Job, Settings
from eyechart.corruptions.suites.layouts import ARRAYS
from eyechart.images.image_files import ImageFile


def jobs_in(shard: Shard | None, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of a shard in the order of their files; all jobs without a shard."""
    ordered = sorted(jobs, key=lambda job: job.target.as_posix())
    return list(jobs) if shard is None else jobs_of(ordered, shard)


def images_in(shard: Shard | None, images: Sequence[ImageFile]) -> list[ImageFile]:
    """Return the images of a shard in the order of their names; all images without a shard."""
    ordered = sorted(images, key=lambda image: image.relative.as_posix())
    return list(images) if shard is None else jobs_of(ordered, shard)


def record_shard(
    out: Path, shard: Shard, cells: Sequence[Settings], names: Sequence[str], n_written: int
) -> None:
    """Record in `out` that a shard is finished.

    Args:
        out: the folder of corrupted images.
        shard: the shard.
        cells: the settings of each corruption and severity.
        names: the names of the images of all shards.
        n_written: the number of images or arrays that the shard has.
    """
    identity = {
        "layout": cells[0].layout,
        "cells": [[cell.corruption, cell.severity] for cell in cells],
        "settings": f"{hash64(*(cell.fingerprint() for cell in cells)):016x}",
        "number of images": len(names),
        "images": f"{hash64(*sorted(names)):016x}",
    }
    write_shard_record(out / SHARDS, shard, identity, {"written": n_written})


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
