"""Predictions for images without content, which define the last point of a model's curves."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.imageset import ImageSet
from eyechart.models.model import Model
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_batches
from eyechart.predictions.record import predictions_table, record_scores
from eyechart.testsets.manifest_rows import SCHEMA
from eyechart.testsets.plan import Plan

DESTROYED = "destroyed"
COUNT = 16
DESTROYED_ROWS = -1 - np.arange(COUNT)
"""Row numbers of images without content; no sample of a test set has them."""


def destroyed_images(height: int, width: int, places: Sequence[int] = range(COUNT)) -> Tensor:
    """Return images without content, uint8 (B, 3, H, W): of 16, eight uniform gray, eight noise.

    `places`: which of the 16; all by default.
    """
    half = COUNT // 2
    # From dark to bright gray, without pure black and white.
    levels = torch.linspace(16, 239, half).round().to(torch.uint8)
    images = torch.empty((len(places), 3, height, width), dtype=torch.uint8)
    # One at a time, because the random numbers take eight times the memory of an image.
    for image, place in zip(images, places, strict=True):
        if place < half:
            image[:] = levels[place]
            continue
        # Fixed keys: every model of every run gets the same noise.
        random = ImageRandom(torch.tensor([place - half]), [hash64(DESTROYED)], torch.device("cpu"))
        image[:] = random.integers("pixels", (3, height, width), 256)[0]
    return images


def predict_destroyed(
    images: ImageSet, plan: Plan, models: Sequence[Model], device: torch.device
) -> pa.Table:
    """Return every model's predictions for images without content, sized like the first image."""
    size = images.sizes[0]

    def make(start: int, stop: int) -> tuple[Tensor, None]:
        return to_device(destroyed_images(*size, range(start, stop)), device), None

    known = {
        "row": pa.array(DESTROYED_ROWS),
        "image": pa.array([f"{'gray' if i < COUNT // 2 else 'noise'} {i}" for i in range(COUNT)]),
        "suite": pa.array([plan.suite] * COUNT),
        "corruption": pa.array([DESTROYED] * COUNT),
    }
    rows = pa.table(
        [known.get(field.name, pa.nulls(COUNT, field.type)) for field in SCHEMA], schema=SCHEMA
    )
    tables = []
    for model in models:
        stimuli = StimulusSource(COUNT, size, make)
        batches = predict_batches(stimuli, [model], _all_scores, BatchSize(COUNT))
        scores = torch.cat([batch.records[0] for batch in batches])
        if not bool(scores.isfinite().all()):
            raise model.reject()
        tables.append(predictions_table(rows, model.name, record_scores(scores).on_cpu()))
    return pa.concat_tables(tables)


def _all_scores(_model: Model, scores: Tensor, _known: None) -> Tensor:
    return scores
