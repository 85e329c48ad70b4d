"""Short test of every model before a run: predictions must depend on the image alone.

A few dozen predictions show whether a model is deterministic, whether an image's scores depend on
the other images or on its position in the batch, whether they depend on the image at all, and
whether they give sensible probabilities.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.progress import Progress
from eyechart.images.imageset import ImageSet
from eyechart.models.label_map import are_probabilities, log_probabilities
from eyechart.models.model import Model
from eyechart.predictions.batches import N_BLANK, blank_images
from eyechart.testsets.stimuli import images_at_once

SECONDS = 1.0
"""Maximum time in seconds to test a model; slow models get fewer images, but at least two."""

N_IMAGES = 8
N_REORDERED = 4
"""Number of images for which predictions are repeated in reverse order."""

N_ALONE = 2
"""Number of images for which predictions are repeated in a batch of one image."""

N_BLANK_USED = 4
"""Number of images without content to test, if a model is certain of all other images."""

MIN_LABELS, MIN_IMAGES = 4, 6
"""Minimum numbers of labels and images for a warning that all predictions are one class."""

UNIFORM = 1.05
"""Classes count as equally likely if the largest probability is below this multiple of 1/K."""

TOLERANCE = {torch.float32: 0.02}
HALF_TOLERANCE = 0.1
"""Accepted difference of scores between two calls, as a fraction of their standard deviation:
different batch sizes use different GPU kernels, which round differently.
"""


@dataclass(frozen=True)
class ModelWarning:
    """What makes a model's scores doubtful.

    Attributes:
        model: Name of the model.
        sentence: The warning shown to readers of the results.
        is_unstable: Whether repeated predictions may give the same image different scores.
    """

    model: str
    sentence: str
    is_unstable: bool = False


def self_test(
    models: Sequence[Model], images: ImageSet, progress: Progress, is_strict: bool = False
) -> list[ModelWarning]:
    """Return everything that makes the models' scores doubtful.

    `progress` receives each sentence immediately, before the long part of a run begins.

    Raises:
        UsageError: If `is_strict` is set and a model is doubtful.
    """
    step = progress.begin("self-test", len(models))
    batch, labels = _some_images(images)
    warnings: list[ModelWarning] = []
    for model in models:
        try:
            found = list(_warnings_about(model, batch, labels))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # Not a failed test: the run itself retries with smaller batches.
            found = []
        warnings += found
        step(1, "" if is_strict else "\n".join(warning.sentence for warning in found))
    if warnings and is_strict:
        sentences = " ".join(warning.sentence for warning in warnings)
        raise UsageError(f"The self-test failed, and --strict makes this an error: {sentences}")
    return warnings


def _some_images(images: ImageSet) -> tuple[Tensor, list[str | None]]:
    """Return a few images of one size with their labels, covering as many labels as possible.

    Without clean images, images without content and labels are used.
    """
    if not images.has_clean:
        return blank_images(*images.sizes[0], range(0, N_BLANK, N_BLANK // N_IMAGES)), []
    by_label: dict[str | None, list[int]] = {}
    for index, label in enumerate(images.labels):
        if images.sizes[index] == images.sizes[0]:
            by_label.setdefault(label, []).append(index)
    # Round-robin over labels: one image of each, then a second one, and so on.
    ranked = sorted(
        (rank, index)
        for indices in by_label.values()
        for rank, index in enumerate(indices[:N_IMAGES])
    )
    # Large images need much memory; two show whether scores depend on the batch.
    n_images = max(2, images_at_once(N_IMAGES, images.sizes[0], torch.device("cpu")))
    chosen = [index for _, index in ranked[:n_images]]
    return images.batch(chosen), [images.labels[index] for index in chosen]


def _warnings_about(
    model: Model, batch: Tensor, labels: Sequence[str | None]
) -> Iterator[ModelWarning]:
    """Yield what is doubtful about one model."""
    start = time.perf_counter()
    alone = _alone(model, batch, 0)
    batch, scores = _first_scores(model, batch, start)
    labels = labels[: len(batch)]
    instability = _instability(model, batch, scores, alone)
    if instability:
        yield ModelWarning(model.name, f"{model.name} {instability}", is_unstable=True)
    # Destroyed images have no labels and may legitimately get the same scores.
    ignorance = _ignorance(model, scores, labels) if labels and len(batch) > 1 else ""
    # A constant model has no sensible probabilities either, so only this one is reported.
    reason = ignorance or _bad_probabilities(model, batch, scores)
    if reason:
        yield ModelWarning(model.name, f"{model.name} {reason}")


def _first_scores(model: Model, batch: Tensor, start: float) -> tuple[Tensor, Tensor]:
    """Return the images that the time limit allows for, with their scores.

    `start`: when the test of this model began.
    """
    before = time.perf_counter()
    pair = batch[:2]
    scores = _scores(model, pair)
    after = time.perf_counter()
    n_left = (SECONDS - (after - start)) / max((after - before) / len(pair), 1e-9)
    # All images are predicted twice.
    n_images = int((n_left - N_REORDERED - N_ALONE + 1) / 2)
    if n_images <= len(pair):
        return pair, scores
    return batch[:n_images], _scores(model, batch[:n_images])


def _instability(model: Model, batch: Tensor, scores: Tensor, alone: Tensor | None) -> str:
    """Return what else an image's scores depend on; "" if they depend only on the image."""
    # A random model would fail the other checks as well, so the first failure is reported alone.
    if _differ(scores, _scores(model, batch), model):
        return (
            f"is not deterministic: the same {_count(batch)} got different scores the second time,"
            " so its results change from run to run; turn off dropout and other random operations."
        )
    if len(batch) < 2:
        return ""
    later = (_alone(model, batch, index) for index in range(1, min(N_ALONE, len(batch) - 1)))
    for index, one in enumerate((alone, *later)):
        if one is None or _differ(scores[index : index + 1], one, model, scores):
            return (
                f"gives an image different scores in a batch of 1 and in a batch of {len(batch)}:"
                " its results depend on the batch size; put it into evaluation mode (batch"
                " normalization in training mode does this)."
            )
    some = batch[:N_REORDERED]
    if _differ(scores[: len(some)], _scores(model, some.flip(0)).flip(0), model, scores):
        return (
            f"gives the same {_count(some)} different scores in another order: its results depend"
            " on an image's position in the batch; each row of scores must be computed only from"
            " the image in that row."
        )
    return ""


