"""Pictures of four classes that differ plainly in contrast and a little in tint, and a network.

What looks at contrast alone is lost under noise, which adds to it; what looks at tint is not.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage import data
from torch import Tensor, nn

CLASSES = {
    "blue": (12.0, (-9, -3, 12)), "green": (26.0, (-6, 12, -6)),
    "grey": (40.0, (0, 0, 0)), "red": (54.0, (12, -6, -6)),
}  # fmt: skip
"""The spread of levels, and what is added to red, green and blue."""


class Small(nn.Module):
    """A convolution, then the mean and the mean square of what it sees, and a linear layer."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, classes)

    def forward(self, images: Tensor) -> Tensor:
        seen = self.first(images - 0.5)
        means = torch.cat([seen.mean(dim=(2, 3)), seen.square().mean(dim=(2, 3))], dim=1)
        return self.last(self.norm(means))  # type: ignore[no-any-return]


def _new(classes: int = 4) -> Small:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Small(classes)


untrained, untrained_thousand = _new(), _new(1000)
with_softmax = nn.Sequential(_new(), nn.Softmax(dim=1))


def save_contrasts(folder: Path, each: int, seed: int, side: int = 32) -> Path:
    """Write parts of a photograph, a folder for each class, and return the folder."""
    numbers = np.random.default_rng(seed)
    whole = np.asarray(Image.fromarray(data.astronaut()).convert("L").resize((256, 256)), float)
    for name, (spread, tint) in CLASSES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(each):
            top, left = numbers.integers(0, 256 - side, 2)
            part = whole[top : top + side, left : left + side] + numbers.normal(0, 2, (side, side))
            part = (part - part.mean()) / part.std() * spread * numbers.uniform(0.9, 1.1)
            levels = 128 + numbers.uniform(-20, 20) + part[..., None] + np.array(tint)
            made = Image.fromarray(levels.clip(0, 255).astype(np.uint8))
            made.save(folder / name / f"{seed}-{index}.png")
    return folder
