"""Which pictures models are right on, clean or corrupted, block by block on the device."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eyechart.models.model import Model
from eyechart.training.blocks import BLOCK_PIXELS
from eyechart.training.data import Held
from eyechart.training.mixture import Mixture


def answers_of(model: Model, held: Held) -> NDArray[np.int64]:
    """Return the class that a model says of each clean picture, (N,)."""
    found = [model(held.batch(own), wait=False).argmax(dim=1) for own in _blocks(held)]
    answers: NDArray[np.int64] = torch.cat(found).cpu().numpy()
    return answers


def right_answers(
    models: Mapping[str, Model], held: Held, mixture: Mixture
) -> dict[str, NDArray[np.bool_]]:
    """Return, for each model, whether it is right on each picture, (N,).

    The mixture corrupts pictures in the same way every time.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in models}
    for places in _blocks(held):
        own = places.to(held.device)
        pictures = mixture.corrupt(held.batch(places), held.keys[own], 0, 0)
        for name, model in models.items():
            found[name].append(model(pictures, wait=False).argmax(dim=1) == held.labels[own])
    return {name: torch.cat(parts).cpu().numpy() for name, parts in found.items()}


def _blocks(held: Held) -> Iterator[Tensor]:
    """Yield the places of pictures that are asked about together."""
    height, width = held.data.size
    size = max(1, BLOCK_PIXELS.get(held.device.type, BLOCK_PIXELS["cpu"]) // (height * width))
    for start in range(0, len(held.data), size):
        yield torch.arange(start, min(start + size, len(held.data)))
