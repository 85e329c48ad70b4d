"""Predictions for images without content, which define the last point of a model's curves."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

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


def destroyed_images(height: int, width: int) -> Tensor:
    """Return 16 images without content, uint8 (16, 3, H, W): eight uniform gray, eight noise."""
    half = COUNT // 2
    # From dark to bright gray, without pure black and white.
    levels = torch.linspace(16, 239, half).round().to(torch.uint8)
    gray = levels.reshape(-1, 1, 1, 1).expand(-1, 3, height, width)
    # Fixed keys: every model of every run gets the same noise.
    random = ImageRandom(torch.arange(half), [hash64(DESTROYED)] * half, torch.device("cpu"))
    noise = random.integers("pixels", (3, height, width), 256).to(torch.uint8)
    return torch.cat([gray, noise])


def predict_destroyed(
    images: ImageSet, plan: Plan, models: Sequence[Model], device: torch.device
) -> pa.Table:
    """Return every model's predictions for images without content, sized like the first image."""
    destroyed = destroyed_images(*images.sizes[0]).to(device)
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
        stimuli = StimulusSource(
            COUNT, images.sizes[0], lambda start, stop: (destroyed[start:stop], None)
        )
        batches = predict_batches(stimuli, [model], _all_scores, BatchSize(COUNT))
        scores = torch.cat([batch.records[0] for batch in batches])
        if not bool(scores.isfinite().all()):
            raise model.reject()
        tables.append(predictions_table(rows, model.name, record_scores(scores).on_cpu()))
    return pa.concat_tables(tables)


def _all_scores(_model: Model, scores: Tensor, _known: None) -> Tensor:
    return scores
