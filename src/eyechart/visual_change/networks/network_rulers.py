"""The rulers LPIPS, ST-LPIPS and DISTS behind the `Ruler` protocol."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from eyechart.core.devices import has_triton
from eyechart.visual_change.networks import backbones
from eyechart.visual_change.networks.backbones import Backbone
from eyechart.visual_change.networks.weights import has_weights, load_weights
from eyechart.visual_change.ruler import (
    CleanDescription,
    SharedDescription,
    check_size,
    has_variation,
)
from eyechart.visual_change.vif.fidelity import map_chunks

Result = TypeVar("Result")

Features = tuple[Tensor, ...]
"""Tensors whose first axis is the images."""

BATCH_PIXELS = 128 * 224 * 224
"""Number of pixels that pass through a network at once on a GPU; on a CPU, one image per core."""

SLOPE = 2
"""Exponent of the map from a distance to Δv, so that distances that humans hardly see count little.

It is the slope of Weibull's psychometric function.
"""

KEPT_BYTES = {"cpu": 1 << 30, "cuda": 16 << 30}
"""Most memory for features of clean images; on a GPU also at most a quarter of what is free.

Features that do not fit are computed again for each comparison.
"""


@dataclass(frozen=True, eq=False)
class CleanFeatures(SharedDescription):
    """Clean images and their features, which take up to 25 MB per image.

    `features` is None if they would take too much memory.
    """

    images: Tensor
    features: Features | None


@dataclass(frozen=True)
class NetworkRuler(ABC):
    """A distance between features of a network, mapped to Δv = 1 − exp(−(distance / unit)²).

    Attributes:
        name: the ruler's name.
        raw_name: the name of the distance.
        features: what is compared, as a phrase.
        network: builds the network without weights.
        weights: the names of the weights, the network's first.
        smallest_side: minimum width and height of images, in pixels.
        unit: the distance at which Δv is 1 − 1/e, such that unrelated images have a median
            Δv of about 0.8.
    """

    version = 2
    limits = (
        "The network was trained on images of about 224 px, and values depend on the size of"
        " images; constant clean images have no Δv."
    )

    name: str
    raw_name: str
    features: str
    network: Callable[[], Backbone]
    weights: tuple[str, ...]
    smallest_side: int
    unit: float

    @property
    def summary(self) -> str:
        """What the ruler measures, as a sentence."""
        return f"{self.features}: 1 − exp(−({self.raw_name} / {self.unit:g})²)."

    @property
    def full_side(self) -> int:
        """Equal to `smallest_side`, because all stages are used at every valid size."""
        return self.smallest_side

    @property
    def is_installed(self) -> bool:
        """Whether the ruler's weights are in the cache."""
        return has_weights(self.weights)

    def raw(self, delta_v: Tensor) -> Tensor:
        """Return the distance from which Δv was computed."""
        # the inverse of the map in `compare`; log1p is precise for small Δv
        return self.unit * (-torch.log1p(-delta_v)).pow(1 / SLOPE)

    def describe(self, clean: Tensor) -> CleanFeatures:
        """Return the features of clean images, uint8 (B, C, H, W).

        Raises:
            UsageError: the images are too small, or the ruler's weights are not installed.
        """
        check_size(self, clean)
        return CleanFeatures(
            has_variation(clean),
            len(self.loaded(clean.device).network.stages),
            torch.arange(len(clean), device=clean.device),
            clean,
            self._kept(clean),
        )

    def compare(self, description: CleanDescription, corrupted: Tensor) -> Tensor:
        """Return Δv of corrupted images, uint8 (B, C, H, W), as float64 (B,) in 0 … 1."""
        assert isinstance(description, CleanFeatures)
        indices = description.indices.expand(len(corrupted))

        def work(part: slice) -> Tensor:
            places = indices[part]
            if description.features is None:
                clean = self._describe(description.images[places])
                places = torch.arange(len(places), device=places.device)
            else:
                clean = description.features
            return self.distance(clean, places, self._describe(corrupted[part]))

        distance = torch.cat(_map_images(corrupted, work))
        # expm1 is precise at small distances; rounding may leave a distance slightly below 0
        change = -torch.expm1(-(distance.clamp_min(0) / self.unit).pow(SLOPE))
        return torch.where(description.measurable, change, torch.nan)

    @abstractmethod
    def normalize(self, images: Tensor) -> Tensor:
        """Return images of 0 … 255 in the range on which the network was trained."""

    @abstractmethod
    def prepare(self, images: Tensor, features: Sequence[Tensor]) -> Features:
        """Return what a comparison needs of images (0 … 255) and their features."""

    @abstractmethod
    def distance(self, clean: Features, indices: Tensor, corrupted: Features) -> Tensor:
        """Return the distances (B,), in float64, between prepared features.

        `indices` (B,): for each corrupted image, its place in `clean`.
        """

    def _kept(self, clean: Tensor) -> Features | None:
        """Return the prepared features of all images, or None if they take too much memory."""
        # one image shows how much memory all of them would take
        (first,) = _map_images(clean[:1], lambda part: self._describe(clean[part]))
        most_bytes = KEPT_BYTES.get(clean.device.type, KEPT_BYTES["cpu"])
        if clean.device.type == "cuda":
            most_bytes = min(most_bytes, torch.cuda.mem_get_info(clean.device)[0] // 4)
        if sum(values.nbytes for values in first) * len(clean) > most_bytes:
            return None
        if len(clean) == 1:
            return first
        kept = tuple(_room(len(clean), values) for values in first)

        def work(part: slice) -> None:
            for target, values in zip(kept, self._describe(clean[part]), strict=True):
                target[part] = values

        _map_images(clean, work)
        return kept

    def _describe(self, levels: Tensor) -> Features:
        """Return the prepared features of images, uint8 (B, C, H, W)."""
        network = self.loaded(levels.device).network
        # gray images get three equal channels, which the network expects
        images = levels.expand(-1, 3, -1, -1).to(torch.float32)
        normalized = self.normalize(images)
        if levels.device.type != "cuda":
            return self.prepare(images, network(normalized))
        normalized = normalized.to(torch.float16, memory_format=torch.channels_last)
        # by default, `flags` would turn cuDNN off
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ):
            features = network(normalized)
        return self.prepare(images, features)

    def loaded(self, device: torch.device) -> "LoadedNetwork":
        """Return the network with its weights on a device."""
        return _load_network(self.network, self.weights, self.name, device)


