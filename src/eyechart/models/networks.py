"""Untrained networks to train from scratch: small ones for small images, and ImageNet's ResNets.

Their names are in `registries`. Any image size works, since every network ends in global
pooling.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.models.adapter import need
from eyechart.models.adapters.python_object import import_object
from eyechart.models.model import as_usage_error, in_one_line
from eyechart.models.registries import ACCEPTED, NETWORKS, ZOOS


def build_network(name: str, classes: int) -> nn.Module:
    """Return the untrained network `name`, with weights from torch's global random state.

    `name`: a built-in network, `timm:NAME`, `torchvision:NAME`, or a custom `module:function`,
    which is called with the number of classes.
    """
    if classes < 2:
        raise UsageError(f"A network needs at least 2 classes, got {classes}.")
    if name in NETWORKS:
        return NETWORKS[name](classes)
    zoo, colon, architecture = name.partition(":")
    if not colon or not architecture:
        raise unknown_name("network", name, ACCEPTED)
    if zoo not in ZOOS:
        make, _ = import_object(name, classes_too=True)
        with as_usage_error(lambda error: f"'{name}' failed: {in_one_line(error)}."):
            made = make(classes) if callable(make) and not isinstance(make, nn.Module) else None
        if not isinstance(made, nn.Module):
            raise UsageError(
                f"'{name}' must be a function that takes the number of classes and returns a"
                f" torch.nn.Module, got {type(make if made is None else made).__name__}."
            )
        return made
    if zoo == "timm":
        timm = need("timm", "timm")
        if not timm.is_model(architecture):
            raise unknown_name("timm network", architecture, timm.list_models())
        return cast(
            nn.Module, timm.create_model(architecture, pretrained=False, num_classes=classes)
        )
    models = need("torchvision.models", "torchvision")
    if architecture not in models.list_models(module=models):
        raise unknown_name("torchvision network", architecture, models.list_models(module=models))
    return cast(nn.Module, models.get_model(architecture, weights=None, num_classes=classes))


def _convolution(inner: int, outer: int, side: int = 3, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inner, outer, side, stride, padding=side // 2, bias=False)


def _step(inner: int, outer: int) -> nn.Sequential:
    """Return a convolution followed by batch normalization and a ReLU."""
    return nn.Sequential(_convolution(inner, outer), nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


class ResNet9(nn.Module):
    """Eight convolutions, a linear layer and two skip connections, for images of 32 and 64 px.

    The network trains in seconds. Its architecture follows the fast CIFAR-10 networks of the
    DAWNBench competition.
    """

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__()
        self.stem = _step(3, width)
        self.first = _step(width, 2 * width)
        self.first_skip = nn.Sequential(_step(2 * width, 2 * width), _step(2 * width, 2 * width))
        self.second = _step(2 * width, 4 * width)
        self.third = _step(4 * width, 8 * width)
        self.third_skip = nn.Sequential(_step(8 * width, 8 * width), _step(8 * width, 8 * width))
        self.head = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores (B, K)."""
        x = functional.max_pool2d(self.first(self.stem(images)), 2)
        x = x + self.first_skip(x)
        x = functional.max_pool2d(self.second(x), 2)
        x = functional.max_pool2d(self.third(x), 2)
        x = x + self.third_skip(x)
        # Small initial logits, so that the first steps do not overshoot.
        return cast(Tensor, self.head(x.amax(dim=(2, 3)))) * 0.125


class _Residual(nn.Module):
    """Convolutions, each followed by normalization, with a skip connection (He et al., 2016)."""

    def __init__(self, body: nn.Sequential, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = body
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.skip = nn.Sequential(
                _convolution(inner, outer, side=1, stride=stride), nn.BatchNorm2d(outer)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the features after the block."""
        return functional.relu(self.body(x) + self.skip(x))


class _BasicBlock(_Residual):
    """Two 3×3 convolutions with a skip connection."""

    expansion = 1

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        body = nn.Sequential(
            _convolution(inner, outer, stride=stride),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
            _convolution(outer, outer),
            nn.BatchNorm2d(outer),
        )
        super().__init__(body, inner, outer, stride)


class _PooledClassifier(nn.Module):
    """A body, global average pooling, and a linear layer."""

    def __init__(self, body: list[nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.head = nn.Linear(features, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores (B, K)."""
        return cast(Tensor, self.head(self.body(images).mean(dim=(2, 3))))


class ResNet18(_PooledClassifier):
    """ResNet-18 with a 3×3 stem and no pooling after it, for images of 32 px."""

    def __init__(self, classes: int) -> None:
        blocks: list[nn.Module] = [_step(3, 64)]
        inner = 64
        for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_BasicBlock(inner, outer, stride), _BasicBlock(outer, outer, 1)]
            inner = outer
        super().__init__(blocks, inner, classes)


class _Bottleneck(_Residual):
    """1×1, 3×3 and 1×1 convolutions with a skip connection.

    The first convolution has the stride, as in the paper. In torchvision's ResNets, the 3×3
    convolution has the stride; that is a different network with different weights.
    """

    expansion = 4

    def __init__(self, inner: int, width: int, stride: int) -> None:
        outer = self.expansion * width
        body = nn.Sequential(
            _convolution(inner, width, side=1, stride=stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, width),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, outer, side=1),
            nn.BatchNorm2d(outer),
        )
        super().__init__(body, inner, outer, stride)


