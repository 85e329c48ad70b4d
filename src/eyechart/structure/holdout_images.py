"""Labeled images whose style or subclass is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.structure.duplicates import as_small, near_duplicates
from eyechart.training.data import LabeledImages, images_have, training_data

Trait = Literal["style", "subclass"]
AT_ONCE = 2048
"""Number of images per batch in the search for near-duplicates."""


@dataclass(frozen=True, eq=False)
class HoldoutImages:
    """Images for hold-out studies.

    `to_test` is a mask (N,) of the dataset's own test images, which are never used for training.
    `progress` receives the progress of the search for near-duplicates.
    """

    data: LabeledImages
    to_test: NDArray[np.bool_]
    progress: Progress = NO_PROGRESS

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class index of each image, (N,)."""
        labels: NDArray[np.int64] = self.data.labels.numpy()
        return labels

    def names(self, trait: Trait) -> tuple[str, ...]:
        """Return the style or subclass of each image; raise a UsageError if an image has none.

        The name of a subclass includes its class, because two classes may have subclasses of the
        same name.
        """
        images = self.data.images.listed
        check_trait(images, trait, self.data.images.source)
        if trait == "style":
            return tuple(str(one.style) for one in images)
        return tuple(subclass_of(str(one.label), str(one.subclass)) for one in images)

    @cached_property
    def copies(self) -> NDArray[np.int64]:
        """Index pairs (M, 2) of near-duplicates.

        Mirror images count as near-duplicates, because training flips images.
        """
        pixels: list[NDArray[np.uint8]] = []
        for start in range(0, len(self.data), AT_ONCE):
            indices = range(start, min(start + AT_ONCE, len(self.data)))
            pixels += [
                # Only the 32 px versions are kept, so that memory does not depend on the stimulus.
                as_small(image)
                for image in self.data.batch(indices).permute(0, 2, 3, 1).numpy()
            ]
        step = self.progress.begin("searching for near-duplicates", len(pixels))
        return near_duplicates(pixels, mirrored=True, advance=step)

    def with_copies(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return these indices and the indices of all their near-duplicates."""
        # Pairs are unordered: either member may be the chosen one.
        is_touched = np.isin(self.copies, indices).any(axis=1)
        return np.union1d(indices, self.copies[is_touched])


def check_trait(images: Sequence[ListedImage], trait: Trait, source: str) -> None:
    """Raise a UsageError unless all images have a style or subclass."""
    bare = [image.name for image in images if getattr(image, trait) is None]
    if bare:
        how = "a list (CSV) with a column named style"
        if trait == "subclass":
            how = "a list (CSV) with a column named subclass, or folders class/subclass/"
        raise UsageError(
            f"{images_have(len(bare), source)} no {trait}, such as {bare[0]}: pass {how}, filled"
            " in for every image."
        )


def subclass_of(label: str, subclass: str) -> str:
    """Return the name class/subclass, with slashes inside either name doubled."""
    # Doubling slashes keeps "a/b" + "c" and "a" + "b/c" apart.
    return "/".join(name.replace("/", "//") for name in (label, subclass))


def load_holdout_images(
    where: Path, trait: Trait, stimulus: str, progress: Progress, leave_out: Path | None = None
) -> HoldoutImages:
    """Return the images in a list or in class folders, all of which have a style or subclass.

    `leave_out`: a folder of results to ignore, which may be inside the image folder.
    """
    listed = find_images(where, leave_out)
    check_trait(listed, trait, str(where))
    step = progress.begin("images", len(listed))
    return as_holdout_images(load_listed(listed, str(where), stimulus, step), progress=progress)


def as_holdout_images(
    images: ImageSet, to_test: Sequence[bool] | None = None, progress: Progress = NO_PROGRESS
) -> HoldoutImages:
    """Return images prepared for hold-out studies."""
    data = training_data(images)
    tested = np.zeros(len(data), dtype=bool) if to_test is None else np.array(to_test)
    return HoldoutImages(data, tested, progress)
