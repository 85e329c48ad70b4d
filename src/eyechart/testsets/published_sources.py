"""Published corrupted images, read from files: the folders of ImageNet-C, the arrays of CIFAR-10-C.

ImageNet-C's layout is ROOT/CORRUPTION/SEVERITY/CLASS/FILE. The published tar files add a folder
(noise, blur, weather, digital, extra) above the corruptions, which is accepted as well. File names
are nearly the same in every folder. In CIFAR-10-C's layout, CORRUPTION.npy has all images at
severity 1, then 2, … 5; arrays are memory-mapped, and only the requested images are read.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from sys import intern

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eyechart.core.arguments import regular_file, resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, plural, verb
from eyechart.images.image_files import IMAGE_SUFFIXES, READERS, read_image
from eyechart.images.image_list import ListedImage, printable
from eyechart.images.published_source import (
    CLASSES,
    CLEAN,
    LABELS,
    SEVERITIES,
    Levels,
    open_images,
    open_labels,
    to_planes,
)
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

    def read(
        self, corruption: str, severities: Sequence[int], indices: Sequence[int]
    ) -> list[Tensor | str]:
        """Return the images at these positions, each at its severity, read by several threads."""
        paths = [self.path(corruption, *item) for item in zip(severities, indices, strict=True)]
        with ThreadPoolExecutor(READERS) as pool:
            return list(pool.map(self._read, paths))

    def _read(self, path: Path) -> Tensor | str:
        try:
            image = STIMULI["native"](read_image(path))
        except UsageError as error:
            return str(error)
        height, width = image.shape[1:]
        if (height, width) != self.size:
            return (
                f"{path} is {width} × {height} px, but other images are {self.size[1]} ×"
                f" {self.size[0]} px (width × height)."
            )
        return image

    def select(self, indices: Sequence[int]) -> "PublishedFolder":
        """Return a subset: the images at these positions."""
        return replace(self, listed=tuple(self.listed[index] for index in indices))


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
    return [folder / name for name in sorted(e.name for e in _entries(folder) if _is_folder(e))]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, without hidden files and folders."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise UsageError(f"Cannot read the folder {folder}: {error.strerror}.") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def list_published(root: Path, folders: Mapping[str, Path]) -> PublishedFolder:
    """Return the images that all these folders contain.

    Raises:
        UsageError: If files are missing from some folders, as after an incomplete download.
    """
    listed = {
        (corruption, severity): _classes(folder / str(severity))
        for corruption, folder in folders.items()
        for severity in SEVERITIES
        if (folder / str(severity)).is_dir()
    }
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
    # 75 folders of 50,000 files have the same names, which are kept once.
    return {
        path.name: sorted(
            intern(entry.name)
            for entry in _entries(path)
            if entry.name.lower().endswith(IMAGE_SUFFIXES)
        )
        for path in _folders(folder)
    }


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


@dataclass(frozen=True, eq=False)
class PublishedArrays:
    """Images in arrays (5 N, H, W, 3), sorted by severity.

    `indices` are the positions of the selected images.
    """

    arrays: Mapping[str, Levels]
    listed: tuple[ListedImage, ...]
    size: tuple[int, int]
    count: int
    indices: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def read(
        self, corruption: str, severities: Sequence[int], indices: Sequence[int]
    ) -> list[Tensor | str]:
        """Return the images at these positions, each at its severity."""
        # An array contains all images at severity 1, then all at severity 2, and so on.
        rows = (np.asarray(severities) - 1) * self.count + self.indices[np.asarray(indices)]
        return list(to_planes(self.arrays[corruption][rows]))

    def select(self, indices: Sequence[int]) -> "PublishedArrays":
        """Return a subset: the images at these positions."""
        images = tuple(self.listed[index] for index in indices)
        return PublishedArrays(
            self.arrays, images, self.size, self.count, self.indices[np.asarray(indices)]
        )


def find_arrays(root: Path, known: Sequence[str]) -> tuple[dict[str, Path], list[str]] | None:
    """Find the arrays in a folder that has the layout of CIFAR-10-C.

    If the folder has a labels file, every image array counts as a corruption, regardless of its
    name. If no array is named after a known corruption, all arrays count as corruptions, provided
    the folder has no subfolders.

    Returns:
        A mapping from corruptions to their files, known corruptions first, and the names of files
        that are not used. None if the folder has a different layout.
    """
    files = {
        path.stem: path for path in sorted(root.glob("*.npy")) if path.name not in (LABELS, CLEAN)
    }
    arrays = {name: files[name] for name in known if name in files}
    has_labels = (root / LABELS).exists()
    if not arrays and has_labels and not any(path.is_dir() for path in root.iterdir()):
        return (files, []) if files else None
    # If some corruptions are known, other arrays count only if they contain images; the rest are
    # reported.
    unknown = {name: path for name, path in files.items() if name not in known}
    more = {name: path for name, path in unknown.items() if has_labels and _is_image_array(path)}
    unused = [path.name for name, path in unknown.items() if name not in more]
    return (arrays | more, unused) if arrays else None


def _is_image_array(path: Path) -> bool:
    """Return whether a file is an array of images."""
    try:
        open_images(path)
    except UsageError:
        return False
    return True


def open_arrays(root: Path, files: Mapping[str, Path]) -> PublishedArrays:
    """Return the images in these files with the labels from the same folder.

    Raises:
        UsageError: If the arrays differ in shape, or do not contain five severities with labels.
    """
    arrays = {name: open_images(path) for name, path in files.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if shape != shapes[first]:
            raise UsageError(
                f"All arrays must have the same shape, got {shapes[first]} in {files[first]} and "
                f"{shape} in {files[name]}: download the dataset again, or select other "
                "corruptions with --corruption."
            )
    rows, height, width, _ = shapes[first]
    if rows % len(SEVERITIES):
        raise UsageError(
            f"{files[first]} must contain the same number of images at each of 5 severities, got "
            f"{rows} in total: download it again."
        )
    count = rows // len(SEVERITIES)
    names = _class_names(root / CLASSES, _labels_of_severities(root / LABELS, rows))
    images = tuple(
        ListedImage(root / LABELS, str(number), label) for number, label in enumerate(names)
    )
    return PublishedArrays(arrays, images, (height, width), count, np.arange(count))


def _labels_of_severities(path: Path, rows: int) -> list[int]:
    """Return the class number of each image; raise an error if severities have different labels."""
    labels = open_labels(path, rows)
    by_severity = labels.reshape(len(SEVERITIES), -1)
    # A position selects an image at every severity, so its label must not depend on it.
    if labels.min() < 0 or (by_severity != by_severity[0]).any():
        raise UsageError(
            f"{path} must contain the same non-negative class numbers for each of 5 severities;"
            " the file is damaged or belongs to another dataset."
        )
    return [int(label) for label in by_severity[0]]


def _class_names(path: Path, numbers: Sequence[int]) -> list[str]:
    """Return the name of each class number from a file; without a file, the number as text."""
    try:
        names = regular_file(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return [str(number) for number in numbers]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {path}: {error}.") from None
    # Two classes with the same name could not be told apart in results.
    if max(numbers) >= len(names) or not all(names) or len(set(names)) < len(names):
        raise UsageError(
            f"{path} must name each class once, one per line, but has"
            f" {count_of(len(names), 'line')} for class numbers up to {max(numbers)}: complete it,"
            " or remove it."
        )
    return [names[number] for number in numbers]
