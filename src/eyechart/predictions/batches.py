"""Run models on images in batches; the batch size is halved when memory runs out.

The caller decides what is corrupted and measured, and what is kept of the scores.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.progress import Advance, no_advance
from eyechart.models.model import Model
from eyechart.testsets.stimuli import images_at_once

Kept = TypeVar("Kept")
Known = TypeVar("Known")


@dataclass(frozen=True, eq=False)
class StimulusSource(Generic[Known]):
    """Images for which models make predictions, produced one batch at a time.

    `size`: height and width of the largest image in px. `make`: a function that is called with the
    first index and the index after the last one; it returns these images, uint8 (B, 3, H, W) on the
    device, and their metadata (such as their visual change; None if nothing is measured). It is
    called again with fewer images if memory runs out.
    """

    n_images: int
    size: tuple[int, int]
    make: Callable[[int, int], tuple[Tensor, Known]]


@dataclass(eq=False)
class BatchSize:
    """Number of images per batch; halved permanently when memory runs out."""

    n_images: int


@dataclass(frozen=True, eq=False)
class PredictedBatch(Generic[Known, Kept]):
    """The metadata of images `start` … `stop` − 1, and what is kept of each model's scores."""

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
        models: The models. A GPU is not synchronized, so non-finite scores are not detected here.
        keep: Called with a model, its scores (B, K) and the metadata; returns what to keep, on the
            device of the scores.
        batch_size: Halved when memory runs out.
        advance: Receives a message when the batch size is halved.

    Raises:
        UsageError: If memory runs out on a single image.
    """
    start = 0
    while start < stimuli.n_images:
        most = images_at_once(batch_size.n_images, stimuli.size, models[0].device)
        # Batches of nearly equal size, rather than a small one at the end.
        n_left = stimuli.n_images - start
        stop = start + -(-n_left // -(-n_left // most))
        try:
            images, known = stimuli.make(start, stop)
            records = tuple(keep(model, _scores(model, images, most), known) for model in models)
        # The CPU allocator and TorchScript raise a plain RuntimeError when memory runs out.
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # A batch of one cannot be halved, but the network may have got a padded one.
            if stop - start == 1 and batch_size.n_images == 1:
                height, width = stimuli.size
                raise UsageError(
                    f"Out of memory on a single image of {width} × {height} px (width × height):"
                    " use smaller images, a smaller model or another device."
                ) from None
            batch_size.n_images = max(1, (stop - start) // 2)
            advance(0, f"Out of memory: continuing with batches of {batch_size.n_images}.")
            # Return cached blocks to the device: the smaller batch may not fit into fragments that
            # the larger one left.
            torch.cuda.empty_cache()
            continue
        yield PredictedBatch(start, stop, known, records)
        start = stop


def _scores(model: Model, images: Tensor, batch_size: int) -> Tensor:
    height, width = images.shape[2:]
    size = model.network_batch(batch_size, height * width)
    parts = [images[start : start + size] for start in range(0, len(images), size)]
    return torch.cat([model(part, wait=False, padded_to=size) for part in parts])


def predict_classes(
    stimuli: StimulusSource[None],
    models: Sequence[Model],
    batch_size: BatchSize,
    advance: Advance = no_advance,
) -> list[Tensor]:
    """Return the class that each model predicts for each image, (N,) int64 on its device.

    Nothing is measured or written. A GPU is synchronized once, at the end. `advance` is called for
    every batch with its number of images.
    """
    classes: list[list[Tensor]] = [[] for _ in models]
    finite: list[list[Tensor]] = [[] for _ in models]
    for batch in predict_batches(stimuli, models, _top_class, batch_size, advance):
        for number, (top_class, is_finite) in enumerate(batch.records):
            classes[number].append(top_class)
            finite[number].append(is_finite)
        advance(batch.stop - batch.start, "")
    for model, are_finite in zip(models, finite, strict=True):
        # Reading a flag waits for the GPU, so this is done once at the end.
        if not bool(torch.stack(are_finite).all()):
            raise model.reject()
    return [torch.cat(batches) for batches in classes]


def _top_class(_model: Model, scores: Tensor, _known: None) -> tuple[Tensor, Tensor]:
    """Return the highest-scoring class (the first if tied), and whether all scores are finite."""
    return scores.argmax(dim=1), scores.isfinite().all()
