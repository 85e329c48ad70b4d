"""Load images of seen subclasses for training and testing, and of unseen subclasses for testing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, first_names
from eyechart.core.progress import Progress
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.structure.superclasses import Sorted, Superclass
from eyechart.training.data import LabeledImages, split, training_data

HELD_OUT = 0.2
"""Fraction of each seen synset's images kept for testing, if there are no separate test images."""


@dataclass(frozen=True, eq=False)
class Split:
    """Images of seen subclasses for training and testing, and of unseen subclasses for testing.

    The classes are the superclasses; an image's `subclass` is its synset.
    """

    superclasses: tuple[Superclass, ...]
    train: LabeledImages
    seen: LabeledImages
    unseen: LabeledImages
    notes: tuple[str, ...] = ()

    @property
    def synsets(self) -> tuple[str, ...]:
        """Synset of each test image, seen synsets first."""
        listed = (*self.seen.images.listed, *self.unseen.images.listed)
        return tuple(str(image.subclass) for image in listed)


def load_split(
    chosen: Sorted, source: str, stimulus: str, progress: Progress, seen_source: str = ""
) -> Split:
    """Return the decoded images; no training image is among the test images.

    Without `chosen.seen_test`, a fifth of the seen images is kept for testing, and a note says so.

    Args:
        chosen: Images sorted by superclass.
        source: Data source of the images.
        stimulus: How images are resized.
        progress: Where progress is reported.
        seen_source: Data source of `chosen.seen_test`.
    """
    listed = (*chosen.seen, *chosen.unseen)
    is_seen = {item.name for item in chosen.seen}
    images = load_listed(listed, source, stimulus, progress.begin("images", len(listed)))
    # By name: damaged images were left out, so positions have shifted.
    seen, unseen = (
        images.take(
            [p for p, item in enumerate(images.listed) if (item.name in is_seen) == is_wanted]
        )
        for is_wanted in (True, False)
    )
    notes = [*chosen.notes, *_on_damaged(images)]
    if chosen.seen_test:
        step = progress.begin("test images of seen subclasses", len(chosen.seen_test))
        tested = load_listed(chosen.seen_test, seen_source, stimulus, step)
        # Files that are in both sources are removed from training, not from the test.
        learnt, copies = _without(seen, tested)
        notes += _on_damaged(tested)
        if copies:
            notes.append(
                f"Removed from training, because the same files are in {seen_source}: "
                f"{count_of(copies, 'image')} of seen subclasses."
            )
    else:
        # A seen synset may have a single image; only its superclass needs images for training and
        # for testing.
        learnt, tested = split(seen, HELD_OUT, lone=True)
        notes.append(
            f"Seen accuracy is measured on a fifth of the images of seen subclasses in {source}. "
            "Networks"
            " pretrained on ImageNet-1K may have been trained on these images, so seen accuracy and"
            " gap may be too high: pass --seen-images, such as ImageNet-1K's validation images."
        )
    # A file of a seen synset is not an unseen image, even if it is in an unseen synset's folder.
    unseen, copies = _without(unseen, seen, tested)
    if copies:
        notes.append(
            f"Removed from the test images, because the same files are in seen subclasses: "
            f"{count_of(copies, 'image')} of unseen subclasses."
        )
    names = tuple(item.name for item in chosen.superclasses)
    _check_all_left(names, learnt, tested)
    if not len(unseen):
        raise UsageError(
            f"All images of unseen subclasses in {source} are also among the images of seen "
            "subclasses."
        )
    train, test, new = (
        training_data(_relabeled(item), names, min_per_class=1) for item in (learnt, tested, unseen)
    )
    if len({item.size for item in (train, test, new)}) > 1:
        raise UsageError(
            f"Images of seen and unseen subclasses in {source} must have the same size: pass"
            " --stimulus 224, or another size."
        )
    return Split(chosen.superclasses, train, test, new, tuple(notes))


def _on_damaged(images: ImageSet) -> list[str]:
    if not images.damaged:
        return []
    return [
        f"Damaged images were left out: {count_of(len(images.damaged), 'image')}:"
        f" {first_names([image.name for image in images.damaged])}."
    ]


def _check_all_left(names: Sequence[str], learnt: ImageSet, tested: ImageSet) -> None:
    """Raise a UsageError unless every superclass has images for training and for testing."""
    for part, purpose in ((learnt, "train"), (tested, "test")):
        left = {image.subclass for image in part.listed}
        for name in names:
            if name not in left:
                raise UsageError(
                    f"No images of the superclass {name!r} are left to {purpose}: add images of "
                    "subclasses in ImageNet-1K, or remove it from --superclasses."
                )


def _without(images: ImageSet, *known_sets: ImageSet) -> tuple[ImageSet, int]:
    """Return the images whose digests are not in `known_sets`, and how many were left out."""
    known = {digest for known_set in known_sets for digest in known_set.digests}
    kept = [index for index, digest in enumerate(images.digests) if digest not in known]
    return images.take(kept), len(images) - len(kept)


def _relabeled(images: ImageSet) -> ImageSet:
    """Return the images with the superclass as label and the synset as subclass."""
    listed = (replace(image, label=image.subclass, subclass=image.label) for image in images.listed)
    return replace(images, listed=tuple(listed))
