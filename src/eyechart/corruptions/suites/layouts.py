"""Write whole benchmarks as files in a published layout: ImageNet-C's folders, CIFAR-10-C's arrays.

This module determines output paths and settings; `file_corruption.py` corrupts and writes images,
and `array_layout.py` writes arrays.
"""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.storage.files import remove_leftovers
from eyechart.corruptions.suites.assets import left_out, ready_entries
from eyechart.corruptions.suites.file_corruption import (
    HELD_IMAGES,
    FileOutcome,
    Sources,
    Tally,
    corrupt_files,
)
from eyechart.corruptions.suites.folder import (
    SUFFIX_OF,
    Job,
    Settings,
    check_settings,
    claim,
    recorded_versions,
)
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.corruptions.suites.suite import find_entry, load_suite
from eyechart.corruptions.suites.suite_file import entries_in
from eyechart.images.image_files import ImageFile
from eyechart.images.published_source import SEVERITIES

FOLDERS, ARRAYS = "imagenet-c", "cifar-c"
STIMULI = {FOLDERS: "224", ARRAYS: "native"}
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
    if name not in STIMULI:
        raise unknown_name("layout", str(name), STIMULI)
    return name


def cells(settings: Settings, corruptions: Sequence[str]) -> list[Settings]:
    """Return the settings of every corruption at every severity, in the order of processing."""
    usual = STIMULI[check_layout(settings.layout)]
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
    common = common_settings(parts, out, begun)
    claim(out, common, [Job(top, top) for top in sorted(tops.values())])
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


def _problems(images: Sequence[ImageFile], sources: Sources) -> Iterator[str]:
    """Read the images and yield, for each, why it cannot be used, or "" if it can be used."""

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
        yield from list(pool.map(read, images))


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
