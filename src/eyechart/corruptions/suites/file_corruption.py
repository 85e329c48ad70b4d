"""Corrupt image files: decode, corrupt in batches, write, and report the outcome for each file.

Whole benchmarks are written in a published layout: ImageNet-C's folders here, CIFAR-10-C's arrays
in `array_layout.py`. Output paths and settings of both are determined here.
"""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.storage.files import remove_leftovers
from eyechart.corruptions.suites.apply import corrupt
from eyechart.corruptions.suites.assets import left_out, ready_entries
from eyechart.corruptions.suites.folder import (
    SUFFIX_OF,
    Job,
    Settings,
    check_settings,
    claim,
    is_of_other_settings,
    note_of,
    recorded_versions,
)
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.corruptions.suites.suite import find_entry, load_suite
from eyechart.corruptions.suites.suite_file import entries_in
from eyechart.images.identity import file_digest
from eyechart.images.image_files import (
    DECODED_PIXELS,
    DECODING,
    ImageFile,
    is_damaged,
    n_pixels,
    read_image,
    read_note,
    write_image,
)
from eyechart.images.image_types import to_batch
from eyechart.images.published_source import SEVERITIES
from eyechart.images.stimulus import STIMULI, find_stimulus

READ_AT_ONCE = 8
HELD_IMAGES = 32
HELD_PIXELS = 32 * 512 * 512
"""Maximum number of decoded images in memory, and maximum total number of their pixels."""

LARGEST_CACHED = 1 << 22
"""Number of pixels of the largest images that `Sources` keeps: 64 larger ones would fill memory."""


@dataclass(frozen=True)
class FileOutcome:
    """The outcome for one image: "written", "kept" (it existed) or "left out", with the reason."""

    job: Job
    state: str
    why: str = ""


@dataclass
class Tally:
    """Counts the jobs whose output file exists."""

    count: int = 0


class Sources:
    """Reads the files to corrupt, and caches the digests and pixels of the latest files.

    `stimulus`: how images are resized and cropped; None keeps the original size.
    """

    def __init__(self, stimulus: str | None = None, kept: int = 2 * HELD_IMAGES) -> None:
        self._how = None if stimulus is None else find_stimulus(stimulus)
        self.digest = lru_cache(kept)(file_digest)
        self._cached = lru_cache(kept)(self._levels)

    def levels(self, path: Path) -> Tensor:
        """Return the image as uint8 (C, H, W); raise an error if it cannot be corrupted."""
        is_large = self._how in (None, STIMULI["native"]) and n_pixels(path) > LARGEST_CACHED
        return self._levels(path) if is_large else self._cached(path)

    def _levels(self, path: Path) -> Tensor:
        with DECODING.hold(n_pixels(path)):
            image = read_image(path, None if self._how is None else self._how.window)
            if self._how is None:
                pixels = torch.from_numpy(np.array(image))
                levels = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()
            else:
                levels = self._how(image)
        # the same validation as in `corrupt`, but for this image alone
        to_batch(levels)
        return levels


LoadedImage = tuple[Job, str, Tensor]
"""What is to be done, the digest of the source file, and the image, uint8 (C, H, W)."""


def corrupt_files(
    jobs: Sequence[Job],
    settings: Settings,
    *,
    overwrite: bool = False,
    replacing: bool = False,
    done: Tally,
    sources: Sources | None = None,
) -> Generator[FileOutcome]:
    """Corrupt the images and yield the outcome for each as soon as it is known.

    An image that cannot be read is left out, and the others are processed. If an earlier run wrote
    a result from the same file with the same settings, that result is kept. Other existing results
    are left unchanged, unless `overwrite` or, for results from other settings, `replacing` is set.
    Damaged results are regenerated.

    Args:
        jobs: the images and their output files.
        settings: how images are corrupted.
        overwrite: whether existing results are replaced.
        replacing: whether results from other settings are replaced.
        done: counts every job whose result exists, including jobs that are not yielded because of
            an interrupt.
        sources: reads the images; share it between calls for the same images.
    """
    prepare = partial(
        _prepare,
        # without sharing every image is read once, so there is nothing to cache
        sources=Sources(settings.stimulus, 1) if sources is None else sources,
        settings=settings,
        overwrite=overwrite,
        replacing=replacing,
    )
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        held: list[LoadedImage] = []
        # a few files at a time, because pool.map submits its whole input at once
        for some_jobs in _few_at_a_time(jobs):
            for prepared in pool.map(prepare, some_jobs):
                if isinstance(prepared, FileOutcome):
                    if prepared.state == "kept":
                        done.count += 1
                    yield prepared
                else:
                    held.append(prepared)
            # the number of pixels limits a batch too, as images differ in size
            pixels = sum(image[0].numel() for _, _, image in held)
            if len(held) >= HELD_IMAGES or pixels >= HELD_PIXELS:
                yield from _finish(held, settings, pool, done)
                held = []
        if held:
            yield from _finish(held, settings, pool, done)


