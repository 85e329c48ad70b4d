"""Networks whose features judge content and style, named as `style_judges:…`."""

from itertools import pairwise

import torch
from torch import nn


class Pyramid(nn.Module):
    """Four halvings, and a score for each of three classes."""

    def __init__(self):
        super().__init__()
        widths = (3, 8, 12, 16, 20)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(one, two, 3, 2, 1), nn.ReLU())
                for one, two in pairwise(widths)
            )
        )
        self.head = nn.Linear(20, 3)

    def forward(self, images):
        return self.head(self.layers(images).mean(dim=(2, 3)))


def made_pyramid():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Pyramid().eval()


pyramid = made_pyramid()


class Reusing(nn.Module):
    """One activation after every layer, and halvings in the middle of a stage, as ResNets have."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()
        widths = (3, 8, 12, 16, 20)
        self.before = nn.ModuleList(nn.Conv2d(one, one, 1) for one in widths[:-1])
        self.halve = nn.ModuleList(nn.Conv2d(*pair, 3, 2, 1) for pair in pairwise(widths))
        self.head = nn.Linear(20, 3)

    def stages(self, images):
        """Return what comes out of each stage."""
        found = []
        for before, halve in zip(self.before, self.halve, strict=True):
            images = self.relu(halve(self.relu(before(images))))
            found.append(images)
        return found

    def forward(self, images):
        return self.head(self.stages(images)[-1].mean(dim=(2, 3)))


with torch.random.fork_rng():
    torch.manual_seed(1)
    reusing = Reusing().eval()
