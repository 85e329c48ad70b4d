"""A folder of corrupted images: its output files, its settings, and what already exists.

Every image file has metadata on its source and settings, and the folder has a record of its
settings, so that an interrupted run can resume and never mixes settings. `file_corruption.py`
corrupts and writes the images.

Several shards may write a folder. A shard has every n-th image, in the order of their names:
digests would need all files to be read before the work begins, and all shards see the same names.
The arrays of --layout cifar-c contain all images, so there a shard has every n-th array of one
corruption at one severity.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.core.arguments import regular_file, resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.randomness import check_seed, hash64
from eyechart.core.storage.files import atomic_file, remove_leftovers
from eyechart.core.storage.shards import SHARDS, Shard, jobs_of, write_shard_record
from eyechart.core.version import __version__, versions
from eyechart.corruptions.suites.assets import assets_mark, assets_of, frost_textures
from eyechart.corruptions.suites.strength import check_severity
from eyechart.corruptions.suites.suite import find_variant
from eyechart.images.image_files import (
    JPEG_QUALITY,
    ImageFile,
    find_image_files,
    images_in,
    read_note,
)
from eyechart.images.stimulus import find_stimulus

RECORD = "eyechart.json"
SCHEMA = 1
SUFFIX_OF = {"png": ".png", "jpeg": ".jpg"}


@dataclass(frozen=True)
class Settings:
    """All settings that influence the output, in addition to the image itself.

    Attributes:
        style_transfer: the digest of the trained network, if one is used.
        stimulus: how images are first resized and cropped; None keeps the original size.
        layout: the published layout of the folder; None keeps the layout of the input images.
        images: a digest of all images, if they are written to one file.
        corruption_versions: the version of each corruption whose version is above 1, by name.
    """

    corruption: str
    severity: float | None = None
    parameters: dict[str, float] = field(default_factory=dict)
    variant: str | None = None
    seed: int = 0
    format: str = "png"
    jpeg_quality: int | None = None
    device: str = "cpu"
    frost_textures: str | None = None
    style_transfer: str | None = None
    stimulus: str | None = None
    layout: str | None = None
    images: str | None = None
    corruption_versions: dict[str, int] = field(default_factory=dict)
    eyechart: str = __version__

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify these settings."""
        return f"{hash64(json.dumps(asdict(self), sort_keys=True)):016x}"


@dataclass(frozen=True)
class Job:
    """One image to corrupt, and its output file."""

    source: Path
    target: Path


def check_settings(settings: Settings) -> Settings:
    """Return valid settings with the corruption's full name; raise an error if one is invalid."""
    check_seed(settings.seed)
    entry = find_variant(settings.corruption, settings.variant)
    if settings.severity is None and not settings.parameters:
        names = ", ".join(parameter.name for parameter in entry.corruption.parameters)
        raise UsageError(f"Give a strength: --severity (0 to 5) or --set for any of {names}.")
    if settings.severity is not None:
        check_severity(np.array([settings.severity]))
    for name, value in settings.parameters.items():
        entry.corruption.parameter(name).check(np.array([value]))
    if settings.frost_textures is not None:
        frost_textures(settings.frost_textures)
    if settings.stimulus is not None:
        settings = replace(settings, stimulus=find_stimulus(settings.stimulus).name)
    network = None
    if entry.corruption.needs == "styles":
        # raises if the network is missing, before a folder is created
        assets_of(entry)
        network = assets_mark(entry)
    format = "jpeg" if settings.format == "jpg" else settings.format
    if format not in SUFFIX_OF:
        raise UsageError(f"format must be png or jpeg, got {settings.format}.")
    quality = JPEG_QUALITY if settings.jpeg_quality is None else settings.jpeg_quality
    if not 1 <= quality <= 100:
        raise UsageError(f"jpeg-quality must be in [1, 100], got {quality}.")
    # the quality of a PNG is not a setting, and must not make folders differ
    kept = quality if format == "jpeg" else None
    return replace(
        settings,
        corruption=entry.name,
        variant=entry.variant,
        format=format,
        jpeg_quality=kept,
        style_transfer=network,
        corruption_versions={} if entry.version == 1 else {entry.name: entry.version},
    )


def search(images: Sequence[Path], out: Path) -> tuple[list[ImageFile], dict[Path, int]]:
    """Return the images to corrupt, and the number of earlier results left out, by folder.

    Results are corrupted again only if the user names them or their folder.
    """
    if any(path.is_dir() and resolved_path(path) == resolved_path(out) for path in images):
        raise UsageError(f"{out} contains the input images: choose another folder for --out.")
    found = [(image, _result_folder(image)) for image in find_image_files(images, leave_out=out)]
    kept = [image for image, folder in found if folder is None]
    if not kept:
        raise UsageError(
            f"All images in {images[0]} were written by eyechart: to corrupt them again, "
            "give the folder that directly contains them."
        )
    return kept, Counter(folder for _, folder in found if folder is not None)


def _result_folder(image: ImageFile) -> Path | None:
    """Return the folder of earlier results that contains the image; None if it is not a result."""
    below = image.path.parents[: len(image.relative.parts) - 1]
    return next((folder for folder in below if (folder / RECORD).exists()), None)