class ImageNetResNet(nn.Module):
    """A ResNet with ImageNet's stem: a 7×7 convolution and max pooling, each with stride 2."""

    def __init__(
        self, classes: int, block: type[_BasicBlock | _Bottleneck], repeats: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _convolution(3, 64, side=7, stride=2),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[nn.Module] = []
        inner = 64
        for group, count in enumerate(repeats):
            width = 64 * 2**group
            for number in range(count):
                # Each group except the first one halves the size in its first block.
                blocks.append(block(inner, width, 2 if group and not number else 1))
                inner = block.expansion * width
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(inner, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores (B, K)."""
        return cast(Tensor, self.head(self.body(self.stem(images)).mean(dim=(2, 3))))


def imagenet_resnet18(classes: int) -> ImageNetResNet:
    """Return ResNet-18 with ImageNet's 7×7 stem, for images of 224 px."""
    return ImageNetResNet(classes, _BasicBlock, (2, 2, 2, 2))


def imagenet_resnet50(classes: int) -> ImageNetResNet:
    """Return ResNet-50 with ImageNet's 7×7 stem, for images of 224 px."""
    return ImageNetResNet(classes, _Bottleneck, (3, 4, 6, 3))


class _WideBlock(nn.Module):
    """Two pre-activation convolutions with dropout in between (Zagoruyko, Komodakis, 2016)."""

    def __init__(self, inner: int, outer: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(inner), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            _convolution(inner, outer, stride=stride),
            nn.BatchNorm2d(outer),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            _convolution(outer, outer),
        )
        same = stride == 1 and inner == outer
        # The skip needs a projection where the shape changes.
        self.skip = None if same else _convolution(inner, outer, side=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features after the block."""
        ready = self.before(x)
        # Where the shape changes, the skip takes normalized features, as in the authors' code.
        beside = x if self.skip is None else self.skip(ready)
        return cast(Tensor, self.body(ready) + beside)


class WideResNet(_PooledClassifier):
    """WRN-depth-width: 3 groups of (depth − 4) / 6 blocks with width × (16, 32, 64) channels."""

    def __init__(self, classes: int, depth: int, width: int, dropout: float = 0.3) -> None:
        blocks: list[nn.Module] = [_convolution(3, 16)]
        inner = 16
        for group, stride in enumerate((1, 2, 2)):
            outer = 16 * width * 2**group
            for number in range((depth - 4) // 6):
                blocks.append(_WideBlock(inner, outer, 1 if number else stride, dropout))
                inner = outer
        blocks += [nn.BatchNorm2d(inner), nn.ReLU(inplace=True)]
        super().__init__(blocks, inner, classes)


def wrn_16_4(classes: int) -> WideResNet:
    """Return WRN-16-4: a ResNet with 16 layers and 4 times the channels, for small images."""
    return WideResNet(classes, depth=16, width=4)


def wrn_40_2(classes: int) -> WideResNet:
    """Return WRN-40-2: a ResNet with 40 layers and twice the channels, for small images."""
    return WideResNet(classes, depth=40, width=2)


def _halved(features: Tensor) -> Tensor:
    """Return features with half the height and width; 1 × 1 features are unchanged."""
    return functional.max_pool2d(features, 2, ceil_mode=True)


class _GridLayer(nn.Module):
    """Convolves each scale together with its neighboring scales (Ke, Maire, Yu. CVPR 2017)."""

    def __init__(self, inner: tuple[int, ...], outer: tuple[int, ...]) -> None:
        super().__init__()
        # The input of each scale is itself, the next larger and the next smaller scale.
        near = [sum(inner[max(0, number - 1) : number + 2]) for number in range(len(inner))]
        self.steps = nn.ModuleList(_step(one, two) for one, two in zip(near, outer, strict=True))
        self.same = inner == outer

    def forward(self, grids: list[Tensor]) -> list[Tensor]:
        """Return the features of each scale, the largest first."""
        new_grids = []
        for number, step in enumerate(self.steps):
            size = grids[number].shape[2:]
            near = grids[max(0, number - 1) : number + 2]
            fitted = [
                functional.adaptive_max_pool2d(grid, size)
                if grid.shape[2] > size[0]
                else functional.interpolate(grid, size)
                for grid in near
            ]
            new_grid = step(torch.cat(fitted, dim=1))
            new_grids.append(new_grid + grids[number] if self.same else new_grid)
        return new_grids


class Multigrid(nn.Module):
    """The multigrid network, which processes three scales in every layer, for small images."""

    def __init__(self, classes: int, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.stem = _step(3, width)
        layers: list[nn.Module] = []
        inner = (width, width, width)
        for group in range(3):
            wide = width * 2**group
            outer = (wide, wide, wide)
            for _ in range(depth):
                layers.append(_GridLayer(inner, outer))
                inner = outer
        self.depth, self.layers = depth, nn.ModuleList(layers)
        self.head = nn.Linear(sum(inner), classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores (B, K)."""
        first = self.stem(images)
        grids = [first, _halved(first), _halved(_halved(first))]
        for number, layer in enumerate(self.layers):
            if number and number % self.depth == 0:
                # All scales are halved between groups; other networks halve their only scale.
                grids = [_halved(grid) for grid in grids]
            grids = layer(grids)
        return cast(Tensor, self.head(torch.cat([grid.mean(dim=(2, 3)) for grid in grids], dim=1)))
