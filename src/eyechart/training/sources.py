"""The sources of training images and test images."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.images.image_files import unread_notes
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.training.data import every_class, reject_shared, split


@dataclass(frozen=True)
class TrainingSources:
    """Sources of training and test images.

    If there is only one source, a fraction of its images is held out for testing.

    `stimulus`: how images are resized and cropped. `every`: use only every n-th class, sorted by
    name; 10 gives ImageNet-100 from ImageNet. `leave_out`: an output folder to skip, since it may
    be inside the image folder. `n_classes`: the expected number of classes before some are left
    out, None if any number is accepted.
    """

    images: Path
    train_images: Path | None = None
    stimulus: str = "224"
    every: int = 1
    held_out: float = 0.2
    leave_out: Path | None = None
    n_classes: int | None = None

    def load(self, progress: Progress) -> tuple[ImageSet, ImageSet]:
        """Return the training images and the test images, which are disjoint."""
        load = partial(
            load_labeled, stimulus=self.stimulus, progress=progress, leave_out=self.leave_out
        )
        classes = self.n_classes
        if self.train_images is None:
            images = load(self.images, "images", self.every, n_classes=classes)
            train, test = split(images, self.held_out)
        else:
            train = load(self.train_images, "training images", self.every, n_classes=classes)
            # The test set gets the classes that were selected for training.
            kept = {image.label for image in train.listed}
            chosen = kept if self.every != 1 else None
            test = load(self.images, "test images", 1, kept=chosen)
        reject_shared(train, test)
        return train, test


def load_labeled(
    where: Path,
    title: str,
    every: int,
    stimulus: str,
    progress: Progress,
    *,
    kept: Collection[str | None] | None = None,
    leave_out: Path | None = None,
    n_classes: int | None = None,
) -> ImageSet:
    """Return the images in a folder or list: every n-th class, or the classes in `kept`."""
    listed: Sequence[ListedImage] = find_images(where, leave_out)
    count = len({image.label for image in listed if image.label is not None})
    if n_classes is not None and count != n_classes:
        raise UsageError(
            f"--every {every} expects {n_classes:,} classes, but {where} has {count:,}: give"
            " --every 1 if the classes are already selected, or a different --every."
        )
    if kept is not None:
        listed = [image for image in listed if image.label in kept]
    if every != 1:
        listed = every_class(listed, every)
    step = progress.begin(title, len(listed))
    return load_listed(listed, str(where), stimulus, step, unread_notes(where, leave_out))
