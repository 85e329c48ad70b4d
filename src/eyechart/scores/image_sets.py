"""The sets of images that published results were measured on, and how each is recognized."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath

from eyechart.labels.imagenet import wordnet_ids

IMAGENET, ROBUSTBENCH, IMAGENET_100 = "imagenet-val", "robustbench-5000", "imagenet-100-val"
IMAGE_SETS = {
    IMAGENET: "ImageNet's 50,000 validation images",
    ROBUSTBENCH: "RobustBench's 5,000 of ImageNet's validation images",
    IMAGENET_100: "ImageNet-100: the validation images of every tenth ImageNet class",
    "vcr-sample": "ImageNet images sampled by the authors of VCR, in 16 categories",
}
"""What each image set is called in tables. Only the first two are recognized in runs."""

N_IMAGES, N_CLASSES = 50_000, 1_000
"""Of ImageNet's validation set."""

NAME = re.compile(r"(?:.*[/\\])?ILSVRC2012_val_(\d{8})(?:\.\w+)?")

ROBUSTBENCH_DIGEST = "b03ccff6d05e129cb1b9cd2b27b30c1a81031dfde52a7c44be9c6d93077407ed"
"""`names_digest` of the 5,000 validation images that RobustBench uses (robustbench 1.1.1)."""

Labels = Mapping[str, int] | Mapping[int, int]
"""How many images each class has, by WordNet id or index."""


def names_digest(names: Sequence[str]) -> str:
    """Return the SHA-256 of the sorted file names, without folders and endings, one a line."""
    stems = sorted(PurePath(name).stem for name in names)
    return sha256("\n".join(stems).encode()).hexdigest()


def are_robustbench_images(names: Sequence[str]) -> bool:
    """Return whether these file names are those of RobustBench's 5,000 validation images."""
    return names_digest(names) == ROBUSTBENCH_DIGEST


def are_imagenet_images(names: Sequence[str]) -> bool:
    """Return whether these file names are those of ImageNet's whole validation set."""
    matches = (NAME.fullmatch(name) for name in names)
    numbers = {int(match[1]) for match in matches if match}
    return len(names) == N_IMAGES and numbers == set(range(1, N_IMAGES + 1))


def image_set_of(names: Sequence[str]) -> str:
    """Return which image set these file names are, "" if it is none that is known."""
    if are_robustbench_images(names):
        return ROBUSTBENCH
    return IMAGENET if are_imagenet_images(names) else ""


def why_not(image_set: str, names: Sequence[str], labels_per_class: Labels) -> str:
    """Return "" if these are the images of a set with its labels, else what sets them apart."""
    if image_set == ROBUSTBENCH:
        return _why_not_robustbench(names, labels_per_class)
    condition = f"for the {N_IMAGES:,} pictures of ImageNet's validation set"
    if are_robustbench_images(names):
        return f"{condition}, and these are RobustBench's 5,000"
    if len(names) != N_IMAGES:
        return f"{condition}, and these are {len(names):,}"
    if not are_imagenet_images(names):
        return f"{condition}, ILSVRC2012_val_00000001 to {N_IMAGES:08d}, and these have other names"
    classes: set[object] = set(labels_per_class)
    per_class = N_IMAGES // N_CLASSES
    if classes not in (set(wordnet_ids()), set(range(N_CLASSES))):
        return f"{condition} with its {N_CLASSES:,} classes, and these have others"
    if any(count != per_class for count in labels_per_class.values()):
        return f"{condition} with {per_class} pictures in each class, and these have other labels"
    return ""


def _why_not_robustbench(names: Sequence[str], labels_per_class: Labels) -> str:
    condition = "for RobustBench's 5,000 images of ImageNet's validation set"
    if not are_robustbench_images(names):
        return f"{condition}, and these are {len(names):,} with other names"
    classes: set[object] = set(labels_per_class)
    if not (classes <= set(wordnet_ids()) or classes <= set(range(N_CLASSES))):
        return f"{condition} with ImageNet's {N_CLASSES:,} classes, and these have others"
    return ""
