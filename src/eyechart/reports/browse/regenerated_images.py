"""Regenerate images of a test set, one at a time, from their clean images.

The result has exactly the pixels that the models saw; otherwise a `UsageError` is raised.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.images.identity import content_keys
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import SOURCE, demo_images, find_images
from eyechart.images.imageset import load_listed
from eyechart.results.runs import Run
from eyechart.testsets.manifest_rows import read_samples
from eyechart.testsets.stimuli import CleanImages
from eyechart.visual_change.registry import find_ruler

CPU = torch.device("cpu")
WHERE = "start again with --images PATH, where PATH is their current location"


class ImageMaker(Protocol):
    """Regenerates the images of a run as uint8 (3, H, W); failures raise a `UsageError`.

    Both methods take one row with the test set's columns; `clean` takes the row of the clean image.
    """

    def corrupted(self, row: pa.Table) -> Tensor:
        """Return the image as models saw it."""

    def clean(self, row: pa.Table) -> Tensor:
        """Return the clean image as models saw it."""


@dataclass(frozen=True)
class CleanImageSource:
    """The source of clean images: a folder, a list, or the demo images."""

    source: str
    leave_out: Path

    @cached_property
    def images(self) -> Mapping[str, ListedImage]:
        """All clean images by name; they are listed only once."""
        is_demo = self.source == SOURCE
        images = demo_images() if is_demo else find_images(Path(self.source), self.leave_out)
        return {image.name: image for image in images}


class RegeneratedImages:
    """Regenerates images from clean images at their recorded location or in `images`."""

    def __init__(self, run: Run, images: Path | None) -> None:
        recorded, source = run.results.images, run.results.run.images
        self.stimulus, self.plan = recorded.stimulus, run.config.plan
        # Images that were not moved are still found where the run read them.
        sources = [source] if images is None else [str(images), source]
        self.sources = [CleanImageSource(source, run.folder) for source in sources]

    def corrupted(self, row: pa.Table) -> Tensor:
        """Return the image as models saw it."""
        image = self._find(row["image"][0].as_py(), row["digest"][0].as_py())
        images = load_listed([image], image.name, self.stimulus)
        (samples,) = read_samples(row, images, self.plan.entries())
        levels, keys = images.batch([0]), images.keys()
        # Without clean statistics, Δv is not measured again; it is already recorded.
        clean_images = CleanImages(
            np.zeros(1, dtype=np.int64), levels, keys, find_ruler(self.plan.ruler), None, CPU,
            self.plan.seed, self.plan.jpeg,
        )  # fmt: skip
        if samples.entry is not None:
            levels = clean_images.make(samples).images
        return checked(levels[0], row)

    def clean(self, row: pa.Table) -> Tensor:
        """Return the clean image as models saw it."""
        return self.corrupted(row)

    def _find(self, name: str, digest: str) -> ListedImage:
        """Return the clean image with this name; raise a UsageError if its file has changed."""
        problems = []
        for source in self.sources:
            try:
                image = source.images.get(name)
                if image is not None and image.digest() == digest:
                    return image
            except UsageError:
                problems.append(f"The images of this run are not at {source.source}")
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror or error})")
            else:
                is_other = image is not None
                reason = "has changed since the run" if is_other else "is missing"
                problems.append(f"{name} in {source.source} {reason}")
        # The first source is the one that was given with --images, if any.
        raise UsageError(f"{problems[0]}: {WHERE}.")


def checked(image: Tensor, row: pa.Table) -> Tensor:
    """Return the image, uint8 (3, H, W), if its pixels match the row's digest."""
    # Keys are int64 on the device and recorded as uint64, with the same bits.
    digest = content_keys(image[None]).numpy().view(np.uint64)[0]
    if int(digest) != row["pixels"][0].as_py():
        raise UsageError(
            f"Row {row['row'][0].as_py()} ({row['corruption'][0].as_py()}) cannot be regenerated"
            " with the pixels that the models saw, because the run used another version of"
            " eyechart or another type of device, so it is not shown."
        )
    return image
