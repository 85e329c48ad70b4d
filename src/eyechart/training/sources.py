"""Where the pictures to train with and those to test with come from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.evaluation.task import Progress
from eyechart.images.dataset import Picture, find_images
from eyechart.images.imageset import ImageSet, load_pictures
from eyechart.training.data import every_class, refuse_shared, split


@dataclass(frozen=True)
class Sources:
    """Two folders or lists of labelled pictures, or one of which a share is held out to test with.

    `stimulus`: how pictures are brought to size. `every`: only every so-many-th class is used,
    sorted by name; 10 makes ImageNet-100 of ImageNet.
    """

    images: Path
    train_images: Path | None = None
    stimulus: str = "224"
    every: int = 1
    held_out: float = 0.2

    def load(self, progress: Progress) -> tuple[ImageSet, ImageSet]:
        """Return the pictures to train with, and those to test with; none is among both."""
        if self.train_images is None:
            own = load_labelled(self.images, "pictures", self.stimulus, self.every, progress)
            train, test = split(own, self.held_out)
        else:
            train = load_labelled(
                self.train_images, "pictures to train with", self.stimulus, self.every, progress
            )
            kept = {picture.label for picture in train.pictures}
            test = load_labelled(
                self.images,
                "pictures to test with",
                self.stimulus,
                1,
                progress,
                kept if self.every != 1 else None,
            )
        refuse_shared(train, test)
        return train, test


def load_labelled(
    where: Path,
    title: str,
    stimulus: str,
    every: int,
    progress: Progress,
    kept: Collection[str | None] | None = None,
) -> ImageSet:
    """Return the pictures of a folder or a list, of every so-many-th class, or of those `kept`."""
    listed: Sequence[Picture] = find_images(where)
    if kept is not None:
        listed = [picture for picture in listed if picture.label in kept]
    if every != 1:
        listed = every_class(listed, every)
    step = progress.begin(title, len(listed))
    return load_pictures(listed, str(where), stimulus, step)
