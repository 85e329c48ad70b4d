"""Where the pictures to train with and those to test with come from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.images.image_files import unread_notes
from eyechart.images.image_list import Picture, find_images
from eyechart.images.imageset import ImageSet, load_pictures
from eyechart.training.data import every_class, refuse_shared, split


@dataclass(frozen=True)
class TrainingSources:
    """Two folders or lists of labelled pictures, or one of which a share is held out to test with.

    `stimulus`: how pictures are brought to size. `every`: only every so-many-th class is used,
    sorted by name; 10 makes ImageNet-100 of ImageNet. `leave_out`: a folder of results, which may
    lie among the pictures. `n_classes`: how many classes there must be before some are left out,
    None for any number.
    """

    images: Path
    train_images: Path | None = None
    stimulus: str = "224"
    every: int = 1
    held_out: float = 0.2
    leave_out: Path | None = None
    n_classes: int | None = None

    def load(self, progress: Progress) -> tuple[ImageSet, ImageSet]:
        """Return the pictures to train with, and those to test with; none is among both."""
        load = partial(
            load_labelled, stimulus=self.stimulus, progress=progress, leave_out=self.leave_out
        )
        classes = self.n_classes
        if self.train_images is None:
            images = load(self.images, "pictures", self.every, n_classes=classes)
            train, test = split(images, self.held_out)
        else:
            train = load(self.train_images, "pictures to train with", self.every, n_classes=classes)
            kept = {picture.label for picture in train.pictures}
            chosen = kept if self.every != 1 else None
            test = load(self.images, "pictures to test with", 1, kept=chosen)
        refuse_shared(train, test)
        return train, test


def load_labelled(
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
    """Return the pictures of a folder or a list, of every so-many-th class, or of those `kept`."""
    listed: Sequence[Picture] = find_images(where, leave_out)
    count = len({picture.label for picture in listed if picture.label is not None})
    if n_classes is not None and count != n_classes:
        raise UsageError(
            f"Every {every}th class is taken of {n_classes:,}, and {where} has {count:,}: give"
            " --every 1 if they are chosen already, or another --every."
        )
    if kept is not None:
        listed = [picture for picture in listed if picture.label in kept]
    if every != 1:
        listed = every_class(listed, every)
    step = progress.begin(title, len(listed))
    return load_pictures(listed, str(where), stimulus, step, unread_notes(where, leave_out))
