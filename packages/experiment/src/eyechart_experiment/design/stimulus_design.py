"""Choose which images a study shows, in which role, and how many responses each one needs.

This module designs categorization studies and contains the functions that all studies share;
`pair_design` designs same/different studies.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.core.randomness import hash64
from eyechart.images.image_list import list_folder, list_manifest
from eyechart.testsets.plan import CLEAN
from eyechart.testsets.testset import TestSet
from eyechart_experiment.study_config import StudyConfig

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


Chosen = Mapping[str, Sequence[StudyImage]]
"""The images that the experimenter has chosen for the qualification or for catch trials, by role.
"""

MAIN, PRACTICE, QUALIFICATION, CATCH = "main", "practice", "qualification", "catch"


@dataclass(frozen=True)
class PlannedStimulus:
    """A row of the database table `stimulus`, before its image files are written."""

    role: str
    truth: str
    capacity: int | None
    images: tuple[StudySample, ...]
    pair: str | None = None


def pool_sizes(
    config: StudyConfig, catch_pool: int | None, available: int, chosen: Chosen | None = None
) -> dict[str, int]:
    """Return how many stimuli to reserve for practice, qualification and catch trials.

    Practice and qualification get 1.5 times as many stimuli as one participant needs, because
    trials lost when a page is reloaded must be replaced; catch trials get twice as many. If there
    are too few images, practice and qualification get exactly as many as one participant needs.

    Args:
        config: Settings of the study.
        catch_pool: Number of catch stimuli; None for the default.
        available: Number of source images; each can be used for only one stimulus.
        chosen: Images that the experimenter has chosen; all of them are reserved.

    Raises:
        UsageError: If there are not even enough images for one participant.
    """
    if catch_pool is not None and catch_pool < config.catch:
        raise UsageError(
            f"catch-pool must be at least the number of catch trials per participant"
            f" ({config.catch}), got {catch_pool}."
        )
    sizes = {role: len(images) for role, images in (chosen or {}).items()}
    for role, size in sizes.items():
        if size < getattr(config, role):
            raise UsageError(
                f"--{role}-images must have at least the {getattr(config, role)} images that one"
                f" participant sees (--{role}), got {size}."
            )
    catch = 2 * config.catch if catch_pool is None else catch_pool
    n_images = 2 if config.kind == "same-different" else 1
    smallest = {
        PRACTICE: config.practice, QUALIFICATION: config.qualification, CATCH: catch, **sizes,
    }  # fmt: skip
    ample = {
        PRACTICE: -(-config.practice * 3 // 2),
        QUALIFICATION: -(-config.qualification * 3 // 2),
        CATCH: catch,
        **sizes,
    }
    if n_images * (sum(ample.values()) + config.trials) <= available:
        return ample
    wanted = n_images * (sum(smallest.values()) + config.trials)
    if wanted > available:
        room = available // n_images - sum(smallest.values())
        reserved = ", ".join(f"--{role}" for role, size in smallest.items() if size)
        remedy = f"lower {reserved} and --trials, or " if reserved else ""
        if room > 0:
            remedy = f"lower --trials to at most {room}, or "
        double = " two per trial" if n_images == 2 else ""
        raise UsageError(
            f"The test set has {available} source images and this study needs {wanted}:{double}"
            f" for {smallest[PRACTICE]} practice, {smallest[QUALIFICATION]} qualification and"
            f" {smallest[CATCH]} catch trials, and for the {config.trials} trials of one"
            f" participant, who never sees a source image twice: {remedy}make the test set from"
            " more images."
        )
    return smallest


def source_loads(stimuli: Sequence[PlannedStimulus]) -> Mapping[str, int]:
    """Return how many main-trial responses are wanted for each source image."""
    loads: Counter[str] = Counter()
    for stimulus in stimuli:
        for digest in {row.digest for row in stimulus.images}:
            loads[digest] += stimulus.capacity or 0
    return {digest: load for digest, load in loads.items() if load}


def design_categories(
    sources: Sequence[StudyImage],
    config: StudyConfig,
    seed: int,
    catch_pool: int | None,
    chosen: Chosen | None = None,
) -> list[PlannedStimulus]:
    """Return the stimuli of a categorization study.

    Half of the practice trials show mildly corrupted images and half show clean images;
    qualification and catch trials show clean images. None of their source images appears in the
    main trials, which show all corrupted samples of the other source images. Unless `clean_k` is 0,
    the main trials also show the clean images, so that curves start at the accuracy on clean
    images.
    """
    check_categories(sources)
    pools = pool_sizes(config, catch_pool, len(sources), chosen)
    aside = set_aside(sources, pools, seed, chosen)
    mild = sorted(
        (source for source in aside[PRACTICE] if source.corrupted),
        key=lambda source: _mildest(source).change,
    )[: pools[PRACTICE] // 2]
    stimuli = [_single(PRACTICE, _mildest(source)) for source in mild]
    not_clean = {source.digest for source in mild}
    taken = {image.digest for images in aside.values() for image in images}
    for role, images in aside.items():
        stimuli += [_single(role, image.clean) for image in images if image.digest not in not_clean]
    main = [source for source in sources if source.digest not in taken]
    for source in main:
        if config.clean_k:
            stimuli.append(_single(MAIN, source.clean, config.clean_k))
        stimuli += [_single(MAIN, row, config.k) for row in source.corrupted]
    usable = len(source_loads(stimuli))
    if usable < config.trials:
        raise UsageError(
            f"Only {usable} source images have samples for main trials, but a participant needs"
            f" {config.trials}: lower --trials, or pass --clean-k."
        )
    return stimuli


def set_aside(
    sources: Sequence[StudyImage], pools: Mapping[str, int], seed: int, chosen: Chosen | None = None
) -> dict[str, list[StudyImage]]:
    """Return source images for practice, qualification and catch trials, balanced over categories.

    Images with few corrupted samples are taken first, so that the main trials lose few samples.
    More than half of the images in a category are taken only after half of the images in every
    other category have been taken. The choice depends only on the seed and the image digests.
    Roles in `chosen` get the images that the experimenter has chosen.
    """
    aside = {role: list(images) for role, images in (chosen or {}).items()}
    owners: dict[str, str] = {}
    for role, images in aside.items():
        for image in images:
            if owners.setdefault(image.digest, role) != role:
                raise UsageError(
                    f"{image.clean.name} is in --qualification-images and in --catch-images, but"
                    " nobody sees an image twice: remove it from one of them."
                )
    # In reverse order, because `pop` takes images from the end.
    left: dict[str, list[StudyImage]] = {}
    for source in sorted(
        (source for source in sources if source.digest not in owners),
        key=lambda image: (len(image.corrupted), hash64(seed, "aside", image.digest)),
        reverse=True,
    ):
        left.setdefault(source.category, []).append(source)
    half = {name: len(members) / 2 for name, members in left.items()}
    for role in (QUALIFICATION, CATCH, PRACTICE):
        if role in aside:
            continue
        drawn = aside.setdefault(role, [])
        used: Counter[str] = Counter()
        for _ in range(pools[role]):
            category = min(
                (name for name, members in left.items() if members),
                key=lambda name: (
                    # False sorts first: categories with more than half of their images left.
                    len(left[name]) <= half[name],
                    used[name],
                    -len(left[name]),
                    # With the role, so that ties do not favor the same categories in every role.
                    hash64(seed, role, name),
                ),
            )
            used[category] += 1
            drawn.append(left[category].pop())
    return aside


def _mildest(source: StudyImage) -> StudySample:
    # The row breaks ties, so that the choice does not depend on the order of the samples.
    return min(source.corrupted, key=lambda row: (row.change, row.row))


def _single(role: str, row: StudySample, capacity: int | None = None) -> PlannedStimulus:
    return PlannedStimulus(role, row.category, capacity, (row,))
