"""Check a model on labeled clean images: its preprocessing, and the matching of labels and outputs.

A wrong normalization, or labels in a wrong order, raise no error and give an accuracy that looks
like a result. `check_model` compares top-1 with the published accuracy and tries alternatives;
`check_matching` stops a run whose accuracy is at chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom, binomtest
from torch import Tensor

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.core.progress import Advance, no_advance
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, NONE, category_name
from eyechart.images.labels.matching import category_labels, match_labels, native_labels
from eyechart.images.labels.spaces import ENTRY16, NO_LABELS
from eyechart.models.model import Channels, Model, Preprocessing
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

N_IMAGES, N_AT_ONCE = 64, 8
"""Maximum number of clean images, and how many are predicted before looking at the result."""

ABOVE_CHANCE = 0.05
"""A model is above chance if the one-sided binomial test has a p-value below this."""

SURELY_ABOVE = 0.001
"""At such a p-value no more images are predicted."""

WEAK, LEVEL = 0.15, 0.01
"""A model that is correct for this fraction of images, beyond chance, is stopped wrongly with at
most this probability. Fewer images than that takes never stop a run."""

FAR_BELOW = 0.5
"""Fraction of the published accuracy: where the data exclude it at `LEVEL`, accuracy is far below
the published one."""


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
        _trials(model, images, labeled[some], labels[labeled[some]], predictions[some], step),
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


def _trials(
    model: Model,
    images: ImageSet,
    indices: IntArray,
    labels: IntArray,
    usual: IntArray,
    step: Advance,
) -> tuple[Trial, ...]:
    """Return the alternatives for the images at `indices`; `usual`: the predictions so far."""
    tried: list[tuple[str, str, IntArray]] = []
    for name, advice, steps in _alternatives(model.preprocessing):
        try:
            predictions = _predictions(model.with_steps(steps), images, indices, step)
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
        tried.append((f"the output {where} the best", advice, usual + offset))
    before = usual == labels
    return tuple(
        _compared(name, advice, before, predictions == labels, len(tried))
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


@dataclass(frozen=True, eq=False)
class Matching:
    """How the labels of images match the outputs of a model.

    Attributes:
        sentence: The matching in a few words.
        labels: The class of each image, −1 if it has none.
        n_classes: The number of classes among which the model chooses.
        is_complete: Whether there are images of every class of the model.
    """

    sentence: str
    labels: IntArray
    n_classes: int
    is_complete: bool


def check_matching(
    models: Sequence[Model], images: ImageSet, label_space: str, is_accepted: bool
) -> list[str]:
    """Return a sentence for each way in which labels were matched with the outputs of models.

    Args:
        models: The models.
        images: The images.
        label_space: The label space of the run.
        is_accepted: Whether to continue even if accuracy is at chance.

    Raises:
        UsageError: If the accuracy of a model on clean images is not above chance, or far below its
            published accuracy on the same classes.
    """
    if label_space == NO_LABELS or not images.has_clean or not any(images.labels):
        return []
    sentences = []
    for model in models:
        matching = _match(model, images, label_space)
        sentences.append(f"Plan: {matching.sentence}.")
        if not is_accepted:
            _check_accuracy(model, images, matching)
    return list(dict.fromkeys(sentences))


def _match(model: Model, images: ImageSet, label_space: str) -> Matching:
    if label_space == ENTRY16:
        labels = category_labels(images.labels, images.categories)
        n_found = len(np.unique(labels[labels != NONE]))
        sentence = f"labels are matched with {n_found} of the {len(CATEGORIES)} categories"
        return Matching(sentence, labels, len(CATEGORIES), is_complete=False)
    n_classes = model.classes or 0
    rule, table = match_labels(images.labels, n_classes, model.class_names, images.class_names)
    labels = np.array([NONE if label is None else table[label] for label in images.labels])
    by_output = sorted(table, key=lambda label: table[label])
    ends = [f"{label} → {table[label]}" for label in (by_output[0], by_output[-1])]
    noun = f"{count_of(len(table), 'label')} {verb(len(table), 'is')}"
    sentence = f"{noun} matched with {n_classes:,} outputs {rule} ({', …, '.join(ends)})"
    return Matching(sentence, labels, n_classes, is_complete=len(table) == n_classes)


def _check_accuracy(model: Model, images: ImageSet, matching: Matching) -> None:
    chance, published = 1 / max(1, matching.n_classes), model.published_accuracy or 0
    # Images of some of the classes may be harder than those of all.
    far_below = FAR_BELOW * published if matching.is_complete else 0.0
    n, n_correct = 0, 0
    for chosen in _batches(images, matching.labels):
        n += len(chosen)
        n_correct += _n_correct(model, images, chosen, matching)
        if max(_p_above(n_correct, n, rate) for rate in (chance, far_below)) < SURELY_ABOVE:
            return
    # A model that is known to be good needs fewer images to show that something is wrong.
    weak = max(chance + WEAK * (1 - chance), FAR_BELOW * published)
    is_above_chance = _p_above(n_correct, n, chance) < ABOVE_CHANCE
    if not is_above_chance and binom.cdf(n_correct, n, weak) < LEVEL:
        reason = f"not above chance (1 of {matching.n_classes:,})"
    elif binom.cdf(n_correct, n, far_below) < LEVEL:
        reason = f"less than half of its published {100 * published:.3g} %"
    else:
        return
    raise UsageError(
        f"Labels do not seem to match the model: {model.name} is correct for {n_correct} of {n}"
        f" clean images, which is {reason}; {matching.sentence}. Give the order of the outputs with"
        " --label-map FILE, correct the labels of the images, check the preprocessing with eyechart"
        " models check, or give --accept-labels to continue."
    )


def _p_above(n_correct: int, n: int, rate: float) -> float:
    """Return the p-value for the claim that accuracy is above a rate."""
    return float(binom.sf(n_correct - 1, n, rate))


def _batches(images: ImageSet, labels: IntArray) -> Iterator[list[int]]:
    """Yield labeled images of one size in small batches, as many classes as possible first."""
    by_label: dict[int, list[int]] = {}
    size = None
    for index in np.flatnonzero(labels != NONE).tolist():
        size = size or images.sizes[index]
        of_class = by_label.setdefault(int(labels[index]), [])
        if images.sizes[index] == size and len(of_class) < N_IMAGES:
            of_class.append(index)
    ranked = sorted(
        (rank, class_index, index)
        for class_index, indices in by_label.items()
        for rank, index in enumerate(indices)
    )
    # evenly spread over classes: images are usually sorted by class
    first = [index for rank, _, index in ranked if rank == 0]
    spread = np.unique(np.linspace(0, len(first) - 1, min(N_IMAGES, len(first))).round())
    chosen = [first[int(place)] for place in spread]
    chosen += [index for rank, _, index in ranked if rank > 0]
    for start in range(0, min(N_IMAGES, len(chosen)), N_AT_ONCE):
        yield chosen[start : min(N_IMAGES, start + N_AT_ONCE)]


def _n_correct(model: Model, images: ImageSet, chosen: Sequence[int], matching: Matching) -> int:
    def make(start: int, stop: int) -> tuple[torch.Tensor, None]:
        return images.batch(chosen[start:stop]), None

    stimuli = StimulusSource(len(chosen), images.sizes[chosen[0]], make)
    (classes,) = predict_classes(stimuli, [model], BatchSize(N_AT_ONCE))
    predicted = classes.tolist()
    if matching.n_classes == len(CATEGORIES) and model.has_imagenet:
        names = [category_name(index) for index in predicted]
        predicted = [NONE if name is None else CATEGORIES.index(name) for name in names]
    return int((np.array(predicted) == matching.labels[list(chosen)]).sum())
