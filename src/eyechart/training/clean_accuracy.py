"""How accurate a trained network is on clean images."""

from dataclasses import dataclass
from pathlib import Path

import torch

from eyechart.models.find import load_model
from eyechart.stats.intervals import CONFIDENCE, Interval, wilson_interval
from eyechart.training.data import Held, LabelledImages
from eyechart.training.image_blocks import predict_held


@dataclass(frozen=True)
class CleanAccuracy:
    """The accuracy on so many clean images, with Wilson's interval at `CONFIDENCE`."""

    value: float
    interval: Interval
    n_images: int


def clean_accuracy(checkpoint: Path, test: LabelledImages, device: torch.device) -> CleanAccuracy:
    """Return how accurate the network of a checkpoint is on images to test with."""
    model = load_model(str(checkpoint), device, trust=True)
    held = Held(test, device)
    (classes,) = predict_held([model], held)
    share = float((classes == held.labels).double().mean())
    return CleanAccuracy(share, wilson_interval(share, len(test), CONFIDENCE), len(test))
