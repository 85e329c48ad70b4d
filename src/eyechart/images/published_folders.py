"""ImageNet-C's published layout: ROOT/CORRUPTION/SEVERITY/CLASS/FILE.

The published tar files add a folder (noise, blur, weather, digital, extra) above the corruptions,
which is accepted as well. File names are nearly the same in every folder.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from sys import intern

import numpy as np
import torch
from torch import Tensor

from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, plural, verb
from eyechart.core.progress import Advance, no_advance
from eyechart.images.image_files import IMAGE_SUFFIXES, READERS, read_image
from eyechart.images.image_list import ListedImage, printable
from eyechart.images.published_source import SEVERITIES, ReadResult
from eyechart.images.stimulus import STIMULI

GROUPS = ("noise", "blur", "weather", "digital", "extra")
"""The folders that the published tar files add above the corruptions."""

LEVELS = tuple(str(severity) for severity in SEVERITIES)
TRIED = 20
"""Maximum number of files that are tried to determine the common image size."""

Names = dict[str, list[str]]
"""The file names of each class, sorted."""


@dataclass(frozen=True, eq=False)
class PublishedFolder:
    """Images in ImageNet-C's folder layout.

    `folders`: the folder of each corruption. `named`: for each corruption and severity, a mapping
    from the name in `listed` to the actual file name, where the two differ.
    """

    folders: Mapping[str, Path]
    listed: tuple[ListedImage, ...]
    size: tuple[int, int]
    named: Mapping[tuple[str, int], Mapping[str, str]] = field(default_factory=dict)

    def path(self, corruption: str, severity: int, index: int) -> Path:
        """Return the path of an image's file for a corruption and severity."""
        name = self.listed[index].path.as_posix()
        file = self.named.get((corruption, severity), {}).get(name, name)
        return self.folders[corruption] / str(severity) / file

    def read(self, corruption: str, severities: Sequence[int], places: Sequence[int]) -> ReadResult:
        """Return the images at these positions, each at its severity, read by several threads."""
        paths = [self.path(corruption, *item) for item in zip(severities, places, strict=True)]
        with ThreadPoolExecutor(READERS) as pool:
            readings = list(pool.map(self._read, paths))
        good = [item for item in readings if isinstance(item, Tensor)]
        # torch.stack rejects an empty list.
        none = torch.empty(0, 3, *self.size, dtype=torch.uint8)
        return ReadResult(
            torch.stack(good) if good else none,
            np.array([isinstance(item, Tensor) for item in readings], dtype=bool),
            tuple(item for item in readings if isinstance(item, str)),
        )

    def _read(self, path: Path) -> Tensor | str:
        try:
            image = STIMULI["native"](read_image(path))
        except UsageError as error:
            return str(error)
        height, width = image.shape[1:]
        if (height, width) != self.size:
            size_text, all_others = f"{width} × {height}", f"{self.size[1]} × {self.size[0]}"
            return (
                f"{path} is {size_text} px, but other images are {all_others} px (width × height)."
            )
        return image

    def take(self, places: Sequence[int]) -> "PublishedFolder":
        """Return a subset: the images at these positions."""
        return replace(self, listed=tuple(self.listed[index] for index in places))


def find_folders(
    root: Path, known: Sequence[str], leave_out: Path | None = None
) -> tuple[dict[str, Path], list[str]] | None:
    """Find the corruptions in a folder that has the layout of ImageNet-C.

    A folder has this layout if it contains a known corruption with a severity folder (1 to 5), or
    if it contains another folder with nothing but severity folders that contain class folders. The
    output folder `leave_out` is ignored.

    Returns:
        A mapping from corruptions to their folders, known corruptions first, and the names of other
        folders. None if the folder has a different layout.
    """
    corruptions: dict[str, Path] = {}
    trees: dict[str, Path] = {}
    unknown: list[str] = []
    for folder in _folders(root):
        for candidate in _folders(folder) if folder.name in GROUPS else [folder]:
            if leave_out is not None and resolved_path(candidate) == resolved_path(leave_out):
                continue
            kind = corruptions if candidate.name in known else trees
            if candidate.name in known or _is_tree(candidate):
                if kind.setdefault(candidate.name, candidate) != candidate:
                    raise UsageError(
                        f"{candidate.name} exists twice, as {kind[candidate.name]} and"
                        f" {candidate}: remove one."
                    )
            else:
                unknown.append(candidate.relative_to(root).as_posix())
    if any((folder / level).is_dir() for folder in corruptions.values() for level in LEVELS):
        return {name: corruptions[name] for name in known if name in corruptions} | trees, unknown
    # Folders that are named like a corruption but have no severities are not corruptions.
    unknown += corruptions
    if trees and unknown:
        raise UsageError(
            f"{root} must contain CORRUPTION/SEVERITY/CLASS/ folders or class folders, but"
            f" {next(iter(trees))} has severities and {unknown[0]} has none: add severities to"
            " the latter, or move it elsewhere."
        )
    return (trees, []) if trees else None


def _is_tree(folder: Path) -> bool:
    """Return whether a folder contains only severities 1 to 5 with class folders in them."""
    if not any((folder / level).is_dir() for level in LEVELS):
        return False
    inside = _folders(folder)
    classes = [_folders(level) for level in inside if level.name in LEVELS]
    # An image directly in a severity belongs to no class.
    loose = (path for level in inside for path in level.iterdir())
    return (
        len(classes) == len(inside)
        and any(classes)
        and not any(path.suffix.lower() in IMAGE_SUFFIXES for path in loose)
    )


