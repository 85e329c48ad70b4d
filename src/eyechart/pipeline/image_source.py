"""Data source of an evaluation: resolved before the run, read when it begins."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from eyechart.core.arguments import FilePath, as_path
from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.corruptions.suites.catalogue import is_read
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.images.image_list import ImageListing
from eyechart.images.image_sources import EXPECTED, SOURCE, ImageData, demo_images, find_listing
from eyechart.images.imageset import ImageSet, load_indexed, load_listing
from eyechart.images.stimulus import resolve_auto
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_files import Published, find_published, load_published
from eyechart.testsets.samples import choose_images


@dataclass(frozen=True)
class ImageSource:
    """Images to be corrupted, or published corrupted images and optionally their clean images.

    Attributes:
        images: A path, images in memory or loaded images; None for the demo.
        stimulus: Size of the stimulus.
        clean: Clean versions of published corrupted images.
        leave_out: Results folder, which is skipped when input images are listed.
        published: The published dataset; None if `images` is not a published folder.
        download: Whether a dataset may be downloaded.
    """

    images: Path | ImageSet | ImageData | None
    stimulus: str = "224"
    clean: Path | None = None
    leave_out: Path | None = None
    published: Published | None = None
    download: bool = False

    def settings(self, settings: EvaluateSettings) -> EvaluateSettings:
        """Return the settings for these images: published files determine the suite."""
        suite = None if settings.suite is None else os.fspath(as_path(settings.suite, "suite"))
        if self.published is None:
            # Some suites are published as files only and cannot be generated.
            if suite is not None and is_read(suite):
                raise UsageError(f"{suite} is read from files: give its folder as --images.")
            return settings
        if suite is not None and not (suite in WITH_LEVELS or is_read(suite)):
            raise UsageError(
                f"{self.published.root} contains {self.published.titles}, but --suite is {suite}: "
                "omit --suite, or give the clean images as --images."
            )
        if settings.testset is not None:
            raise UsageError(
                f"{self.published.root} contains corrupted images, which need no test set: omit "
                "--testset, or give the clean images as --images."
            )
        # The folder determines suite, corruptions and severities.
        return settings.with_plan(self.published.plan(settings.at_published_strengths().plan))

    def load(self, plan: Plan, progress: Progress, index: Path | None = None) -> ImageSet:
        """Return the images that a plan uses.

        `index`: a file with the digests and sizes of the images, from which they are read if it
        exists; otherwise it is written.
        """
        if self.published is not None:
            begin = partial(progress.begin, "clean images")
            return load_published(self.published, plan, self.clean, self.stimulus, begin)
        if isinstance(self.images, ImageSet):
            return self.images.select(choose_images(self.images.listed, plan).tolist())
        if self.images is None:
            listing = ImageListing(SOURCE, demo_images())
        else:
            listing = find_listing(self.images, self.leave_out, download=self.download)
        chosen = [listing.images[index] for index in choose_images(listing.images, plan)]
        step = progress.begin("images", len(chosen))
        listing = replace(listing, images=chosen)
        if index is not None:
            return load_indexed(listing, self.stimulus, index, step)
        return load_listing(listing, self.stimulus, step)


def find_source(
    images: FilePath | ImageSet | ImageData | None,
    stimulus: str = "224",
    clean: FilePath | None = None,
    leave_out: FilePath | None = None,
    *,
    download: bool = False,
) -> ImageSource:
    """Return the data source after checking that it is valid; nothing is listed or read yet."""
    window = resolve_auto(stimulus).window
    beside = None if clean is None else Path(as_path(clean, "clean"))
    results = None if leave_out is None else Path(as_path(leave_out, "out"))
    published = None
    if isinstance(images, str | os.PathLike):
        images = Path(as_path(images, "images", EXPECTED))
        published = find_published(images, results)
    elif isinstance(images, ImageSet) and window not in (None, images.stimulus.window):
        raise UsageError("An ImageSet is already decoded: give the window to load_images instead.")
    if published is not None and window is not None:
        raise UsageError(
            f"A window applies only to images that eyechart corrupts, but {images} already contains"
            " corrupted images: omit --window."
        )
    if clean is not None and published is None:
        raise UsageError(
            "--clean applies to published corrupted images only, but --images has no folders "
            "CORRUPTION/SEVERITY/CLASS: give the clean images as --images to corrupt them here."
        )
    if beside is not None and not beside.exists():
        raise UsageError(f"No such file or folder: {beside}.")
    return ImageSource(images, stimulus, beside, results, published, download)
