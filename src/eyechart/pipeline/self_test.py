"""Short test of every model before a run: predictions must depend on the image alone.

A dozen predictions show whether a model is deterministic, whether an image's scores depend on the
rest of its batch, and whether they depend on the image at all.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.progress import Progress
from eyechart.images.imageset import ImageSet
from eyechart.models.model import Model, is_out_of_memory
from eyechart.predictions.destroyed import COUNT, destroyed_images

N_IMAGES = 8
N_ALONE = 2
"""Number of images that are predicted once more in a batch of one."""

MIN_LABELS = 4
"""With fewer labels among the images, predicting one class for all of them may be correct."""

TOLERANCE = {torch.float32: 0.02}
HALF_TOLERANCE = 0.1
"""Accepted difference of scores between two calls, as a share of their standard deviation: other
batch sizes use other GPU kernels, which round differently.
"""


def self_test(models: Sequence[Model], images: ImageSet, progress: Progress) -> list[str]:
    """Return one sentence for everything that makes a model's scores doubtful.

    `progress` receives each sentence at once, before the long part of a run begins.
    """
    step = progress.begin("self-test", len(models))
    batch, labels = _some_images(images)
    doubts = []
    for model in models:
        try:
            notes = list(_notes_on(model, batch, labels))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # Not a failed test: the run itself retries with smaller batches.
            notes = []
        doubts += notes
        step(1, "\n".join(notes))
    return doubts


def _some_images(images: ImageSet) -> tuple[Tensor, list[str | None]]:
    """Return a few images of one size with their labels, covering as many labels as possible.

    Without clean images, destroyed images without labels are used.
    """
    if not images.has_clean:
        return destroyed_images(*images.sizes[0])[:: COUNT // N_IMAGES], []
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
    chosen = [index for _, index in ranked[:N_IMAGES]]
    return images.batch(chosen), [images.labels[index] for index in chosen]


def _notes_on(model: Model, batch: Tensor, labels: Sequence[str | None]) -> Iterator[str]:
    """Yield what is doubtful about one model."""
    scores = model(batch)
    again = model(batch)
    # A random model would fail the other checks as well, so only this one is reported.
    if _differ(scores, again, model):
        yield (
            f"{model.name} is not deterministic: the same {len(batch)} images got different scores "
            "the second time, so its results change from run to run; turn off dropout and other "
            "random parts."
        )
    elif any(
        _differs_alone(model, batch, scores, index) for index in range(min(N_ALONE, len(batch) - 1))
    ):
        yield (
            f"{model.name} predicts differently for an image alone than in a batch of {len(batch)}:"
            " its results depend on the batch size; put it into evaluation mode (batch"
            " normalization in training mode does this)."
        )
    # Destroyed images have no labels and may legitimately get the same scores.
    if not labels or len(batch) < 2:
        return
    if not _differ(scores, scores[:1].expand_as(scores), model):
        yield (
            f"{model.name} gives the same scores to {len(batch)} different images: a constant "
            "model is perfectly consistent, so its R_p of 1 is not meaningful."
        )
        return
    count = len({*labels} - {None})
    classes = scores.argmax(dim=1)
    is_one_class = bool((classes == classes[0]).all())
    if is_one_class and count >= MIN_LABELS and len(batch) == N_IMAGES:
        yield (
            f"{model.name} predicts one class for {len(batch)} images of {count} labels: a model"
            " that ignores the image has an R_p of 1; check its weights and its preprocessing."
        )


def _differs_alone(model: Model, batch: Tensor, scores: Tensor, index: int) -> bool:
    """Whether an image gets other scores in a batch of one, or an error."""
    one = slice(index, index + 1)
    try:
        return _differ(scores[one], model(batch[one]), model, scores)
    except UsageError:
        # Batch normalization in training mode may need more than one image.
        return True


def _differ(one: Tensor, two: Tensor, model: Model, all_scores: Tensor | None = None) -> bool:
    """Whether scores differ by more than rounding; `all_scores` sets the scale."""
    spread = (one if all_scores is None else all_scores).std().clamp_min(1e-12)
    tolerance = TOLERANCE.get(model.dtype, HALF_TOLERANCE)
    return bool((one - two).abs().max() > tolerance * spread)
