"""Image sets that published results were measured on, and how they are recognized.

The image set determines whether a baseline table is valid for given images.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath

from eyechart.core.phrases import count_of, verb
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.scores.baseline_tables import IMAGENET, ROBUSTBENCH, Baseline, find_baseline

IMAGENET_100 = "imagenet-100-val"
IMAGE_SETS = {
    IMAGENET: "ImageNet's 50,000 validation images",
    ROBUSTBENCH: "the 5,000 ImageNet validation images used by RobustBench",
    IMAGENET_100: "ImageNet-100: the validation images of every tenth ImageNet class",
    "vcr-sample": "ImageNet images sampled by the authors of VCR, in 16 categories",
    "vcr-tests": "ImageNet validation images, 50,000 samples for each corruption",
    "icons-50": "ICONS-50: 10,000 icons of 50 classes",
    "cifar-100": "CIFAR-100: 20 superclasses of 5 subclasses",
}
"""Title of each image set. Only the first two sets are recognized in runs."""

N_IMAGES, N_CLASSES = 50_000, 1_000
"""Number of images and number of classes in ImageNet's validation set."""

SIDE, QUALITY = 224, 85
"""Side in pixels and JPEG quality of ImageNet-C's files."""

ALEXNET_BASELINE = (
    "evaluate a baseline on the same images, for example --baseline torchvision:alexnet --download"
)
"""What to do with ImageNet's classes where no published table is valid."""

NAME = re.compile(r"(?:.*[/\\])?ILSVRC2012_val_(\d{8})(?:\.\w+)?")

ROBUSTBENCH_DIGEST = "b03ccff6d05e129cb1b9cd2b27b30c1a81031dfde52a7c44be9c6d93077407ed"
"""`names_digest` of the 5,000 validation images that RobustBench uses (robustbench 1.1.1)."""

Labels = Mapping[str, int] | Mapping[int, int]
"""Number of images per class, by WordNet id or index."""


def names_digest(names: Sequence[str]) -> str:
    """Return the SHA-256 of the sorted file names, without folder and extension, one per line."""
    # Without folder and extension, which differ between copies of the dataset.
    stems = sorted(PurePath(name).stem for name in names)
    return sha256("\n".join(stems).encode()).hexdigest()


def are_robustbench_images(names: Sequence[str]) -> bool:
    """Return whether these are the file names of RobustBench's 5,000 validation images."""
    return names_digest(names) == ROBUSTBENCH_DIGEST


def are_imagenet_images(names: Sequence[str]) -> bool:
    """Return whether these are the file names of ImageNet's whole validation set."""
    # ImageNet's validation files are numbered, so that their names identify the set.
    matches = (NAME.fullmatch(name) for name in names)
    numbers = {int(match[1]) for match in matches if match}
    return len(names) == N_IMAGES and numbers == set(range(1, N_IMAGES + 1))


def image_set_of(names: Sequence[str]) -> str:
    """Return the image set with these file names; "" if unknown."""
    if are_robustbench_images(names):
        return ROBUSTBENCH
    return IMAGENET if are_imagenet_images(names) else ""


def difference_from(image_set: str, names: Sequence[str], labels_per_class: Labels) -> str | None:
    """Return a clause on how images and labels differ from those of a set; None if they do not."""
    if image_set == ROBUSTBENCH:
        return _difference_from_robustbench(names, labels_per_class)
    condition = f"for the {N_IMAGES:,} images of ImageNet's validation set"
    if are_robustbench_images(names):
        return f"{condition}, but these are RobustBench's 5,000 images"
    if len(names) != N_IMAGES:
        return f"{condition}, but {count_of(len(names), 'image')} {verb(len(names), 'was')} given"
    if not are_imagenet_images(names):
        return f"{condition}, ILSVRC2012_val_00000001 to {N_IMAGES:08d}, but these have other names"
    classes: set[object] = set(labels_per_class)
    per_class = N_IMAGES // N_CLASSES
    if classes not in (set(wordnet_ids()), set(range(N_CLASSES))):
        return f"{condition} with its {N_CLASSES:,} classes, but these images have others"
    if any(count != per_class for count in labels_per_class.values()):
        return f"{condition} with {per_class} images in each class, but these have other labels"
    return None


