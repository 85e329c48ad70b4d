"""The accuracy of a trained network on clean images."""

from dataclasses import dataclass
from pathlib import Path

import torch

from eyechart.models.find import load_model
from eyechart.stats.intervals import CONFIDENCE, Interval, wilson_interval
from eyechart.training.data import Held, LabeledImages
from eyechart.training.image_blocks import predict_held


@dataclass(frozen=True)
class CleanAccuracy:
    """The accuracy on clean images, 0…1, with Wilson's interval at level `CONFIDENCE`."""

    value: float
    interval: Interval
    n_images: int


def clean_accuracy(checkpoint: Path, test: LabeledImages, device: torch.device) -> CleanAccuracy:
    """Return the accuracy of a checkpoint's network on test images."""
    # The checkpoint comes from this training, so it is trusted.
    model = load_model(str(checkpoint), device, trust=True)
    held = Held(test, device)
    (classes,) = predict_held([model], held)
    share = float((classes == held.labels).double().mean())
    return CleanAccuracy(share, wilson_interval(share, len(test), CONFIDENCE), len(test))
