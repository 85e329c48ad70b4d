"""Images of a test set, one at a time: regenerated from clean images, or read from published files.

The result has exactly the pixels that the models saw; otherwise a `UsageError` is raised.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.images.identity import content_keys
from eyechart.images.image_files import IMAGE_SUFFIXES, read_image
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import SOURCE, demo_images, find_images
from eyechart.images.imageset import load_listed
from eyechart.images.published_source import open_images, to_planes
from eyechart.images.stimulus import find_stimulus
from eyechart.results.runs import Run
from eyechart.testsets.manifest_rows import read_samples
from eyechart.testsets.published_files import Published, find_published
from eyechart.testsets.stimuli import CleanImages
from eyechart.visual_change.registry import find_ruler

CPU = torch.device("cpu")
WHERE = "start again with --images PATH, where PATH is their current location"


class RegeneratedImages:
    """Regenerates images from clean images at their recorded location or in `images`.

    As in `PublishedImages`, images are uint8 (3, H, W), failures raise a `UsageError`, and both
    methods take one row with the test set's columns; `clean` takes the row of the clean image.
    """

    def __init__(self, run: Run, images: Path | None) -> None:
        recorded, source = run.results.images, run.results.run.images
        self.stimulus, self.plan = recorded.stimulus, run.config.plan
        # Images that were not moved are still found where the run read them.
        self.sources = [source] if images is None else [str(images), source]
        self.leave_out = run.folder
        self._listed: dict[str, dict[str, ListedImage]] = {}

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

    def _images(self, source: str) -> Mapping[str, ListedImage]:
        """Return the clean images of a folder, a list or the demo by name; they are listed once."""
        if source not in self._listed:
            is_demo = source == SOURCE
            images = demo_images() if is_demo else find_images(Path(source), self.leave_out)
            self._listed[source] = {image.name: image for image in images}
        return self._listed[source]

    def _find(self, name: str, digest: str) -> ListedImage:
        """Return the clean image with this name; raise a UsageError if its file has changed."""
        problems = []
        for source in self.sources:
            try:
                image = self._images(source).get(name)
                if image is not None and image.digest() == digest:
                    return image
            except UsageError:
                problems.append(f"The images of this run are not at {source}")
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror or error})")
            else:
                is_other = image is not None
                reason = "has changed since the run" if is_other else "is missing"
                problems.append(f"{name} in {source} {reason}")
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


class PublishedImages:
    """Reads images from ImageNet-C's folders or CIFAR-10-C's arrays, or from `images` if given.

    Clean images are not part of these datasets; they are read only if `images` contains them.
    """

    def __init__(self, run: Run, images: Path | None) -> None:
        self.run, self.images = run, images

    def corrupted(self, row: pa.Table) -> Tensor:
        """Return the image as models saw it."""
        name, severity = row["image"][0].as_py(), int(row["severity"][0].as_py())
        corruption = row["corruption"][0].as_py()
        path = self._published.corruptions.get(corruption)
        if path is None:
            raise UsageError(f"{self._published.root} no longer has {corruption}: {WHERE}.")
        if self._published.is_arrays:
            array = open_images(path)
            # The array has all images at severity 1, then the same images at severity 2, and so on.
            index = (severity - 1) * (len(array) // 5) + int(name)
            if index >= len(array):
                raise UsageError(f"{path} no longer has the image {name}: {WHERE}.")
            return checked(to_planes(array[index : index + 1])[0], row)
        file = _with_any_suffix(path / str(severity), name)
        return checked(find_stimulus("native")(read_image(file)), row)

    def clean(self, row: pa.Table) -> Tensor:
        """Return the clean image as models saw it."""
        name, digest = row["image"][0].as_py(), row["digest"][0].as_py()
        # --images may also be the new location of the corrupted images, which contain no clean
        # ones.
        if self.images is None or find_published(self.images) is not None:
            raise UsageError(
                "The clean images of this run are not stored with the corrupted ones: start"
                " again with --images PATH, where PATH is the value of --clean in the run."
            )
        if self.images.suffix == ".npy":
            array = open_images(self.images)
            pixels = array[int(name) : int(name) + 1]
            if not len(pixels) or hashlib.sha256(pixels[0].tobytes()).hexdigest() != digest:
                raise UsageError(
                    f"{self.images} does not have the clean images of this run: {WHERE}."
                )
            return checked(to_planes(pixels)[0], row)
        # Clean and corrupted files may differ in folder and suffix. Several files can share a stem;
        # the digest decides.
        stem = PurePosixPath(name).stem
        for image in self._clean.get(stem, ()):
            if image.digest() == digest:
                stimulus = find_stimulus(str(self.run.config.clean))
                return checked(stimulus(image.read()[0]), row)
        raise UsageError(f"{stem} is not in {self.images}, or has changed since the run: {WHERE}.")

    @cached_property
    def _published(self) -> Published:
        # --images may name the clean images; then the corrupted ones are still at the recorded
        # location.
        for source in (self.images, Path(self.run.results.run.images)):
            published = None if source is None else find_published(source)
            if published is not None:
                return published
        raise UsageError(
            f"The corrupted images of this run are not at {self.run.results.run.images}: {WHERE}."
        )

    @cached_property
    def _clean(self) -> dict[str, list[ListedImage]]:
        assert self.images is not None
        by_stem: dict[str, list[ListedImage]] = {}
        for image in find_images(self.images):
            by_stem.setdefault(PurePosixPath(image.name).stem, []).append(image)
        return by_stem


def _with_any_suffix(folder: Path, name: str) -> Path:
    """Return the file of an image, which may be in a different format from the one recorded."""
    named = PurePosixPath(name)
    # The name comes from a file that may be from elsewhere: it must not lead out of the folder.
    if named.is_absolute() or ".." in named.parts:
        raise UsageError(f"{name} is not the name of an image.")
    endings = (named.suffix, *IMAGE_SUFFIXES, *map(str.upper, IMAGE_SUFFIXES))
    for ending in dict.fromkeys(endings):
        path = folder / named.with_suffix(ending)
        if path.is_file():
            return path
    raise UsageError(f"{name} is no longer in {folder}: {WHERE}.")