class LpipsRuler(NetworkRuler):
    """LPIPS (Zhang et al. 2018): weighted squared differences of features of unit length."""

    def normalize(self, images: Tensor) -> Tensor:
        """Return images of 0 … 255 with about zero mean and unit variance."""
        # the constants of the published LPIPS, for images in −1 … 1
        shift = images.new_tensor([-0.030, -0.088, -0.188])[:, None, None]
        scale = images.new_tensor([0.458, 0.448, 0.450])[:, None, None]
        return (images / 127.5 - 1 - shift) / scale

    def prepare(self, images: Tensor, features: Sequence[Tensor]) -> Features:
        """Return the features, at each position scaled to unit length over channels.

        The kernel that compares features scales them itself.
        """
        if has_triton(images.device):
            return tuple(features)
        return tuple(
            # the constant is that of LPIPS; where all features are 0, they stay 0
            values / (values.square().sum(dim=1, keepdim=True).sqrt() + 1e-10)
            for values in (values.float() for values in features)
        )

    def distance(self, clean: Features, indices: Tensor, corrupted: Features) -> Tensor:
        """Return LPIPS (B,)."""
        weights = self.loaded(indices.device).weights
        compare = _difference
        if has_triton(indices.device):
            from eyechart.visual_change.networks.networks_triton import difference_in_triton

            compare = difference_in_triton
        stages = enumerate(zip(clean, corrupted, strict=True))
        differences = [
            compare(before, indices, after, weights[f"head{stage}"])
            for stage, (before, after) in stages
        ]
        return torch.stack(differences).sum(dim=0)


def _difference(clean: Tensor, indices: Tensor, corrupted: Tensor, head: Tensor) -> Tensor:
    """Return the mean weighted difference (B,) of one stage of scaled features, float64."""
    weighted = (clean[indices] - corrupted).square_() * head[:, None, None]
    return weighted.sum(dim=1).mean(dim=(1, 2), dtype=torch.float64)


