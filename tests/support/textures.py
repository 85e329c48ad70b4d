"""Noisy textures of three tints, small networks that can tell them a little, and a small study."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

SIDE = 24
TINTS = {"amber": (14, 4, -14), "blue": (-10, -4, 14), "green": (-8, 12, -8)}


def save_textures(folder: Path, each: int = 20, seed: int = 0, side: int = SIDE, tints=TINTS):
    """Write so many pictures of each tint, a folder for each, and return the folder."""
    numbers = np.random.default_rng(seed)
    for name in tints:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(each):
            levels = (
                numbers.uniform(90, 160)
                + numbers.normal(0, 30, (side, side, 1))
                + np.array(TINTS[name]) * numbers.uniform(0.4, 1.4)
                + numbers.normal(0, 4, 3)
            )
            made = Image.fromarray(levels.clip(0, 255).astype(np.uint8))
            made.save(folder / name / f"{seed}-{index}.png")
    return folder


def network(classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.1)),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, classes)),
    )


def quits(classes: int) -> nn.Module:
    raise SystemExit(3)


def fails(classes: int) -> nn.Module:
    raise RuntimeError("no luck\nat all")


def counts(classes: int) -> int:
    return classes


def two_outputs(classes: int) -> nn.Module:
    return network(2)


def many_dimensions(classes: int) -> nn.Module:
    return nn.Conv2d(3, classes, 3)


class Net(nn.Module):
    """A class that is called with the number of classes, as a function would be."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(3, classes)

    def forward(self, images):
        return self.last(images.mean(dim=(2, 3)))


with torch.random.fork_rng(devices=[]):
    made = network(3)
