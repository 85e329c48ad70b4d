"""Check that labels match a model's outputs: its accuracy on a few clean images must not be chance.

The labels of a dataset are matched with outputs by name, by number or in alphabetical order. A
wrong order raises no error, and gives an accuracy near 0 that looks like a result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of, verb
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, NONE, category_name
from eyechart.images.labels.matching import category_labels, match_labels
from eyechart.images.labels.spaces import ENTRY16, NO_LABELS
from eyechart.models.model import Model
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes

N_IMAGES, BATCH = 64, 8
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
    for start in range(0, min(N_IMAGES, len(chosen)), BATCH):
        yield chosen[start : min(N_IMAGES, start + BATCH)]


def _n_correct(model: Model, images: ImageSet, chosen: Sequence[int], matching: Matching) -> int:
    def make(start: int, stop: int) -> tuple[torch.Tensor, None]:
        return images.batch(chosen[start:stop]), None

    stimuli = StimulusSource(len(chosen), images.sizes[chosen[0]], make)
    (classes,) = predict_classes(stimuli, [model], BatchSize(BATCH))
    predicted = classes.tolist()
    if matching.n_classes == len(CATEGORIES) and model.has_imagenet:
        names = [category_name(index) for index in predicted]
        predicted = [NONE if name is None else CATEGORIES.index(name) for name in names]
    return int((np.array(predicted) == matching.labels[list(chosen)]).sum())
