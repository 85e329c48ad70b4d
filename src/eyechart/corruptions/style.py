"""Style transfer by adaptive instance normalization (Huang and Belongie, ICCV 2017).

A network encodes an image as features, rescales each channel to the mean and standard deviation of
the same channel in a style image, and decodes the result to an image.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from eyechart.core.randomness import ImageRandom
from eyechart.corruptions.declaration import Parameter, Values, corruption

STRIDE = 4
"""Downsampling factor of the features relative to the image."""

MIN_SIDE = 64
"""Smaller images are enlarged first, because a style is not visible in very small images."""

FULL = 0.2
"""Minimum amount at which only the decoded image is used; below it, the original is mixed in."""

CHANNELS = 96


def _convolution(inner: int, outer: int, side: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.ReflectionPad2d(side // 2), nn.Conv2d(inner, outer, side, stride), nn.ReLU()
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(channels, channels),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the features plus the residual."""
        added: Tensor = x + self.body(x)
        return added


class StyleTransfer(nn.Module):
    """A network that encodes images as features and decodes features to images."""

    def __init__(self, channels: int = CHANNELS) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            _convolution(3, channels // 4, 7),
            _convolution(channels // 4, channels // 2, stride=2),
            _convolution(channels // 2, channels, stride=2),
            _Residual(channels),
            _Residual(channels),
        )
        self.decoder = nn.Sequential(
            _Residual(channels),
            _Residual(channels),
            _Residual(channels),
            nn.Upsample(scale_factor=2),
            _convolution(channels, channels // 2),
            nn.Upsample(scale_factor=2),
            _convolution(channels // 2, channels // 4),
            nn.ReflectionPad2d(3),
            nn.Conv2d(channels // 4, 3, 7),
            nn.Sigmoid(),
        )

    def forward(self, images: Tensor, means: Tensor, deviations: Tensor, amount: Tensor) -> Tensor:
        """Return stylized images (B, 3, H, W) in [0, 1]; sides must be multiples of four.

        `means` and `deviations`: the statistics of the style's features, (B, C). `amount`, (B,): 0
        for the original features, 1 for features with the style's statistics.
        """
        features = self.encoder(images)
        share = amount.reshape(-1, 1, 1, 1)
        styled = with_statistics(features, means, deviations)
        painted: Tensor = self.decoder((1 - share) * features + share * styled)
        return painted


def statistics(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each channel, both with shape (B, C)."""
    deviation, mean = torch.std_mean(features.flatten(2), dim=2, correction=0)
    return mean, deviation


def with_statistics(features: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """Return features (B, C, H, W) rescaled to the given mean and deviation of each channel."""
    mean, deviation = (moments[:, :, None, None] for moments in statistics(features))
    # the constant avoids a division by zero in constant channels
    plain = (features - mean) / (deviation + 1e-5)
    return plain * deviations[:, :, None, None] + means[:, :, None, None]


@dataclass(frozen=True, eq=False)
class Styles:
    """A trained network, and the mean and deviation of each channel for S styles, (S, C)."""

    network: StyleTransfer
    means: Tensor
    deviations: Tensor

    def __len__(self) -> int:
        return len(self.means)


@corruption(
    "style_transfer",
    "digital",
    Parameter("amount", 0, 1, "fraction", "0 keeps the features, 1 applies the style", clean=0),
    Parameter("style", 0, 1, "fraction", "0 is the first style, 1 the last", drawn=True),
    needs="styles",
)
def style_transfer(
    images: Tensor, random: ImageRandom, *, styles: Styles, amount: Values, style: Values
) -> Tensor:
    """Repaint the image in the style of another image (adaptive instance normalization)."""
    device = images.device
    network = styles.network.to(device)
    color = images.expand(-1, 3, -1, -1)
    result = images.clone()
    # one at a time, since a convolution of a batch may differ in the last bits from single images
    for row in range(len(images)):
        if not amount[row]:
            continue
        style_index = min(int(style[row] * len(styles)), len(styles) - 1)
        means, deviations = (
            moments[style_index : style_index + 1].to(device)
            for moments in (styles.means, styles.deviations)
        )
        painted = _repainted(network, color[row : row + 1], means, deviations, float(amount[row]))
        if images.shape[1] == 1:
            painted = painted.mean(dim=1, keepdim=True)
        share = min(1.0, float(amount[row]) / FULL)
        result[row] = (1 - share) * images[row] + share * painted[0]
    return result


@torch.no_grad()
def _repainted(
    network: StyleTransfer, image: Tensor, means: Tensor, deviations: Tensor, amount: float
) -> Tensor:
    """Return one stylized image at its original size."""
    height, width = image.shape[2:]
    scale = max(1.0, MIN_SIDE / min(height, width))
    size = round(height * scale), round(width * scale)
    if scale > 1:
        image = interpolate(image, size, mode="bilinear", antialias=False)
    # the encoder halves both sides twice
    below, right = -size[0] % STRIDE, -size[1] % STRIDE
    framed = pad(image, (0, right, 0, below), mode="replicate")
    share = torch.tensor([amount], dtype=torch.float32, device=image.device)
    # without TF32, so that all devices produce the same image; `flags` alone would turn cuDNN off
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    ):
        painted: Tensor = network(framed, means, deviations, share)[:, :, : size[0], : size[1]]
    if scale > 1:
        painted = interpolate(painted, (height, width), mode="bilinear", antialias=True)
    return painted