class DistsRuler(NetworkRuler):
    """DISTS (Ding et al. 2020): similarity of means (texture) and covariances (structure)."""

    def normalize(self, images: Tensor) -> Tensor:
        """Return images of 0 … 255 as torchvision normalizes them for ImageNet."""
        mean = images.new_tensor([0.485, 0.456, 0.406])[:, None, None]
        deviation = images.new_tensor([0.229, 0.224, 0.225])[:, None, None]
        return (images / 255 - mean) / deviation

    def prepare(self, images: Tensor, features: Sequence[Tensor]) -> Features:
        """Return the image (0 … 1) and its features."""
        return (images / 255, *features)

    def distance(self, clean: Features, indices: Tensor, corrupted: Features) -> Tensor:
        """Return DISTS (B,)."""
        moments = _moments
        if has_triton(indices.device):
            from eyechart.visual_change.networks.networks_triton import moments_in_triton

            moments = moments_in_triton
        stages = zip(clean, corrupted, strict=True)
        means = torch.cat([moments(before, indices, after) for before, after in stages], dim=2)
        mean, after_mean, square, after_square, product = means.unbind(dim=1)
        variance, after_variance = square - mean.square(), after_square - after_mean.square()
        covariance = product - mean * after_mean
        # 1e-6 is the constant of DISTS in both terms, for features that are nearly 0
        texture = (2 * mean * after_mean + 1e-6) / (mean**2 + after_mean**2 + 1e-6)
        structure = (2 * covariance + 1e-6) / (variance + after_variance + 1e-6)
        weights = self.loaded(mean.device).weights
        alpha, beta = weights["alpha"].double(), weights["beta"].double()
        # with 1 − similarity, equal images are at a distance of exactly 0
        total = (alpha * (1 - texture) + beta * (1 - structure)).sum(dim=1)
        return total / (alpha.sum() + beta.sum())


def _moments(clean: Tensor, indices: Tensor, corrupted: Tensor) -> Tensor:
    """Return means over pixels of clean x and corrupted y: x, y, x², y², xy, float64 (B, 5, C)."""
    x, y = clean[indices].float(), corrupted.float()
    means = [values.mean(dim=(2, 3), dtype=torch.float64) for values in (x, y, x * x, y * y, x * y)]
    return torch.stack(means, dim=1)


def _room(n_images: int, values: Tensor) -> Tensor:
    """Return memory for the features of several images, in the layout of those of one image."""
    is_last = values.ndim == 4 and values.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    shape = (n_images, *values.shape[1:])
    return torch.empty(shape, dtype=values.dtype, device=values.device, memory_format=layout)


def _map_images(images: Tensor, work: Callable[[slice], Result]) -> list[Result]:
    """Return the result of `work` for single images on a CPU, and for larger parts on a GPU."""
    if images.device.type == "cpu":
        # the last bits of a convolution depend on the size of its batch and the number of threads
        size = 1
    else:
        size = max(1, BATCH_PIXELS // (images.shape[-2] * images.shape[-1]))
    return map_chunks(images, work, size, one_thread_each=True)


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network on a device, and the weights with which its features are compared."""

    network: Backbone
    weights: dict[str, Tensor]


@lru_cache(maxsize=16)
def _load_network(
    build: Callable[[], Backbone],
    names: tuple[str, ...],
    ruler: str,
    device: torch.device,
) -> LoadedNetwork:
    """Return a network with its weights: in half precision on a GPU, otherwise in float32."""
    weights = {key: values for name in names for key, values in load_weights(name, ruler).items()}
    network = build()
    network.set_weights(weights)
    if device.type == "cuda":
        network.stack_first()
        # torch's types lack this argument
        network = network.to(device, torch.float16, memory_format=torch.channels_last)  # type: ignore[call-overload]
    others = {
        name: values.to(device)
        for name, values in weights.items()
        if not name.startswith("convolution")
    }
    return LoadedNetwork(network.eval(), others)


LPIPS_RULER = LpipsRuler(
    "lpips", "LPIPS", "Learned distance of AlexNet's features",
    backbones.alexnet, ("alexnet",), smallest_side=31, unit=0.56,
)  # fmt: skip
LPIPS_VGG_RULER = LpipsRuler(
    "lpips-vgg", "LPIPS (VGG)", "Learned distance of VGG-16's features",
    backbones.vgg16, ("vgg16",), smallest_side=16, unit=0.61,
)  # fmt: skip
ST_LPIPS_RULER = LpipsRuler(
    "st-lpips", "ST-LPIPS", "Learned distance of a shift-tolerant AlexNet's features",
    backbones.shift_tolerant_alexnet, ("shift-tolerant-alexnet",), smallest_side=21, unit=0.54,
)  # fmt: skip
ST_LPIPS_VGG_RULER = LpipsRuler(
    "st-lpips-vgg", "ST-LPIPS (VGG)",
    "Learned distance of a shift-tolerant VGG-16's features",
    backbones.shift_tolerant_vgg16, ("shift-tolerant-vgg16",), smallest_side=18, unit=0.57,
)  # fmt: skip
DISTS_RULER = DistsRuler(
    "dists", "DISTS", "Structure and texture in VGG-16's features",
    backbones.smooth_vgg16, ("vgg16", "structure-texture"), smallest_side=16, unit=0.34,
)  # fmt: skip
