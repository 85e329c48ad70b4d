"""Test sets of published corrupted images: folders as in ImageNet-C, arrays as in CIFAR-10-C."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, first_names, verb
from eyechart.core.progress import Advance, no_advance
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.catalogue import (
    FILE_SUITES,
    OTHERS,
    known_names,
    of_one_benchmark,
    suite_of,
    together_with,
)
from eyechart.corruptions.suites.published import WITH_LEVELS
from eyechart.corruptions.suites.suite import load_suite
from eyechart.images.image_files import unread_notes
from eyechart.images.image_list import ListedImage
from eyechart.images.image_sources import find_images
from eyechart.images.imageset import ImageSet, load_listed
from eyechart.images.published_source import CorruptedSource, open_images, to_planes
from eyechart.images.stimulus import FILES, Stimulus, find_stimulus, resolve_auto
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_sources import (
    find_arrays,
    find_folders,
    is_one_corruption,
    list_published,
    open_arrays,
)
from eyechart.testsets.samples import choose_images, stem_of

FEW = 20
"""Number of clean images that are checked to tell whether they were already resized."""

VALIDATION = "ILSVRC2012_val_"
"""Prefix of the file names of ImageNet's validation images, which are unique."""


@dataclass(frozen=True)
class Published:
    """A recognized folder of corrupted images.

    `corruptions`: the folder or array of each corruption; known corruptions come first, in the
    order of the suites. `other_names`: other files or folders in the same folder. `is_arrays`:
    whether the layout is CIFAR-10-C's rather than ImageNet-C's.
    """

    root: Path
    corruptions: Mapping[str, Path]
    other_names: tuple[str, ...]
    is_arrays: bool

    def plan(self, plan: Plan) -> Plan:
        """Return the plan for the corruptions in this folder.

        Raises:
            UsageError: If the plan has settings that apply only to images corrupted by eyechart, or
                names corruptions that the folder lacks.
        """
        usual = Plan(plan.suite)
        for name in ("sampling", "jpeg"):
            if getattr(plan, name) != getattr(usual, name):
                raise UsageError(
                    f"{name} applies only to images that eyechart corrupts, but the images in "
                    f"{self.root} are used unchanged: omit it."
                )
        # Sampling options are rejected above, since they would silently have no effect.
        wanted = self._of_suite(plan.suite)
        chosen = plan.corruptions or tuple(name for name in wanted if name in self.corruptions)
        for name in chosen:
            if name not in self.corruptions:
                raise unknown_name(f"corruption in {self.root}", str(name), self.corruptions)
        if not chosen:
            raise UsageError(f"{self.root} has no corruptions of the suite {plan.suite}.")
        return replace(plan, suite=suite_of(chosen), corruptions=tuple(chosen), sampling=None)

    def _of_suite(self, suite: str) -> Sequence[str]:
        """Return the corruption names of the suite or benchmark, or all names in this folder."""
        if suite in WITH_LEVELS:
            return [entry.name for entry in load_suite(suite)]
        if suite in FILE_SUITES:
            return FILE_SUITES[suite]
        if suite == OTHERS == suite_of(list(self.corruptions)):
            return list(self.corruptions)
        if suite != Plan.suite:
            raise UsageError(f"{self.root} contains {self.titles}, but the suite is {suite}.")
        return of_one_benchmark(self.corruptions) or list(self.corruptions)

    @property
    def titles(self) -> str:
        """The benchmark that the corruptions belong to, in a few words."""
        suite = suite_of(self._of_suite(Plan.suite))
        return "other corruptions" if suite == OTHERS else f"corruptions of {suite}"

    def notes(self, plan: Plan) -> tuple[str, ...]:
        """Return a sentence about ignored corruptions and files; () if nothing is ignored."""
        foreign = set(self.corruptions) - together_with(plan.suite)
        aside = [*sorted(foreign - set(plan.corruptions)), *self.other_names]
        if not aside:
            return ()
        return (f"Ignored because they are not in {plan.suite}: {first_names(aside)}.",)


def find_published(root: Path, leave_out: Path | None = None) -> Published | None:
    """Return what a folder of published corrupted images contains; None for any other folder.

    Images are neither listed nor read yet. `leave_out` is the output folder, which is skipped.
    """
    if not root.is_dir():
        return None
    known = known_names()
    arrays = find_arrays(root, known)
    if arrays is not None:
        return Published(root, arrays[0], tuple(arrays[1]), is_arrays=True)
    folders = find_folders(root, known, leave_out)
    if folders is not None:
        return Published(root, folders[0], tuple(folders[1]), is_arrays=False)
    # A common mistake, which would otherwise be read as class folders named 1 to 5.
    if (root.name in known and (root / "1").is_dir()) or is_one_corruption(root):
        raise UsageError(f"{root} contains a single corruption: give its parent folder.")
    return None


