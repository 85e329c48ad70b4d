"""Images through models in batches, smaller ones where memory runs out: the core of the loop.

What is corrupted and measured, and what is kept of the scores, is the caller's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, no_advance
from eyechart.models.model import Model, is_out_of_memory

Kept = TypeVar("Kept")
Known = TypeVar("Known")


@dataclass(frozen=True, eq=False)
class StimulusSource(Generic[Known]):
    """Images to be predicted, made a batch at a time.

    `size`: height and width of the largest in px. `make`: from the first image and the one after
    the last to these images, uint8 (B, 3, H, W) on the device, and to what is known of them (their
    visual change, or None where nothing is measured); called again with fewer where memory ran out.
    """

    n_images: int
    size: tuple[int, int]
    make: Callable[[int, int], tuple[Tensor, Known]]


@dataclass(eq=False)
class BatchSize:
    """How many images go through the models at once; halved for good where memory runs out."""

    n_images: int


@dataclass(frozen=True, eq=False)
class PredictedBatch(Generic[Known, Kept]):
    """What is known of images `start` … `stop` − 1, and what is kept of each model's scores."""

    start: int
    stop: int
    known: Known
    records: tuple[Kept, ...]


def predict_batches(
    stimuli: StimulusSource[Known],
    models: Sequence[Model],
    keep: Callable[[Model, Tensor, Known], Kept],
    batch_size: BatchSize,
    advance: Advance = no_advance,
) -> Iterator[PredictedBatch[Known, Kept]]:
    """Yield the predictions of all models, in batches of nearly equal size.

    Args:
        stimuli: The images.
        models: The models; a GPU is not waited for, so that scores may still be no numbers.
        keep: What is kept of a model's scores (B, K), on their device, with what is known.
        batch_size: Halved where memory runs out.
        advance: Told in a message that it was halved.
    """
    start = 0
    while start < stimuli.n_images:
        # batches of equal size rather than a small one at the end
        n_left = stimuli.n_images - start
        stop = start + -(-n_left // -(-n_left // batch_size.n_images))
        try:
            images, known = stimuli.make(start, stop)
            records = tuple(keep(model, model(images, wait=False), known) for model in models)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if stop - start == 1:
                height, width = stimuli.size
                raise UsageError(
                    f"Memory ran out on a single picture of {width} × {height} px (width × height):"
                    " use smaller pictures, a smaller model or another device."
                ) from None
            batch_size.n_images = (stop - start) // 2
            advance(0, f"Out of memory: going on with batches of {batch_size.n_images}.")
            torch.cuda.empty_cache()
            continue
        yield PredictedBatch(start, stop, known, records)
        start = stop


def predict_classes(
    stimuli: StimulusSource[None],
    models: Sequence[Model],
    batch_size: BatchSize,
    advance: Advance = no_advance,
) -> list[Tensor]:
    """Return the class that each model predicts for each image, (N,) int64 on its device.

    Nothing is measured or written; a GPU is waited for once, at the end. `advance` is told of every
    image.
    """
    classes: list[list[Tensor]] = [[] for _ in models]
    finite: list[list[Tensor]] = [[] for _ in models]
    for batch in predict_batches(stimuli, models, _top_class, batch_size, advance):
        for number, (top_class, is_finite) in enumerate(batch.records):
            classes[number].append(top_class)
            finite[number].append(is_finite)
        advance(batch.stop - batch.start, "")
    for model, are_finite in zip(models, finite, strict=True):
        if not bool(torch.stack(are_finite).all()):
            raise model.refuse()
    return [torch.cat(batches) for batches in classes]


def _top_class(_model: Model, scores: Tensor, _known: None) -> tuple[Tensor, Tensor]:
    """Return the first of the best classes, and whether all scores are numbers."""
    return scores.argmax(dim=1), scores.isfinite().all()