def _difference_from_robustbench(names: Sequence[str], labels_per_class: Labels) -> str | None:
    condition = "for RobustBench's 5,000 images of ImageNet's validation set"
    if not are_robustbench_images(names):
        return f"{condition}, but these are {len(names):,} images with other names"
    classes: set[object] = set(labels_per_class)
    # The 5,000 images need not contain every class.
    if not (classes <= set(wordnet_ids()) or classes <= set(range(N_CLASSES))):
        return f"{condition} with ImageNet's {N_CLASSES:,} classes, but these images have others"
    return None


def other_baseline(labels_per_class: Labels) -> str:
    """Return what to do where no published table is valid for images with these labels."""
    labels = {str(label) for label in labels_per_class}
    # Fewer numbers may be those of any model's outputs.
    if labels <= set(wordnet_ids()) or labels == set(map(str, range(N_CLASSES))):
        return ALEXNET_BASELINE
    return "evaluate a baseline with the same classes on the same images: --baseline MODEL"


def invalid_reason(
    baseline: Baseline | str,
    *,
    suite: str,
    corruptions: Sequence[str],
    names: Sequence[str],
    labels_per_class: Labels,
    side: int,
    published_files: bool,
    jpeg: int | None,
) -> str | None:
    """Return why a table is not valid for these images and what to do; None if it is valid.

    A baseline measured by the user is always valid.

    Args:
        baseline: Baseline or name of a built-in table.
        suite: Suite of the test.
        corruptions: Corruptions of the test.
        names: File names of the clean images.
        labels_per_class: Number of images per class, by WordNet id or index.
        side: Side of the corrupted images in pixels.
        published_files: Whether these images were read from the benchmark's published files.
        jpeg: JPEG quality with which other images were saved; None if they were not saved.
    """
    table = find_baseline(baseline) if isinstance(baseline, str) else baseline
    # Measured by the user, who is responsible for the images.
    if not table.suites:
        return None
    # The first reason that applies is reported, the most general one first.
    no_table = other_baseline(labels_per_class)
    reason, remedy = _suite_reason(table, suite, corruptions), no_table
    reason = reason or difference_from(table.images, names, labels_per_class)
    if not reason and side != SIDE:
        reason = f"at {SIDE} px, but these images have {side} px"
        remedy = no_table if published_files else f"give --stimulus {SIDE}"
    if not reason:
        reason, remedy = _file_reason(table, published_files, jpeg)
    return f"The table '{table.name}' is valid {reason}: {remedy}." if reason else None


def _suite_reason(table: Baseline, suite: str, corruptions: Sequence[str]) -> str | None:
    if suite not in table.suites:
        return f"for {' and '.join(table.suites)}, but these are corruptions of {suite}"
    unknown = [name for name in corruptions if name not in table.errors]
    if not unknown:
        return None
    return f"for {len(table.errors)} corruptions, but '{unknown[0]}' is not one of them"


def _file_reason(
    table: Baseline, published_files: bool, jpeg: int | None
) -> tuple[str | None, str]:
    """Return a clause on how the files differ from those of the table, and what to type."""
    if not table.saved:
        if published_files or jpeg is None:
            return None, ""
        return "for images that were never saved, but these were saved as JPEG", "omit --jpeg"
    if published_files or jpeg == QUALITY:
        return None, ""
    # Corruptions in memory give different errors from the published JPEG files:
    # hendrycks/robustness#14.
    how = "were never saved as JPEG" if jpeg is None else f"have JPEG quality {jpeg}"
    return f"for files of JPEG quality {QUALITY}, but these {how}", f"give --jpeg {QUALITY}"
