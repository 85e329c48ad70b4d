"""Corrupt image files: decode, corrupt in batches, write, and report the outcome for each file."""

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.corruptions.suites.apply import corrupt
from eyechart.corruptions.suites.folder import Job, Settings, is_of_other_settings, note_of
from eyechart.images.identity import file_digest
from eyechart.images.image_files import (
    DECODED_PIXELS,
    DECODING,
    is_damaged,
    n_pixels,
    read_image,
    read_note,
    write_image,
)
from eyechart.images.image_types import to_batch
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
