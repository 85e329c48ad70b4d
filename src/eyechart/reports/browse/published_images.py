"""Published corrupted images, read from their files and compared with the recorded digests."""

import hashlib
from functools import cached_property
from pathlib import Path, PurePosixPath

import pyarrow as pa
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.images.image_files import IMAGE_SUFFIXES, read_image
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.published_source import open_images, to_planes
from eyechart.images.stimulus import find_stimulus
from eyechart.reports.browse.regenerated_images import WHERE, checked
from eyechart.results.runs import Run
from eyechart.testsets.published_files import Published, find_published


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
