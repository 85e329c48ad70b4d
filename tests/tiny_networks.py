"""A real network, small, and pictures for it: what tests of models and of their files share."""

import torch
from torch import nn


def pictures(count=3, side=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def tiny(classes=5, seed=0):
    """Convolution, normalisation, pooling, linear layer."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, classes),
        ).eval()