def is_one_corruption(root: Path) -> bool:
    """Return whether a folder contains five severities of one corruption with the same classes."""
    if [folder.name for folder in _folders(root)] != list(LEVELS) or not _is_tree(root):
        return False
    classes = [[path.name for path in _folders(root / level)] for level in LEVELS]
    return all(names == classes[0] for names in classes)


def _folders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, sorted, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if _is_folder(e) and not e.name.startswith(".")]
    except OSError as error:
        raise UsageError(f"Cannot read the folder {folder}: {error.strerror}.") from None
    return [folder / name for name in sorted(names)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def list_published(
    root: Path,
    folders: Mapping[str, Path],
    advance: Advance = no_advance,
) -> PublishedFolder:
    """Return the images that all these folders contain.

    `advance` is called for the folder of every corruption and severity.

    Raises:
        UsageError: If files are missing from some folders, as after an incomplete download.
    """
    listed: dict[tuple[str, int], Names] = {}
    for corruption, folder in folders.items():
        for severity in SEVERITIES:
            if (folder / str(severity)).is_dir():
                listed[corruption, severity] = _classes(folder / str(severity))
            advance(1, "")
    usual = _usual_names(root, listed.values())
    _check_complete(root, folders, usual, listed)
    images = tuple(
        ListedImage(Path(f"{name}/{file}"), printable(f"{name}/{file}"), printable(name))
        for name in usual
        for file in usual[name].values()
    )
    # Only suffixes can differ, such as .png in a folder of .jpg files.
    named = {
        key: {
            f"{name}/{usual[name][_stem(file)]}": f"{name}/{file}"
            for name, files in names.items()
            for file in files
            if usual[name][_stem(file)] != file
        }
        for key, names in listed.items()
    }
    published = PublishedFolder(folders, images, (0, 0), named)
    return replace(published, size=_size(root, published))


def _classes(folder: Path) -> Names:
    """Return the image files of every class folder."""
    classes: Names = {}
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if _is_folder(e) and not e.name.startswith(".")]
        for name in names:
            with os.scandir(os.path.join(folder, name)) as files:
                # 75 folders of 50,000 files have the same names, which are kept once.
                classes[name] = sorted(
                    intern(file.name)
                    for file in files
                    if file.name.lower().endswith(IMAGE_SUFFIXES) and file.name[0] != "."
                )
    except OSError as error:
        raise UsageError(f"Cannot read the folder {error.filename}: {error.strerror}.") from None
    return classes


def _stem(file: str) -> str:
    return file.rpartition(".")[0]


def _usual_names(root: Path, listed: Iterable[Names]) -> dict[str, dict[str, str]]:
    """Return the file name of every image in any of the folders, by class and file stem, sorted."""
    usual: dict[str, dict[str, str]] = {}
    for names in listed:
        for name, files in names.items():
            by_stem = {_stem(file): file for file in files}
            # Images are matched by stem, since severities may differ in suffix.
            if len(by_stem) < len(files):
                twice = next(file for file in files if file not in by_stem.values())
                raise UsageError(
                    f"{root} has two files with the same name in class {name}, such as"
                    f" {_stem(twice)}: remove one."
                )
            # Earlier folders take precedence: the suffix in the first folder is the usual name.
            usual[name] = {**by_stem, **usual.get(name, {})}
    if not any(usual.values()):
        raise UsageError(
            f"No images in {root}: CORRUPTION/SEVERITY/CLASS/ must contain files ending in "
            f"{', '.join(IMAGE_SUFFIXES)}."
        )
    return {name: dict(sorted(usual[name].items())) for name in sorted(usual)}


def _check_complete(
    root: Path,
    corruptions: Iterable[str],
    usual: Mapping[str, Mapping[str, str]],
    listed: Mapping[tuple[str, int], Names],
) -> None:
    """Raise a UsageError if a folder lacks files that another folder has."""
    total = sum(map(len, usual.values()))
    absent = [key for key in product(corruptions, SEVERITIES) if key not in listed]
    gaps = [f"{corruption} has no folder {severity}" for corruption, severity in absent]
    n_missing = len(absent) * total
    for (corruption, severity), names in listed.items():
        lacking = []
        for name, by_stem in usual.items():
            present = {_stem(file) for file in names.get(name, ())}
            lacking += [f"{name}/{stem}" for stem in by_stem if stem not in present]
        if lacking:
            n_missing += len(lacking)
            gaps.append(
                f"{corruption}/{severity} lacks {len(lacking):,} of {count_of(total, 'image')},"
                f" such as {printable(lacking[0])}"
            )
    gaps += [f"class {printable(name)} is empty everywhere" for name in usual if not usual[name]]
    if gaps:
        n_others = len(gaps) - 3
        more = f", and {n_others} more such {plural(n_others, 'gap')}" if n_others > 0 else ""
        count = f"{count_of(n_missing, 'image')} {verb(n_missing, 'is')}"
        raise UsageError(
            f"{root} is incomplete; {count} missing: {'; '.join(gaps[:3])}{more}; download the"
            " rest, or select complete corruptions with --corruption."
        )


def _size(root: Path, published: PublishedFolder) -> tuple[int, int]:
    """Return height and width in px of the first image that can be read."""
    why = ""
    # A few damaged files are tolerated elsewhere, so the first one alone does not decide.
    for index in range(min(TRIED, len(published.listed))):
        path = published.path(next(iter(published.folders)), SEVERITIES[0], index)
        try:
            image = read_image(path)
        except UsageError as error:
            why = str(error)
        else:
            return image.height, image.width
    raise UsageError(f"The first images in {root} cannot be read; the last error is: {why}")