def plan(images: Sequence[ImageFile], out: Path, format: str = "png") -> list[Job]:
    """Return the jobs; `out` gets the same folder structure as the input."""
    jobs: dict[Path, Job] = {}
    for image in images:
        target = out / image.relative.with_suffix(SUFFIX_OF[format])
        other = jobs.setdefault(target, Job(image.path, target))
        if resolved_path(other.source) != resolved_path(image.path):
            raise UsageError(
                f"{other.source} and {image.path} would both be written to {target}: give their "
                "common folder, rename one, or use two folders for --out."
            )
    # resolved, because several links may point to the same file
    sources = {resolved_path(job.source) for job in jobs.values()}
    for target in jobs:
        if resolved_path(target) in sources:
            raise UsageError(f"{target} would be overwritten: choose another folder for --out.")
    return list(jobs.values())


def claim(out: Path, settings: Settings, jobs: Sequence[Job], overwrite: bool = False) -> bool:
    """Prepare the folder `out` for images with these settings; raise an error if it cannot be used.

    Returns whether images made with other settings are being replaced, by this run or by an
    interrupted earlier run; the folder's record says so until `complete` is called.
    """
    # an interrupted run with --overwrite is resumed even without the option
    replacing = overwrite or _reject_others(out, settings, jobs)
    if replacing:
        _reject_remains(out, settings, jobs)
    if out.is_file():
        raise UsageError(f"Cannot write into {out}: it is a file, not a folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_leftovers({out, *(job.target.parent for job in jobs)})
        # before any image, so that a stopped run is recognized when it is started again
        _write_record(out, settings, replacing)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None
    return replacing


def complete(out: Path, settings: Settings, jobs: Sequence[Job]) -> None:
    """Record that all images in the folder were made with these settings, if they were.

    Images of other settings may remain in place of images that could not be read, or that other
    shards have not replaced yet.
    """
    if any(is_of_other_settings(read_note(job.target), settings) for job in jobs):
        return
    try:
        _write_record(out, settings, replacing=False)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None


def _write_record(out: Path, settings: Settings, replacing: bool) -> None:
    record = {"schema": SCHEMA, "settings": asdict(settings), "versions": versions()}
    if replacing:
        record["replacing"] = True
    with atomic_file(out / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def note_of(digest: str, settings: Settings) -> str:
    """Return the metadata to store in a result: the digests of its source file and settings."""
    return f"{digest} {settings.fingerprint()}"


def is_of_other_settings(note: str | None, settings: Settings) -> bool:
    """Return whether an image file's metadata says that it was made with different settings."""
    return note is not None and note.split()[-1:] != [settings.fingerprint()]


def _reject_remains(out: Path, settings: Settings, jobs: Sequence[Job]) -> None:
    """Raise an error if results from other settings would remain next to the new results."""
    targets = {job.target for job in jobs}
    remains = [
        image.path
        for image in (images_in(out) if out.is_dir() else ())
        if image.path not in targets
        and _result_folder(image) is None
        and is_of_other_settings(read_note(image.path), settings)
    ]
    if remains:
        count = count_of(len(remains), "result")
        raise UsageError(
            f"{count} from other settings would remain in {out}, such as {remains[0]}:"
            " use an empty folder or delete them."
        )


def _reject_others(out: Path, settings: Settings, jobs: Sequence[Job]) -> bool:
    """Raise an error if the folder has other results; return whether an overwrite is unfinished."""
    # looked for before the record, which a shard that starts at the same time writes first
    existing = next((job.target for job in jobs if job.target.exists()), None)
    if not (out / RECORD).exists():
        if existing is not None:
            raise UsageError(f"{existing} was not written by this command: {_instead(settings)}.")
        return False
    before, is_replacing = _read_record(out / RECORD, _instead(settings))
    now = asdict(settings)
    of_now, of_before = now.pop("corruption_versions"), before["corruption_versions"]
    if settings.layout is None:  # otherwise `recorded_versions` has one version per corruption
        version = f"{settings.corruption}'s version"
        now[version] = of_now.get(settings.corruption, 1)
        before[version] = of_before.get(settings.corruption, 1)
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        first = changed[0]
        raise UsageError(
            f"{out} contains images made with {first} {_show(before.get(first))}, not "
            f"{_show(now[first])}: {_instead(settings)}."
        )
    return is_replacing


def recorded_versions(out: Path, settings: Settings) -> dict[str, int] | None:
    """Return the corruption versions above 1 in a folder's record; None if there is no record."""
    if not (out / RECORD).exists():
        return None
    recorded, _ = _read_record(out / RECORD, _instead(settings))
    of_corruptions: dict[str, int] = recorded["corruption_versions"]
    return of_corruptions


def _show(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={number:g}" for name, number in value.items()) or "none"
    return "none" if value is None else str(value)


def _instead(settings: Settings) -> str:
    """Return what the user can do if the folder contains other files, for error messages."""
    if settings.layout is None:
        return "choose another folder or give --overwrite"
    return "choose another folder or delete it"


def _read_record(path: Path, instead: str) -> tuple[dict[str, Any], bool]:
    """Return the settings in a folder's record, and whether their results are being replaced."""
    try:
        content = json.loads(regular_file(path).read_text(encoding="utf-8"))
        if isinstance(content["settings"]["corruption_versions"], dict):
            return content["settings"], content.get("replacing") is True
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(f"{path} is damaged, so the settings of the folder are unknown: {instead}.")


def jobs_of_shard(shard: Shard | None, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs of a shard in the order of their files; all jobs without a shard."""
    ordered = sorted(jobs, key=lambda job: job.target.as_posix())
    return list(jobs) if shard is None else jobs_of(ordered, shard)


def images_of_shard(shard: Shard | None, images: Sequence[ImageFile]) -> list[ImageFile]:
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
