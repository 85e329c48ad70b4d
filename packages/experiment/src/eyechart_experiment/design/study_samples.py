"""Read the samples of a test set for a study: source image, corruption and Δv."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.images.image_list import list_folder, list_manifest
from eyechart.testsets.plan import CLEAN
from eyechart.testsets.testset import TestSet

COLUMNS = ("row", "digest", "image", "label", "category", "corruption", "parameters", "delta_v")


@dataclass(frozen=True)
class StudySample:
    """One sample of a test set.

    Attributes:
        digest: Digest of the source image's file, which identifies it in every study.
        name: Name of that file.
        category: One of the 16 categories, or "".
        delta_v: Visual change in [0, 1], or None if it cannot be measured.
    """

    row: int
    digest: str
    name: str
    label: str | None
    category: str
    corruption: str
    parameters: Mapping[str, float]
    delta_v: float | None

    @property
    def is_clean(self) -> bool:
        """Whether no corruption was applied."""
        return self.corruption == CLEAN

    @property
    def change(self) -> float:
        """The sample's Δv, which must be known."""
        assert self.delta_v is not None
        return self.delta_v


@dataclass(frozen=True)
class StudyImage:
    """A source image: its clean sample, and its corrupted samples that have a Δv."""

    clean: StudySample
    corrupted: tuple[StudySample, ...]

    @property
    def digest(self) -> str:
        """Digest of the source image's file."""
        return self.clean.digest

    @property
    def category(self) -> str:
        """One of the 16 categories, or ""."""
        return self.clean.category


def read_rows(testset: TestSet) -> list[StudySample]:
    """Return all samples of a test set."""
    columns = {name: testset.table[name].to_pylist() for name in COLUMNS}
    return [
        StudySample(
            row,
            digest,
            name,
            label,
            category or "",
            corruption,
            # Parameters are stored as JSON, which has neither NaN nor infinity.
            {key: value for key, value in parameters if math.isfinite(value)},
            delta_v,
        )
        for row, digest, name, label, category, corruption, parameters, delta_v in zip(
            *columns.values(), strict=True
        )
    ]


def group_by_source(rows: Sequence[StudySample]) -> list[StudyImage]:
    """Return the source images in test-set order; each must have a clean sample.

    The same file under two names is one source image. Corrupted samples without Δv are left out.
    """
    clean: dict[str, StudySample] = {}
    corrupted: dict[str, list[StudySample]] = {}
    for row in rows:
        if row.is_clean:
            first = clean.setdefault(row.digest, row)
            if first.category != row.category:
                raise UsageError(
                    f"{first.name} and {row.name} are the same image with different labels, "
                    f"{first.category or 'no category'} and {row.category or 'no category'}: "
                    "keep one of them and regenerate the test set."
                )
        elif row.delta_v is not None:
            corrupted.setdefault(row.digest, []).append(row)
    bare = next((row for row in rows if row.digest not in clean), None)
    if bare is not None:
        raise UsageError(
            f"The test set has no clean image of {bare.name}, which a study needs: regenerate it"
            " with eyechart testset make."
        )
    return [StudyImage(row, tuple(corrupted.get(digest, ()))) for digest, row in clean.items()]


def find_images(path: Path, sources: Sequence[StudyImage]) -> list[StudyImage]:
    """Return the source images that a folder contains or a list names, recognized by their files.

    Raises:
        UsageError: If one of them is not in the test set.
    """
    by_digest = {source.digest: source for source in sources}
    listed = list_folder(path) if path.is_dir() else list_manifest(path)
    found: dict[str, StudyImage] = {}
    for image in listed:
        digest = image.digest()
        if digest not in by_digest:
            raise UsageError(
                f"{image.where} is not one of the test set's images: make the test set with it, or"
                f" leave it out of {path}."
            )
        found[digest] = by_digest[digest]
    return list(found.values())


def check_categories(sources: Sequence[StudyImage]) -> None:
    """Raise `UsageError` if an image does not belong to one of the 16 categories."""
    outside = [image.clean for image in sources if not image.category]
    if not outside:
        return
    unlabeled = [row for row in outside if row.label is None]
    total = len(sources)
    if unlabeled:
        raise UsageError(
            f"{len(unlabeled)} of {count_of(total, 'image')} in the test set"
            f" {verb(len(unlabeled), 'has')} no label, such as"
            f" {unlabeled[0].name}: put them into folders named after the 16 categories, or list"
            " them in a table with a category column, and regenerate the test set with"
            " --labels entry16."
        )
    raise UsageError(
        f"{len(outside)} of {total} images in the test set are outside the 16 categories that"
        f" participants choose from, such as {outside[0].name} (labeled '{outside[0].label}'):"
        " regenerate the test set with --labels entry16."
    )
