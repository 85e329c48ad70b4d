"""Pictures of a test set made again, one at a time, from the photographs they were made of.

What comes back has the pixels that the models saw, or there is a sentence that says why not.
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
from eyechart.images.dataset import Picture, find_images
from eyechart.images.demo import SOURCE, demo_pictures
from eyechart.images.identity import content_keys, file_digest, named_keys
from eyechart.images.imageset import load_pictures
from eyechart.results.runs import Run
from eyechart.testsets.manifest import read_samples
from eyechart.testsets.stimuli import CleanImages
from eyechart.visual_change.registry import find_ruler

CPU = torch.device("cpu")
WHERE = "start again with --images PATH, the place where they are now"


class Maker(Protocol):
    """Makes the pictures of a run again: uint8 (3, H, W), or a UsageError that says why not.

    Both are given one row with the test set's columns, `clean` that of the clean picture.
    """

    def corrupted(self, row: pa.Table) -> Tensor:
        """Return the picture as models saw it."""

    def clean(self, row: pa.Table) -> Tensor:
        """Return the clean picture as models saw it."""


@dataclass(frozen=True)
class Place:
    """A place where photographs may be: a folder, a list, or the demo's."""

    source: str
    leave_out: Path

    @cached_property
    def pictures(self) -> Mapping[str, Picture]:
        """All photographs by name; they are looked for once."""
        if self.source == SOURCE:
            return {picture.name: picture for picture in demo_pictures()}
        found = find_images(Path(self.source), self.leave_out)
        return {picture.name: picture for picture in found}


class Photographs:
    """Makes pictures from photographs that lie where they did, or in `images`."""

    def __init__(self, run: Run, images: Path | None) -> None:
        about = run.results.images
        self.stimulus, self.plan = about.stimulus, run.config.plan
        sources = [about.source] if images is None else [str(images), about.source]
        self.places = [Place(source, run.folder) for source in sources]

    def corrupted(self, row: pa.Table) -> Tensor:
        """Return the picture as models saw it."""
        picture = self._find(row["picture"][0].as_py(), row["digest"][0].as_py())
        images = load_pictures([picture], picture.name, self.stimulus)
        (samples,) = read_samples(row, images, self.plan.entries())
        levels, keys = images.batch([0]), named_keys(images.digests, 1)
        # without a description of the clean image Δv, which is known, is not measured again
        clean_images = CleanImages(
            np.zeros(1, dtype=np.int64), levels, keys, find_ruler(self.plan.definition), None, CPU,
            self.plan.seed, self.plan.jpeg,
        )  # fmt: skip
        if samples.entry is not None:
            levels = clean_images.make(samples).images
        return checked(levels[0], row)

    def clean(self, row: pa.Table) -> Tensor:
        """Return the clean picture as models saw it."""
        return self.corrupted(row)

    def _find(self, name: str, digest: str) -> Picture:
        """Return the photograph of that name, unless it is another file than it was."""
        problems = []
        for place in self.places:
            try:
                picture = place.pictures.get(name)
                if picture is not None and file_digest(picture.path) == digest:
                    return picture
            except UsageError:
                problems.append(f"The photographs of this run are not at {place.source}")
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror or error})")
            else:
                is_other = picture is not None
                what = "is another file than the run was made of" if is_other else "is not there"
                problems.append(f"{name} in {place.source} {what}")
        raise UsageError(f"{problems[0]}: {WHERE}.")


def checked(picture: Tensor, row: pa.Table) -> Tensor:
    """Return the picture, uint8 (3, H, W), if its pixels are those that a row says."""
    digest = content_keys(picture[None]).numpy().view(np.uint64)[0]
    if int(digest) != row["pixels"][0].as_py():
        raise UsageError(
            f"Row {row['row'][0].as_py()} ({row['corruption'][0].as_py()}) can only be made with"
            " other pixels than the models saw: the run is of another version of eyechart or of"
            " another kind of device, so it is not shown."
        )
    return picture
