"""Choose which images a study shows, in which role, and how many responses each one needs.

This module designs categorization studies and contains the functions that all studies share;
`pair_design` designs same/different studies.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart_experiment.design.study_samples import StudyImage, StudySample, check_categories
from eyechart_experiment.study_config import StudyConfig

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
