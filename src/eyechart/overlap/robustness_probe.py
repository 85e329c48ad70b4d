"""Measure what fraction of its accuracy a model keeps under a corruption of fixed strength.

Images, labels and clean predictions stay on the device; an evaluation transfers only counts.
"""

from dataclasses import dataclass
from math import exp, sqrt

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.corruptions.suites.apply import corrupt_batch, draw_random
from eyechart.corruptions.suites.assets import assets_of
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.matching import native_labels
from eyechart.models.model import Model
from eyechart.overlap.overlap_settings import CalibrationSettings
from eyechart.overlap.strengths import StrengthScale
from eyechart.pipeline.prepare import check_labels, check_models
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import choose_images

PIXELS = {"cpu": 32 * 224 * 224, "cuda": 256 * 224 * 224}
MOST = {"cpu": 256, "cuda": 4096}
"""Maximum numbers of pixels and of images that are corrupted and predicted in one batch."""

MIN_CORRECT = 20
"""Minimum number of correct predictions on clean images for a ratio to be meaningful."""

NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Robustness:
    """R, the accuracy under a corruption divided by clean accuracy, with its 95 % interval."""

    value: float
    low: float
    high: float


def robustness_of(both: int, only_clean: int, only_corrupted: int) -> Robustness:
    """Return R from the numbers of images classified correctly in both versions or only in one.

    The interval over images is computed for the logarithm of a ratio of paired proportions.

    Example:
        >>> robustness_of(both=40, only_clean=40, only_corrupted=0).value
        0.5
    """
    clean, corrupted = both + only_clean, both + only_corrupted
    if not corrupted:
        # A ratio of 0 has no logarithm: use the exact binomial (Clopper–Pearson) limit for 0 of n.
        return Robustness(0.0, 0.0, 1 - 0.025 ** (1 / clean))
    value = corrupted / clean
    # Delta method for log R; images that are correct both times cancel.
    width = exp(NORMAL_95 * sqrt((only_clean + only_corrupted) / (clean * corrupted)))
    return Robustness(value, value / width, value * width)


class RobustnessProbe:
    """A model, and images for which its clean predictions are known.

    At most `max_images` images are used, as a class-balanced subset.
    """

    def __init__(
        self,
        model: Model,
        images: ImageSet,
        max_images: int = CalibrationSettings.max_images,
        seed: int = 0,
    ) -> None:
        self.model, self.seed = model, seed
        self.images = _usable(model, images, max_images, seed)
        self.device = model.device
        self.pixels = self.images.batch(range(len(self.images))).to(self.device)
        self.keys = self.images.keys()
        labels = native_labels(
            self.images.labels, model.classes or 0, model.class_names, self.images.class_names
        )
        self.labels = torch.from_numpy(labels).to(self.device)
        area = self.pixels[0, 0].numel()
        kind = self.device.type if self.device.type in PIXELS else "cpu"
        self.batch = BatchSize(max(1, min(MOST[kind], PIXELS[kind] // area)))
        self.clean = self._right(None)
        self.clean_right = int(self.clean.sum())
        self._check_clean()

    @property
    def side(self) -> int:
        """Shorter side of the images in pixels."""
        return min(self.images.sizes[0])

    @property
    def clean_accuracy(self) -> float:
        """Accuracy on clean images."""
        return self.clean_right / len(self.images)

    def robustness(self, scale: StrengthScale, strength: float) -> Robustness:
        """Return R at this strength, with separate random numbers for each image."""
        right = self._right(scale, strength)
        # One transfer from the device for both counts.
        counts = torch.stack([(self.clean & right).sum(), right.sum()]).tolist()
        both, corrupted = int(counts[0]), int(counts[1])
        return robustness_of(both, self.clean_right - both, corrupted - both)

    def _right(self, scale: StrengthScale | None, strength: float = 0.0) -> Tensor:
        """Return, as a tensor on the device, which images are classified correctly."""

        def make(start: int, stop: int) -> tuple[Tensor, None]:
            images = self.pixels[start:stop]
            if scale is None:
                return images, None
            entry, keys = scale.entry, self.keys[start:stop]
            strengths = scale.strengths(strength, stop - start)
            # Keyed by image, not by strength: the random numbers stay fixed during the search.
            random = draw_random(entry, keys, self.seed, 0, images.device)
            return corrupt_batch(images, entry, strengths, random, assets_of(entry)), None

        stimuli = StimulusSource(len(self.images), self.images.sizes[0], make)
        (classes,) = predict_classes(stimuli, [self.model], self.batch)
        return classes == self.labels

    def _check_clean(self) -> None:
        """Raise a UsageError if the model's clean accuracy could be due to chance."""
        # If the number of classes is unknown, assume two, for which guessing is most accurate.
        count, chance = len(self.images), 1 / (self.model.classes or 2)
        # Three standard deviations above the expected number of lucky guesses.
        luck = chance * count + 3 * sqrt(count * chance * (1 - chance))
        if self.clean_right < max(MIN_CORRECT, luck):
            raise UsageError(
                f"{self.model.name} is correct on {self.clean_right:,} of {count:,} clean images, "
                "too few to measure the effect of a corruption: use more images, or a model for "
                "these classes."
            )


def _usable(model: Model, images: ImageSet, max_images: int, seed: int) -> ImageSet:
    """Return the images to use; raise a UsageError if they are unsuitable."""
    if isinstance(max_images, bool) or not isinstance(max_images, int) or max_images < 1:
        raise UsageError(f"max_images must be a whole number of at least 1, got {max_images!r}.")
    if images.files is not None:
        raise UsageError(
            f"{images.source} contains corrupted images: pass clean ones, to which corruptions are"
            " then applied."
        )
    labeled = [number for number, label in enumerate(images.labels) if label is not None]
    if not labeled:
        raise UsageError(
            f"The images in {images.source} have no labels, so accuracy is unknown"
            ": pass class folders, or a manifest with labels."
        )
    images = images.take(labeled)
    check_models([model], images, model.device)
    check_labels(Plan(), [model], images)
    # The same class-balanced subset of images as in an evaluation.
    chosen = Plan(seed=seed, max_images=min(max_images, len(images)))
    images = images.take(choose_images(images.listed, chosen).tolist())
    sizes = sorted(set(images.sizes))
    if len(sizes) > 1:
        first, second = (f"{width} × {height}" for height, width in sizes[:2])
        raise UsageError(
            f"All images must have the same size, got {len(sizes)} sizes, such as {first} and "
            f"{second} px: pass a stimulus such as 224 instead of native."
        )
    return images
