"""A real network, small, and pictures for it: what tests of models and of their files share."""

import warnings

import torch
from torch import nn


def random_images(count=3, side=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def tiny(classes=5, seed=0):
    """Convolution, normalization, pooling, linear layer."""
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


def write_script(path, network, how="script", side=16):
    with warnings.catch_warnings():
        # Writing it is deprecated; reading what others wrote must still work, and silently.
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        if how == "trace":
            script = torch.jit.trace(network, torch.rand(1, 3, side, side))
        else:
            script = torch.jit.script(network)
        torch.jit.save(torch.jit.freeze(script) if how == "freeze" else script, str(path))
