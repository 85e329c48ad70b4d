"""ImageNet-C's published layout: ROOT/CORRUPTION/SEVERITY/CLASS/FILE.

The published tar files add a folder (noise, blur, weather, digital, extra) above the corruptions,
which is accepted as well. File names are nearly the same in every folder, so only one listing and
the differences from it are stored.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

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
    return len(classes) == len(inside) and any(classes) and not any(map(_has_images, inside))


def _has_images(folder: Path) -> bool:
    """Return whether there is an image directly in the folder, not in a subfolder."""
    return any(path.suffix.lower() in IMAGE_SUFFIXES for path in folder.iterdir())


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
    absent: list[tuple[str, int]] = []
    first: Names | None = None
    for corruption, folder in folders.items():
        for severity in SEVERITIES:
            level = folder / str(severity)
            if not level.is_dir():
                absent.append((corruption, severity))
            else:
                names = _classes(level)
                first = names if first is None else first
                # Store only differences: 75 lists of 50,000 names would take hundreds of MB.
                listed[corruption, severity] = {
                    name: names.get(name, [])
                    for name in names.keys() | first.keys()
                    if names.get(name) != first.get(name)
                }
            advance(1, "")
    first = first or {}
    stems = _all_stems(root, first, listed)
    _check_whole(root, stems, first, listed, absent)
    images = tuple(
        ListedImage(Path(f"{name}/{file}"), printable(f"{name}/{file}"), printable(name))
        for name in sorted(stems)
        for file in stems[name].values()
    )
    named = {key: _differing(names, stems) for key, names in listed.items() if names}
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
                classes[name] = sorted(
                    file.name
                    for file in files
                    if file.name.lower().endswith(IMAGE_SUFFIXES) and file.name[0] != "."
                )
    except OSError as error:
        raise UsageError(f"Cannot read the folder {error.filename}: {error.strerror}.") from None
    return classes


def _stem(file: str) -> str:
    return file.rpartition(".")[0]


def _all_stems(
    root: Path, first: Names, listed: Mapping[tuple[str, int], Names]
) -> dict[str, dict[str, str]]:
    """Return the file name of every image in any of the folders, by class and file stem."""
    stems: dict[str, dict[str, str]] = {}
    for names in (first, *listed.values()):
        for name, files in names.items():
            by_stem = {_stem(file): file for file in files}
            # Images are matched by stem, since severities may differ in suffix.
            if len(by_stem) < len(files):
                raise UsageError(
                    f"{root} has two files with the same name in class {name}, such as"
                    f" {_twice(files)}: remove one."
                )
            # Earlier folders take precedence: the suffix in the first folder is the usual name.
            stems[name] = {**by_stem, **stems.get(name, {})}
    if not any(stems.values()):
        raise UsageError(
            f"No images in {root}: CORRUPTION/SEVERITY/CLASS/ must contain files ending in "
            f"{', '.join(IMAGE_SUFFIXES)}."
        )
    return {name: dict(sorted(by_stem.items())) for name, by_stem in stems.items()}


def _twice(files: Sequence[str]) -> str:
    stems = [_stem(file) for file in files]
    return next(stem for stem in stems if stems.count(stem) > 1)


def _differing(listed: Names, stems: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return a mapping from usual names to names in this folder, for images whose names differ.

    Only suffixes can differ, such as .png in a folder of .jpg files.
    """
    return {
        f"{name}/{usual}": f"{name}/{file}"
        for name, files in listed.items()
        for file in files
        if (usual := stems[name][_stem(file)]) != file
    }


def _check_whole(
    root: Path,
    stems: Mapping[str, Mapping[str, str]],
    first: Names,
    listed: Mapping[tuple[str, int], Names],
    absent: Sequence[tuple[str, int]],
) -> None:
    """Raise a UsageError if a folder lacks files that another folder has."""
    total = sum(map(len, stems.values()))
    gaps = [f"{corruption} has no folder {severity}" for corruption, severity in absent]
    missing = len(absent) * total
    # Classes in which a later folder has images that are missing from the first one: since only
    # differences are stored, these must be checked in every folder.
    grown = [name for name in stems if len(stems[name]) > len(first.get(name, ()))]
    for (corruption, severity), names in listed.items():
        lacking = []
        for name in dict.fromkeys((*names, *grown)):
            present = {_stem(file) for file in names.get(name, first.get(name, []))}
            lacking += [f"{name}/{stem}" for stem in stems[name] if stem not in present]
        if lacking:
            missing += len(lacking)
            gaps.append(
                f"{corruption}/{severity} lacks {len(lacking):,} of {count_of(total, 'image')},"
                f" such as {printable(lacking[0])}"
            )
    empty = sorted(name for name, names in stems.items() if not names)
    if empty:
        gaps.append(f"class {printable(empty[0])} is empty everywhere")
    if gaps:
        others = len(gaps) - 3
        more = f", and {others} more such {plural(others, 'gap')}" if others > 0 else ""
        count = f"{count_of(missing, 'image')} {verb(missing, 'is')}"
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
