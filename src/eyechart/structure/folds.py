"""Folds of hold-out studies: images to train on, and held-out and familiar images to test on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.structure.holdout_images import HoldoutImages
from eyechart.structure.structure_settings import FAMILIAR, PUBLISHED


@dataclass(frozen=True, eq=False)
class Fold:
    """Indices of the images used for one training and its two tests.

    Attributes:
        name: Name of the fold.
        held: Styles or subclasses that are held out.
        train: Images to train on, without near-duplicates of test images unless the protocol is
            the published one.
        held_out: Test images of held-out styles or subclasses.
        familiar: Other test images; per class, as many as are held out, or fewer if there are not
            enough. With the published protocol, none unless the dataset has its own test set.
        copies: Number of near-duplicates removed from training.
    """

    name: str
    held: tuple[str, ...]
    train: IntArray
    held_out: IntArray
    familiar: IntArray
    copies: int


def style_folds(
    kinds: HoldoutImages, only: Sequence[str] = (), seed: int = 0, protocol: str = FAMILIAR
) -> list[Fold]:
    """Return one fold per style (in `only`, if given) that holds out all images of the style."""
    styles = np.array(kinds.names("style"))
    known = sorted(set(styles.tolist()))
    if len(known) < 2:
        raise UsageError(
            f"All images in {kinds.data.images.source} have the same style, {known[0]!r}: use "
            "images of at least two styles."
        )
    for name in only:
        if name not in known:
            raise unknown_name("style", name, known)
    chosen = [name for name in known if not only or name in only]
    names = kinds.data.class_names
    for number, label in enumerate(names):
        class_styles = set(styles[kinds.labels == number].tolist())
        # A class with a single style would be missing from the training set of that fold.
        if len(class_styles) == 1 and class_styles <= set(chosen):
            raise UsageError(
                f"The class {label!r} has images of only one style, {class_styles.pop()!r}, so no "
                "training images would be left: add other styles, or remove the class."
            )
    return [_fold(kinds, name, (name,), styles == name, seed, protocol) for name in chosen]


def subclass_folds(
    kinds: HoldoutImages,
    per_class: int = 1,
    *,
    in_all: int | None = None,
    folds: int = 3,
    order: Sequence[Sequence[str]] | None = None,
    seed: int = 0,
    protocol: str = FAMILIAR,
) -> list[Fold]:
    """Return folds that each hold out some subclasses, a fixed number per class or in total.

    Subclasses are chosen at random; subclasses that no earlier fold has held out are preferred.

    Args:
        kinds: The images, with their classes and subclasses.
        per_class: Number of subclasses per class.
        in_all: Number of subclasses over all classes, instead of `per_class`.
        folds: Number of folds.
        order: Published order in which the subclasses of each class are held out.
        seed: Seed of the random choice.
        protocol: Which images to train on, one of `PROTOCOLS`.
    """
    subclasses = np.array(kinds.names("subclass"))
    of_class = {
        label: sorted(set(subclasses[kinds.labels == number].tolist()))
        for number, label in enumerate(kinds.data.class_names)
    }
    if folds < 1:
        raise UsageError(f"folds must be a whole number of at least 1, got {folds}.")
    if order is not None and in_all is not None:
        raise UsageError("A published order is defined per class: pass --per-class, not --in-all.")
    if order is not None and folds != 1:
        raise UsageError(
            f"The published hold-out has one fold, got {folds}: omit --folds, or use --order"
            " random for a mean over several folds."
        )
    if order is not None:
        of_class = {label: list(names) for label, names in zip(of_class, order, strict=True)}
    else:
        of_class = {
            # Ordered by a hash instead of shuffled: adding other subclasses does not change the
            # order of these.
            label: sorted(names, key=lambda name: hash64("subclass", seed, name))
            for label, names in of_class.items()
        }
    if in_all is None:
        held = _of_each(of_class, per_class, folds)
    else:
        held = _over_all(of_class, in_all, folds, seed)
    differ = len(set(held))
    if differ < len(held):
        raise UsageError(
            f"Only {differ} folds differ, because there are no other subclasses to hold out: pass"
            f" --folds {differ}."
        )
    return [
        _fold(kinds, f"fold {number}", names, np.isin(subclasses, names), seed, protocol)
        for number, names in enumerate(held, start=1)
    ]


def named_fold(
    kinds: HoldoutImages, held: Sequence[str], seed: int = 0, protocol: str = FAMILIAR
) -> Fold:
    """Return the fold that holds out these subclasses, named as in `HoldoutImages.names`."""
    subclasses = np.array(kinds.names("subclass"))
    is_held = np.isin(subclasses, list(held))
    return _fold(kinds, "fold 1", tuple(sorted(held)), is_held, seed, protocol)


def _of_each(of_class: dict[str, list[str]], per_class: int, folds: int) -> list[tuple[str, ...]]:
    if per_class < 1:
        raise UsageError(f"per_class must be a whole number of at least 1, got {per_class}.")
    for label, names in of_class.items():
        if len(names) <= per_class:
            subclasses = count_of(len(names), "subclass")
            raise UsageError(
                f"The class {label!r} has {subclasses}, so {per_class} cannot be held out: hold "
                "out fewer, add images of other subclasses, or remove the class."
            )
    return [
        tuple(
            sorted(
                # Folds take the shuffled subclasses in turn and start over once all have been held
                # out.
                names[(fold * per_class + turn) % len(names)]
                for names in of_class.values()
                for turn in range(per_class)
            )
        )
        for fold in range(folds)
    ]


def _over_all(
    of_class: dict[str, list[str]], count: int, folds: int, seed: int
) -> list[tuple[str, ...]]:
    """Return the subclasses held out in each fold; every class keeps at least one for training."""
    room = sum(len(names) - 1 for names in of_class.values())
    if not 1 <= count <= room:
        raise UsageError(
            f"Between 1 and {room:,} subclasses can be held out, because every class must keep"
            f" one, got {count}."
        )
    held_out: list[tuple[str, ...]] = []
    used: Counter[str] = Counter()
    pairs = [(label, name) for label, names in of_class.items() for name in names]
    for fold in range(folds):
        # One subclass per class must remain for training.
        left = {label: len(names) - 1 for label, names in of_class.items()}
        chosen: list[str] = []
        # Subclasses that no earlier fold held out come first.
        for label, name in sorted(
            pairs, key=lambda pair: (used[pair[1]], hash64("over all", seed, fold, pair[1]))
        ):
            if len(chosen) < count and left[label]:
                chosen.append(name)
                left[label] -= 1
                used[name] += 1
        held_out.append(tuple(sorted(chosen)))
    return held_out


def _fold(
    kinds: HoldoutImages,
    name: str,
    held: tuple[str, ...],
    is_held: NDArray[np.bool_],
    seed: int,
    protocol: str,
) -> Fold:
    split = bool(kinds.to_test.any())
    # Held-out images outside a dataset's test set are used neither for training nor for testing.
    held_out = np.flatnonzero(is_held & kinds.to_test if split else is_held)
    if not len(held_out):
        raise UsageError(f"There are no test images of {name!r}, which is held out.")
    if protocol == PUBLISHED:
        train = np.flatnonzero(~is_held & ~kinds.to_test)
        _check(kinds, name, train)
        # The dataset's own test images are not trained on, so they can still be familiar images.
        familiar = _familiar(kinds, held_out, ~is_held & kinds.to_test, name, seed)
        return Fold(name, held, train, held_out, familiar, 0)
    copies = np.zeros(len(is_held), dtype=bool)
    # Training must not contain near-duplicates of any test image.
    copies[kinds.with_copies(np.flatnonzero(is_held))] = True
    is_other = ~is_held & ~copies
    familiar = _familiar(
        kinds, held_out, is_other & kinds.to_test if split else is_other, name, seed
    )
    if not len(familiar):
        raise UsageError(
            f"There are no familiar images to test on when {name!r} is held out: every class"
            " needs at least two images that are not held out."
        )
    # Near-duplicates of familiar test images are also removed from training.
    is_tested = np.zeros(len(is_held), dtype=bool)
    is_tested[familiar] = True
    copies[kinds.with_copies(familiar)] = True
    copies &= ~is_held & ~is_tested
    left = ~is_held & ~is_tested & ~kinds.to_test
    train = np.flatnonzero(left & ~copies)
    _check(kinds, name, train)
    return Fold(name, held, train, held_out, familiar, int((left & copies).sum()))


def _familiar(
    kinds: HoldoutImages, held_out: IntArray, is_other: NDArray[np.bool_], name: str, seed: int
) -> IntArray:
    """Return familiar images, as many per class as are held out, but at most half of the class."""
    digests = kinds.data.images.digests
    wanted = np.bincount(kinds.labels[held_out], minlength=len(kinds.data.class_names))
    chosen: list[int] = []
    for number, count in enumerate(wanted.tolist()):
        candidates = np.flatnonzero(is_other & (kinds.labels == number)).tolist()
        # Ordered by a hash of the content, so that the choice does not depend on file names or
        # order.
        candidates.sort(key=lambda index: hash64("familiar", seed, name, digests[index]))
        # A dataset's own test images are never used for training; without them, half of the images
        # are left for training.
        most = len(candidates) if kinds.to_test.any() else len(candidates) // 2
        chosen += candidates[: min(count, most)]
    return np.array(sorted(chosen), dtype=np.int64)


def _check(kinds: HoldoutImages, name: str, train: IntArray) -> None:
    counts = np.bincount(kinds.labels[train], minlength=len(kinds.data.class_names))
    empty = [
        label for label, count in zip(kinds.data.class_names, counts, strict=True) if count < 1
    ]
    if empty:
        raise UsageError(
            f"No training images of the class {empty[0]!r} are left when {name!r} is held out: add "
            "images that are not held out, or remove the class."
        )
