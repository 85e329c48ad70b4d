"""Check a model's preprocessing: compare top-1 with the published accuracy, and try alternatives.

A wrong normalization lowers accuracy without raising an error, so alternatives are tried on the
same images.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import Tensor

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, no_advance
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import NONE
from eyechart.images.labels.matching import native_labels
from eyechart.models.model import Model
from eyechart.models.preprocessing import Channels, Preprocessing
from eyechart.pipeline.settings import ModelCheckSettings
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes
from eyechart.stats.intervals import CONFIDENCE, wilson_interval

TOLERANCE = 0.01
"""Accepted gap between the interval of top-1 and the published accuracy, because image files and
resizing may differ.
"""

MIN_GAIN, LARGEST_P = 0.02, 0.001
"""Minimum gain and maximum p-value for an alternative to count as better."""

SAME = 0.01
"""Means and standard deviations closer than this count as equal."""

BATCH = 32
USUAL = ModelCheckSettings()

NORMALISATIONS: dict[str, tuple[Channels, Channels]] = {
    "0…1": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "−1…1": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "CLIP's": ((0.4815, 0.4578, 0.4082), (0.2686, 0.2613, 0.2758)),
    "(level − 127)/128": ((127 / 255,) * 3, (128 / 255,) * 3),
    "0…255": ((0.0, 0.0, 0.0), (1 / 255,) * 3),
}
"""Means and standard deviations that networks are usually trained with."""


@dataclass(frozen=True)
class Trial:
    """Alternative preprocessing or output order, tried on `n_images` images.

    Attributes:
        name: Description.
        advice: What to do, as a clause: the line to write into the model card.
        n_images: Number of images.
        before: Number of correct predictions without the change.
        after: Number of correct predictions with the change.
        p_value: P-value of the exact McNemar test, multiplied by the number of alternatives tried
            (Bonferroni).
    """

    name: str
    advice: str
    n_images: int
    before: int
    after: int
    p_value: float

    @property
    def is_clearly_better(self) -> bool:
        """Whether the gain is significant and large enough to matter."""
        gain = (self.after - self.before) / self.n_images
        return self.p_value < LARGEST_P and gain >= MIN_GAIN


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """Result of a check of `n_images` predictions; `right`: how many of them are correct.

    `trials` contains the alternatives that were tried.
    """

    model: Model
    n_images: int
    right: int
    published_accuracies: dict[str, float]
    trials: tuple[Trial, ...]

    @property
    def top1(self) -> float:
        """Top-1 accuracy."""
        return self.right / self.n_images

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of top-1."""
        return wilson_interval(self.top1, self.n_images, CONFIDENCE)

    @property
    def better(self) -> tuple[Trial, ...]:
        """Alternatives that are significantly better, best first."""
        better = (trial for trial in self.trials if trial.is_clearly_better)
        return tuple(sorted(better, key=lambda trial: -trial.after))

    def breaks(self, published_accuracy: float) -> bool:
        """Whether top-1 is significantly below a published accuracy, by more than a point."""
        return self.interval[1] < published_accuracy - TOLERANCE


def check_model(
    model: Model,
    images: ImageSet,
    settings: ModelCheckSettings = USUAL,
    step: Advance = no_advance,
) -> ModelCheck:
    """Return a model's accuracy on labeled images, and try alternatives on up to `n` images.

    `step` is called for each image predicted.
    """
    settings.check()
    # The number of classes of some models is known only after the first prediction.
    model(images.batch([0]))
    labels = native_labels(images.labels, model.classes or 0, model.class_names, images.class_names)
    labeled = np.flatnonzero(labels != NONE)
    if not len(labeled):
        raise UsageError(f"None of the images in {images.source} has a label: give labeled images.")
    predictions = _predictions(model, images, labeled, step)
    right = predictions == labels[labeled]
    published_accuracies = {
        "its makers or its card": model.published_accuracy,
        "you": settings.expect,
    }
    spread = np.linspace(0, len(labeled) - 1, min(settings.n, len(labeled)))
    # Evenly spread over the images, which are usually sorted by class.
    some = np.unique(spread.round().astype(np.int64))
    return ModelCheck(
        model,
        len(labeled),
        int(right.sum()),
        {
            source: published_accuracy
            for source, published_accuracy in published_accuracies.items()
            if published_accuracy is not None
        },
        _trials(
            model, images, _Known(labeled[some], labels[labeled[some]], predictions[some]), step
        ),
    )