def _ignorance(model: Model, scores: Tensor, labels: Sequence[str | None]) -> str:
    """Return in what way scores ignore the image; "" if they depend on it."""
    n_images, n_labels = len(scores), len({*labels} - {None})
    if not _differ(scores, scores[:1].expand_as(scores), model):
        return (
            f"gives the same scores to {n_images} different images: a constant model is perfectly"
            " consistent, so its R_p of 1 is not meaningful."
        )
    classes = scores.argmax(dim=1)
    is_one_class = bool((classes == classes[0]).all())
    if is_one_class and n_labels >= MIN_LABELS and n_images >= MIN_IMAGES:
        return (
            f"predicts one class for {n_images} images of {n_labels} labels: a model that ignores"
            " the image has an R_p of 1; check its weights and its preprocessing."
        )
    return ""


def _bad_probabilities(model: Model, batch: Tensor, scores: Tensor) -> str:
    """Return why scores do not give sensible probabilities; "" if they do.

    All scores are finite here, because calling the model raises an error otherwise.
    """
    each = [bool(are_probabilities(row[None])) for row in scores]
    if any(each) and not all(each):
        return (
            f"returns scores that sum to 1 for {sum(each)} of {_count(batch)}: rows are taken as"
            " probabilities if all rows of a batch sum to 1, otherwise as logits, so its"
            " confidences depend on the batch; return only probabilities or only logits."
        )
    logs = log_probabilities(scores)
    largest, n_classes = logs.amax(dim=1), scores.shape[1]
    if bool((largest < log(UNIFORM / n_classes)).all()):
        return (
            f"gives all {n_classes:,} classes nearly the same probability for all of"
            f" {_count(batch)}, so its confidences and its calibration error are not meaningful;"
            " check the scale of its scores, which must be logits or probabilities."
        )
    if not all(each) and bool(((scores >= 0) & (scores <= 1)).all()):
        return (
            "returns scores between 0 and 1 that do not sum to 1: they are taken as logits, so its"
            f" confidences are at most {float(largest.exp().max()):.2g} and its calibration error"
            " is not meaningful; return logits or probabilities."
        )
    # Many networks are certain of easy images, but none should be of images without content.
    if bool((largest == 0).all()) and _is_certain_of_nothing(model, batch):
        return (
            "gives one class the probability 1 for every image, even for images without"
            " content, so its confidences and its calibration error are not meaningful; return"
            " logits or probabilities, not the predicted class."
        )
    return ""


def _is_certain_of_nothing(model: Model, batch: Tensor) -> bool:
    height, width = batch.shape[2:]
    blank = blank_images(height, width, range(0, N_BLANK, N_BLANK // N_BLANK_USED))
    return bool((log_probabilities(_scores(model, blank)).amax(dim=1) == 0).all())


def _alone(model: Model, batch: Tensor, index: int) -> Tensor | None:
    """Return an image's scores in a batch of one; None if the model cannot run such a batch."""
    try:
        return _scores(model, batch[index : index + 1])
    except UsageError:
        # Batch normalization in training mode may need more than one image.
        return None


def _count(batch: Tensor) -> str:
    return "image" if len(batch) == 1 else f"{len(batch)} images"


def _differ(one: Tensor, two: Tensor, model: Model, all_scores: Tensor | None = None) -> bool:
    """Whether scores differ by more than rounding; `all_scores` sets the scale."""
    spread = (one if all_scores is None else all_scores).std().clamp_min(1e-12)
    tolerance = TOLERANCE.get(model.dtype, HALF_TOLERANCE)
    return bool((one - two).abs().max() > tolerance * spread)


def _scores(model: Model, batch: Tensor) -> Tensor:
    # A GPU is slow at the first batch of each new size; a CPU would be slower with filled batches.
    return model(batch, padded_to=0 if model.device.type == "cpu" else N_IMAGES)