def load_published(
    published: Published,
    plan: Plan,
    clean: Path | None,
    stimulus: str = "224",
    begin: Callable[[int], Advance] = lambda n_images: no_advance,
) -> ImageSet:
    """Return the images of a plan, with their clean versions if `clean` is given.

    Clean images are resized to the stimulus; corrupted ones are used unchanged. `begin` is called
    with the number of clean images to read and returns the progress callback.
    """
    how = resolve_auto(stimulus)
    chosen = {name: published.corruptions[name] for name in plan.corruptions}
    files: CorruptedSource
    if published.is_arrays:
        files = open_arrays(published.root, chosen)
    else:
        files = list_published(published.root, chosen)
    # Chosen before clean images are read, so that only these are decoded.
    indices = choose_images(files.listed, plan).tolist()
    if clean is None:
        image_set = _without_clean(str(published.root), files.select(indices))
    elif published.is_arrays:
        # The array of clean images has all of them in order, so the subset is taken afterwards.
        image_set = _beside_array(str(published.root), files, clean).select(indices)
    else:
        advance = begin(len(indices))
        image_set = _beside_clean(published.root, files.select(indices), clean, how, advance)
    return replace(image_set, notes=(*image_set.notes, *published.notes(plan)))


def _without_clean(source: str, files: CorruptedSource) -> ImageSet:
    # Class and stem, which do not depend on the folder or on the suffix.
    names = (_key(image) for image in files.listed)
    return ImageSet(
        source,
        Stimulus(FILES, None, None),
        files.listed,
        tuple(hashlib.sha256("/".join(name).encode()).hexdigest() for name in names),
        (files.size,) * len(files.listed),
        files=files,
        has_clean=False,
    )


def _beside_array(source: str, files: CorruptedSource, clean: Path) -> ImageSet:
    """Return the images with their clean versions from an array that has the same order."""
    if clean.suffix != ".npy":
        raise UsageError(f"--clean must be a .npy file for arrays of images, got {clean}.")
    array, count = open_images(clean), len(files.listed)
    if array.shape != (count, *files.size, 3):
        raise UsageError(
            f"{clean} must contain the clean images in the same order, with shape "
            f"{(count, *files.size, 3)}, got {array.shape}."
        )
    return ImageSet(
        source,
        Stimulus(FILES, None, None),
        files.listed,
        tuple(hashlib.sha256(image.tobytes()).hexdigest() for image in array),
        (files.size,) * count,
        kept=dict(enumerate(to_planes(array))),
        files=files,
    )


def _beside_clean(
    root: Path, files: CorruptedSource, clean: Path, how: Stimulus, advance: Advance
) -> ImageSet:
    """Return the images with their clean versions from a folder or list, resized if necessary."""
    listed = _match(files.listed, clean)
    if all(image.size() == files.size for image in listed[:FEW]):
        # Already at the final size: resizing again would misalign them with the corrupted files.
        how = find_stimulus("native")
    loaded = load_listed(listed, str(root), how.name, advance, unread_notes(clean))
    for image, size in zip(loaded.listed, loaded.sizes, strict=True):
        if size != files.size:
            raise UsageError(
                f"Clean images must have the same size as corrupted images, {files.size[1]} ×"
                f" {files.size[0]} px (width × height), but {image.path} with stimulus {how.name}"
                f" has {size[1]} × {size[0]}: give --stimulus 224 for original images, or native"
                " for images that are already resized."
            )
    indices = {image.name: position for position, image in enumerate(files.listed)}
    # Clean images that could not be decoded are left out, and so are their corrupted files.
    used = files.select([indices[image.name] for image in loaded.listed])
    return replace(loaded, stimulus=replace(how, name=FILES), files=used)


def _match(images: Sequence[ListedImage], clean: Path) -> list[ListedImage]:
    """Return each image with its clean file, which has the same class and stem.

    For ImageNet's validation images the file name alone is enough, in any folder.
    """
    clean_images: dict[tuple[str, str], ListedImage] = {}
    for image in find_images(clean):
        label, stem = _key(image)
        # The key without a class lets validation images match in any folder.
        keys = [(label, stem)] + [("", stem)] * stem.startswith(VALIDATION)
        for key in dict.fromkeys(keys):
            other = clean_images.setdefault(key, image)
            if other.path != image.path:
                raise UsageError(
                    f"{other.path} and {image.path} have the same name: remove one from {clean}."
                )
    matched, missing = [], []
    for image in images:
        label, stem = _key(image)
        clean_image = clean_images.get((label, stem)) or clean_images.get(("", stem))
        if clean_image is None:
            missing.append(image.name)
        else:
            matched.append(
                replace(
                    image,
                    path=clean_image.path,
                    content=clean_image.content,
                    category=clean_image.category,
                )
            )
    if missing:
        raise UsageError(
            f"{len(missing)} of {count_of(len(images), 'image')}"
            f" {verb(len(missing), 'has')} no clean image in {clean}, such as"
            f" {missing[0]}: --clean must have the same class folders and file names."
        )
    return matched


def _key(image: ListedImage) -> tuple[str, str]:
    """Return an image's class and its file name without the suffix."""
    return image.label or "", stem_of(image.name)