def passes(model: Model, images: ImageSet, n: int) -> int:
    """Return the number of predictions that `check_model` computes."""
    count = sum(label is not None for label in images.labels)
    return count + min(n, count) * len(list(_alternatives(model.preprocessing)))


def _predictions(
    model: Model, images: ImageSet, indices: Sequence[int] | IntArray, step: Advance
) -> IntArray:
    def make(start: int, stop: int) -> tuple[Tensor, None]:
        return images.batch([int(index) for index in indices[start:stop]]), None

    stimuli = StimulusSource(len(indices), images.sizes[int(indices[0])], make)
    (classes,) = predict_classes(stimuli, [model], BatchSize(BATCH), step)
    return np.asarray(classes.cpu())


@dataclass(frozen=True, eq=False)
class _Known:
    """Indices of some images with their labels and predictions."""

    indices: IntArray
    labels: IntArray
    predictions: IntArray


def _trials(model: Model, images: ImageSet, known: _Known, step: Advance) -> tuple[Trial, ...]:
    tried: list[tuple[str, str, IntArray]] = []
    for name, advice, steps in _alternatives(model.preprocessing):
        try:
            predictions = _predictions(model.with_steps(steps), images, known.indices, step)
            tried.append((name, advice, predictions))
        except UsageError:
            # The model rejects this input, so it is not better.
            continue
    # Shifted outputs: some networks have a background class, or lack one.
    for offset, where in ((1, "after"), (-1, "before")):
        advice = (
            f"{_write('outputs: FILE')}, where line n of FILE names the class of output n, which"
            f" seems to be the class {where} the assumed one"
        )
        tried.append((f"the output {where} the best", advice, known.predictions + offset))
    before = known.predictions == known.labels
    return tuple(
        _compared(name, advice, before, predictions == known.labels, len(tried))
        for name, advice, predictions in tried
    )


def _compared(
    name: str, advice: str, before: NDArray[np.bool_], after: NDArray[np.bool_], tried: int
) -> Trial:
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    # Exact McNemar test: under the null hypothesis, changes go either way with equal probability.
    p = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    counts = (len(before), int(before.sum()), int(after.sum()))
    return Trial(name, advice, *counts, min(1.0, p * tried))


def _alternatives(steps: Preprocessing) -> Iterator[tuple[str, str, Preprocessing]]:
    """Yield alternative preprocessing: a name, what to write into the card, and the steps."""
    seen = [(steps.mean, steps.std)]
    for name, (mean, std) in NORMALISATIONS.items():
        if any(_is_near(mean, other[0]) and _is_near(std, other[1]) for other in seen):
            continue
        seen.append((mean, std))
        advice = _write(f"mean: {_in_yaml(mean)}  and  std: {_in_yaml(std)}")
        yield f"normalized as {name}", advice, replace(steps, mean=mean, std=std)
    order = "bgr" if steps.channels == "rgb" else "rgb"
    yield (
        f"channels as {order.upper()}",
        _write(f"channels: {order}"),
        replace(steps, channels=order),
    )


def _write(line: str) -> str:
    return f"write  {line}  into its card"


def _is_near(one: Channels, other: Channels) -> bool:
    # Relative, with a floor: deviations as small as 1/255 differ by factors, not by hundredths.
    return all(abs(a - b) < SAME * max(a, b, 0.05) * 2 for a, b in zip(one, other, strict=True))


def _in_yaml(channels: Channels) -> str:
    return f"[{', '.join(f'{value:.4g}' for value in channels)}]"
