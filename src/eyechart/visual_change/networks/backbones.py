"""The convolutional networks whose features rulers compare, in stages of one resolution each.

AlexNet (Krizhevsky 2014) and VGG-16 (Simonyan and Zisserman 2015) as in torchvision; the
shift-tolerant variants of Ghildyal and Liu 2022 blur before they subsample, and DISTS (Ding et al.
2020) replaces the maximum of VGG's pooling by a weighted root of the mean square.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, pad

from eyechart.core.devices import has_triton

Layers = list[nn.Module]

# also DISTS's filter: a Hann window of length 5 without its zeros at the ends
BINOMIAL = (1.0, 2.0, 1.0)
"""The low-pass filter before subsampling, along each axis."""


def _subsampled(images: Tensor) -> Tensor:
    """Return every second pixel of images (B, C, H, W) after a binomial filter."""
    weights = torch.tensor(BINOMIAL, dtype=images.dtype, device=images.device) / sum(BINOMIAL)
    kernel = torch.outer(weights, weights).expand(images.shape[1], 1, -1, -1)
    return conv2d(images, kernel, stride=2, groups=images.shape[1])


class BlurPool(nn.Module):
    """Halves the resolution after a blur; reflects a border of two pixels.

    `side`: the maximum over `side` × `side` pixels is taken first.
    """

    def __init__(self, side: int = 1) -> None:
        super().__init__()
        self.side = side

    def forward(self, images: Tensor) -> Tensor:
        """Return images (B, C, H, W) at half the resolution."""
        if has_triton(images.device):
            from eyechart.visual_change.networks.networks_triton import pool_in_triton

            return pool_in_triton(images, self.side)
        largest = images if self.side == 1 else max_pool2d(images, self.side, 1)
        return _subsampled(pad(largest, (2, 2, 2, 2), mode="reflect"))


class RootMeanSquarePool(nn.Module):
    """Halves the resolution by a weighted root of the mean square over 3 × 3 pixels."""

    def forward(self, images: Tensor) -> Tensor:
        """Return images (B, C, H, W) at half the resolution."""
        if has_triton(images.device):
            from eyechart.visual_change.networks.networks_triton import pool_in_triton

            return pool_in_triton(images, is_root_mean_square=True)
        # the root has an infinite derivative at 0; the constant is that of DISTS
        return (_subsampled(pad(images.square(), (1, 1, 1, 1))) + 1e-12).sqrt()


class StackedConvolution(nn.Module):
    """A convolution of an image whose kernel has one row: its other rows are further channels.

    The result is the same up to rounding. A GPU's matrix units need a multiple of eight channels,
    and an image has three. Another channel is 1 everywhere, and its weight is the bias, because
    adding the bias to all outputs takes as long as computing them.
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        n_outputs, n_inputs, self.rows, columns = convolution.weight.shape
        self.stride, self.padding = int(convolution.stride[0]), int(convolution.padding[0])
        used = n_inputs * self.rows
        weight = convolution.weight.new_zeros((n_outputs, -(-(used + 1) // 8) * 8, 1, columns))
        weight[:, :used, 0] = convolution.weight.flatten(1, 2)
        assert convolution.bias is not None
        weight[:, used, 0, 0] = convolution.bias
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the convolution (B, C, h, w) of images (B, 3, H, W)."""
        windows = pad(images, (self.padding,) * 4).unfold(2, self.rows, self.stride).movedim(4, 2)
        batch, n_inputs, _, height, width = windows.shape
        used = n_inputs * self.rows
        stacked = torch.zeros(
            (batch, self.weight.shape[1], height, width), dtype=images.dtype, device=images.device
        ).to(memory_format=torch.channels_last)
        rows = stacked[:, :used].view(batch, n_inputs, self.rows, height, width)
        rows.copy_(windows)
        stacked[:, used] = 1
        return conv2d(stacked, self.weight, stride=(1, self.stride))


class Backbone(nn.Module):
    """Stages of layers; the output of each stage is one of the features."""

    def __init__(self, stages: list[Layers]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(*layers) for layers in stages)
        # `set_weights` copies in place, which torch does not allow for leaves that need a gradient
        self.requires_grad_(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features (B, C, h, w) of each stage."""
        features = []
        for stage in self.stages:
            # no stage begins with an in-place layer, which would overwrite the features before it
            images = stage(images)
            features.append(images)
        return features

    def stack_first(self) -> None:
        """Let the first convolution see the rows of its kernel as channels."""
        first = self.stages[0]
        assert isinstance(first, nn.Sequential) and isinstance(first[0], nn.Conv2d)
        first[0] = StackedConvolution(first[0])

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights of all convolutions, named as in `weights.py`."""
        convolutions = [layer for layer in self.modules() if isinstance(layer, nn.Conv2d)]
        for number, layer in enumerate(convolutions):
            assert layer.bias is not None
            layer.weight.copy_(weights[f"convolution{number}.weight"])
            layer.bias.copy_(weights[f"convolution{number}.bias"])


def alexnet() -> Backbone:
    """Return AlexNet without weights, five stages."""
    return Backbone(
        [
            [nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True)],
            [nn.MaxPool2d(3, 2), *_convolution(64, 192, 5)],
            [nn.MaxPool2d(3, 2), *_convolution(192, 384, 3)],
            _convolution(384, 256, 3),
            _convolution(256, 256, 3),
        ]
    )


def shift_tolerant_alexnet() -> Backbone:
    """Return the shift-tolerant AlexNet without weights, five stages."""
    return Backbone(
        [
            [nn.Conv2d(3, 64, 11, padding=2), BlurPool(), nn.ReLU(inplace=True)],
            [BlurPool(3), *_convolution(64, 192, 5)],
            [BlurPool(3), *_convolution(192, 384, 3)],
            _convolution(384, 256, 3),
            _convolution(256, 256, 3),
        ]
    )


def vgg16() -> Backbone:
    """Return VGG-16 without weights, five stages."""
    return _vgg16(lambda: [nn.MaxPool2d(2, 2)])


def shift_tolerant_vgg16() -> Backbone:
    """Return the shift-tolerant VGG-16 without weights, five stages."""
    return _vgg16(lambda: [BlurPool(2)])


def smooth_vgg16() -> Backbone:
    """Return VGG-16 with DISTS's pooling, without weights, five stages."""
    return _vgg16(lambda: [RootMeanSquarePool()])


def _vgg16(pooling: Callable[[], Layers]) -> Backbone:
    stages: list[Layers] = []
    n_inputs = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        # the first stage sees the full resolution
        layers = pooling() if stages else []
        for _ in range(depth):
            layers += _convolution(n_inputs, width, 3)
            n_inputs = width
        stages.append(layers)
    return Backbone(stages)


def _convolution(n_inputs: int, n_outputs: int, side: int) -> Layers:
    return [nn.Conv2d(n_inputs, n_outputs, side, padding=side // 2), nn.ReLU(inplace=True)]
