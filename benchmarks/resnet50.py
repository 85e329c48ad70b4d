"""A ResNet-50 with random weights, as the model whose speed others are compared with."""

import torch
from torch import Tensor, nn


class ResNet50(nn.Module):
    """A residual network of 50 layers (He et al. 2016) with random weights, only for timing."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        width = 64
        for place, blocks in enumerate((3, 4, 6, 3)):
            inner = 64 << place
            for block in range(blocks):
                stride = 2 if place and not block else 1
                layers.append(_Bottleneck(width, inner, stride))
                width = 4 * inner
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores (B, 1000)."""
        scores: Tensor = self.last(self.layers(images).mean(dim=(2, 3)))
        return scores


class _Bottleneck(nn.Module):
    def __init__(self, width: int, inner: int, stride: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(
            *_convolution(width, inner, 1), nn.ReLU(),
            *_convolution(inner, inner, 3, stride), nn.ReLU(),
            *_convolution(inner, 4 * inner, 1),
        )  # fmt: skip
        straight = width == 4 * inner and stride == 1
        self.beside = (
            nn.Identity() if straight else nn.Sequential(*_convolution(width, 4 * inner, 1, stride))
        )

    def forward(self, features: Tensor) -> Tensor:
        return torch.relu(self.inside(features) + self.beside(features))


def _convolution(width: int, out: int, side: int, stride: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(width, out, side, stride, side // 2, bias=False)
    return [layer, nn.BatchNorm2d(out)]