def _few_at_a_time(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield the jobs in lists of at most `READ_AT_ONCE` files, fewer if the images are large."""
    some: list[Job] = []
    n_read = 0
    for job in jobs:
        n_more = n_pixels(job.source)
        if some and (len(some) == READ_AT_ONCE or n_read + n_more > DECODED_PIXELS):
            yield some
            some, n_read = [], 0
        some.append(job)
        n_read += n_more
    if some:
        yield some


def _prepare(
    job: Job, sources: Sources, settings: Settings, overwrite: bool, replacing: bool
) -> FileOutcome | LoadedImage:
    try:
        digest = sources.digest(job.source)
    except OSError as error:
        return FileOutcome(job, "left out", f"Cannot read {job.source}: {error.strerror}.")
    # a damaged file, for instance because of a full disk, is written again
    if job.target.exists() and not is_damaged(job.target):
        note = read_note(job.target)
        if note == note_of(digest, settings):
            return FileOutcome(job, "kept")
        if not (overwrite or (replacing and is_of_other_settings(note, settings))):
            instead = "--overwrite replaces it"
            if settings.layout is not None:
                instead = "delete it to regenerate it"
            why = (
                f"{job.target} already exists but was made from a different image or with other"
                f" settings; {instead}."
            )
            return FileOutcome(job, "left out", why)
    try:
        image = sources.levels(job.source)
    except UsageError as error:
        sentence = str(error)
        where = "" if str(job.source) in sentence else f"{job.source}: "
        return FileOutcome(job, "left out", where + sentence)
    return job, digest, image


def _finish(
    held: Sequence[LoadedImage],
    settings: Settings,
    pool: ThreadPoolExecutor,
    done: Tally,
) -> Iterator[FileOutcome]:
    device = torch.device(settings.device)
    parameters: dict[str, Any] = dict(settings.parameters)
    changed = corrupt(
        [image.to(device) for _, _, image in held],
        settings.corruption,
        severity=settings.severity,
        seed=settings.seed,
        # the digest of the file, so that noise does not depend on its name or folder
        keys=[digest for _, digest, _ in held],
        variant=settings.variant,
        frost_textures=settings.frost_textures,
        **parameters,
    )
    notes = [note_of(digest, settings) for _, digest, _ in held]
    jobs = [job for job, _, _ in held]
    write = partial(_write, quality=settings.jpeg_quality, done=done)
    for job, _ in zip(jobs, pool.map(write, changed, jobs, notes), strict=True):
        yield FileOutcome(job, "written")


def _write(levels: Tensor, job: Job, note: str, quality: int | None, done: Tally) -> None:
    target, rows = job.target, levels.cpu()
    image = Image.fromarray((rows[0] if len(rows) == 1 else rows.permute(1, 2, 0)).numpy())
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_image(image, target, quality=quality, note=note)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
    # by the thread that wrote it: after an interrupt the outcome may never be yielded
    done.count += 1


FOLDERS, ARRAYS = "imagenet-c", "cifar-c"
LAYOUTS = {FOLDERS: "224", ARRAYS: "native"}
"""The default stimulus of each layout."""

SEVERAL = "several"
"""Replaces the corruption's name in the record of a folder with several corruptions."""


def corruptions_of(suite: str | None, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the corruptions to write, and the corruptions of the suite that cannot be used.

    `names` are corruptions of the suite, if there is one; without names, all of them are written.
    """
    if suite is None and not names:
        raise UsageError("Give the corruptions: --suite imagenet-c, or --corruption.")
    if suite is None:
        return list(dict.fromkeys(find_entry(name).name for name in names)), []
    if suite not in WITH_LEVELS:
        raise unknown_name("suite for --layout", suite, WITH_LEVELS)
    if names:
        return list(dict.fromkeys(entry.name for entry in entries_in(suite, names))), []
    whole = load_suite(suite)
    return [entry.name for entry in ready_entries(whole)], left_out(whole)


def check_layout(name: str | None) -> str:
    """Return the name of a layout; raise an error if it is unknown."""
    if name not in LAYOUTS:
        raise unknown_name("layout", str(name), LAYOUTS)
    return name


def cells(settings: Settings, corruptions: Sequence[str]) -> list[Settings]:
    """Return the settings of every corruption at every severity, in the order of processing."""
    usual = LAYOUTS[check_layout(settings.layout)]
    common = replace(settings, stimulus=settings.stimulus or usual)
    return [
        check_settings(replace(common, corruption=name, severity=float(severity)))
        for name in corruptions
        for severity in SEVERITIES
    ]


def common_settings(parts: Sequence[Settings], out: Path, begun: Mapping[str, Path]) -> Settings:
    """Return the settings that all parts of a folder have in common, for its record.

    `begun`: the existing folder or array of each corruption, which must have the same version.
    """
    now = {name: number for cell in parts for name, number in cell.corruption_versions.items()}
    recorded = recorded_versions(out, parts[0])
    before = recorded or {}
    for name, path in begun.items() if recorded is not None else ():
        if before.get(name, 1) != now.get(name, 1):
            raise UsageError(
                f"{path} has version {before.get(name, 1)} of {name}, not {now.get(name, 1)}: "
                "choose another folder for --out, or delete this one to regenerate it."
            )
    return replace(
        parts[0],
        # the record does not list the corruptions, so that a second suite can be added later
        corruption=SEVERAL,
        severity=None,
        style_transfer=None,
        # corruptions of an earlier run keep their versions
        corruption_versions=before | now,
    )


def folder_name(corruption: str) -> str:
    """Return the name of a corruption's folder or array, such that vcr/frost differs from frost."""
    return corruption.replace("/", "-")


def check_classes(images: Sequence[ImageFile]) -> None:
    """Raise a UsageError if an image is not in a class folder, or if two share an output file."""
    targets: dict[Path, Path] = {}
    for image in images:
        if len(image.relative.parts) != 2:
            raise UsageError(
                f"--layout {FOLDERS} needs class folders, DIR/CLASS/IMAGE, but {image.path} is "
                f"{'next to' if len(image.relative.parts) < 2 else 'below'} them: give the folder "
                "that contains the class folders."
            )
        other = targets.setdefault(image.relative.with_suffix(""), image.path)
        if other != image.path:
            raise UsageError(
                f"{other} and {image.path} would be written to the same file: rename one."
            )


def claim_folders(out: Path, parts: Sequence[Settings]) -> None:
    """Prepare the folder for images with these settings; raise an error if it cannot be used."""
    tops = {cell.corruption: out / folder_name(cell.corruption) for cell in parts}
    # existing folders must be from the same version of their corruption
    begun = {name: top for name, top in tops.items() if top.exists()}
    claim(out, common_settings(parts, out, begun), [Job(top, top) for top in sorted(tops.values())])
    remove_leftovers(
        folder for top in tops.values() for folder in top.glob("*/*") if folder.is_dir()
    )


def corrupt_folders(
    images: Sequence[ImageFile], parts: Sequence[Settings], out: Path, done: Tally
) -> Generator[FileOutcome]:
    """Write OUT/CORRUPTION/SEVERITY/CLASS/FILE for all images; yield the outcome for each file.

    Each image is read once and corrupted by every corruption at every severity, a few images at a
    time. An image that cannot be read is left out everywhere, and reported once.
    """
    # shared by all corruptions, so that each image is decoded once
    sources = Sources(parts[0].stimulus)
    for start in range(0, len(images), HELD_IMAGES):
        some = images[start : start + HELD_IMAGES]
        usable: list[ImageFile] = []
        for image, why in zip(some, _problems(some, sources), strict=True):
            if why:
                yield FileOutcome(Job(image.path, out / image.relative), "left out", why)
            else:
                usable.append(image)
        for cell in parts:
            jobs = [Job(image.path, _target(out, cell, image)) for image in usable]
            yield from corrupt_files(jobs, cell, done=done, sources=sources)


def _problems(images: Sequence[ImageFile], sources: Sources) -> list[str]:
    """Read the images and return, for each, why it cannot be used, or "" if it can be used."""

    def read(image: ImageFile) -> str:
        try:
            sources.digest(image.path)
            sources.levels(image.path)
        except OSError as error:
            return f"Cannot read {image.path}: {error.strerror}."
        except UsageError as error:
            return str(error) if str(image.path) in str(error) else f"{image.path}: {error}"
        return ""

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(read, images))


def _target(out: Path, cell: Settings, image: ImageFile) -> Path:
    """Return the output file of an image; its name is kept if the suffix fits the format."""
    assert cell.severity is not None
    relative = image.relative
    if cell.format != "jpeg":
        relative = relative.with_suffix(SUFFIX_OF[cell.format])
    elif relative.suffix.lower() not in (".jpg", ".jpeg"):
        # the suffix of ImageNet's own files
        relative = relative.with_suffix(".JPEG")
    return out / folder_name(cell.corruption) / str(int(cell.severity)) / relative
