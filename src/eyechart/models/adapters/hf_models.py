"""`hf:REPO` or `hf:FOLDER`: image classifiers from transformers, with their processor.

The 224 px stimulus is resized to the processor's output size without cropping, then normalized.
`dinov2:…` is DINOv2 with its linear head, from transformers or a checkout of its repository.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.zoo import build_model, interpolation, square, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Channels, Preprocessing

STIMULUS = 224
PIL_RESAMPLING = ("nearest", "bicubic", "bilinear", "bicubic", "bilinear", "bilinear")
"""Interpolation for each of Pillow's method numbers 0 … 5; Lanczos, box and Hamming are replaced by
the closest method that tensors support.
"""


SIZES = ("small", "base", "large", "giant")
HUB_ENTRY = "dinov2_vitg14_lc"
"""DINOv2's giant model with the linear head on its last layer, as in the VCR study."""

STEPS = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), interpolation="bicubic")
"""The preprocessing of DINOv2's evaluation, after resizing to 256 px and cropping to 224 px."""


class Scores(nn.Module):
    """Wraps a network that returns a record, and returns only its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (B, K)."""
        logits: Tensor = self.network(images).logits
        return logits


def load(name: str, request: Request, prefix: str = "hf") -> Model:
    """Return the classifier in a repository or folder as the model `prefix:name`."""
    spec = f"{prefix}:{name}"
    package = need("transformers", prefix, "AutoImageProcessor", "AutoModelForImageClassification")
    with zoo(spec, request, repository=is_repository(spec, name)), without_bars(package, request):
        options = options_for(request)
        processor = package.AutoImageProcessor.from_pretrained(name, **options)
        network = package.AutoModelForImageClassification.from_pretrained(
            name, **options, weights_only=not request.trust
        ).float()
        steps = steps_of(spec, processor)
    labels = [str(network.config.id2label[number]) for number in range(network.config.num_labels)]
    return build_model(spec, Scores(network), request, steps, labels=labels)


def load_dinov2(name: str, request: Request) -> Model:
    """Return the model given by a size, a repository, a folder, or torch hub's CHECKOUT[/ENTRY]."""
    path, spec = Path(name), f"dinov2:{name}"
    if (path / "hubconf.py").is_file():
        folder, entry = path, HUB_ENTRY
    # CHECKOUT/ENTRY: the last part names a function, not a file.
    elif (path.parent / "hubconf.py").is_file() and not path.exists():
        folder, entry = path.parent, path.name
    else:
        if name in SIZES:
            name = f"facebook/dinov2-{name}-imagenet1k-1-layer"
        return load(name, request, "dinov2")
    if not request.trust:
        raise UsageError(f"{spec} runs the code in {folder}: add --trust if you trust its author.")
    with zoo(spec, request):
        network = torch.hub.load(str(folder), entry, source="local")  # type: ignore[no-untyped-call]
    return build_model(spec, network.float(), request, STEPS)


def options_for(request: Request) -> dict[str, bool]:
    """Return the options for `from_pretrained`: by default, no network and no remote code."""
    return {"local_files_only": not request.download, "trust_remote_code": request.trust}


@contextmanager
def without_bars(package: ModuleType, request: Request) -> Iterator[None]:
    """Disable transformers' progress bars unless weights may be downloaded."""
    bars = package.utils.logging
    if request.download or not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()


def is_repository(spec: str, name: str) -> bool:
    """Return whether a name is a repository, not a folder; raise a UsageError if it is neither."""
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UsageError(f"{spec} must be a folder with a config.json, but {name} has none.")
        return False
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise UsageError(
            f"{spec} must be a folder or a repository (owner/name), but there is no folder {name}."
        )
    return True


def steps_of(spec: str, processor: Untyped) -> Preprocessing:
    """Return the preprocessing that a processor applies to a stimulus.

    The settings differ between kinds of processors, so their effect is measured on uniform images:
    the output size, and the values to which black and white are mapped.
    """
    black, white, red = (
        _processed(processor, color) for color in ((0, 0, 0), (255, 255, 255), (255, 0, 0))
    )
    height, width = black.shape[1:]
    low, high, seen = (values[:, height // 2, width // 2] for values in (black, white, red))
    # Pure red that appears in the last channel means BGR.
    reverse = bool(np.allclose(seen, [low[0], low[1], high[2]], atol=1e-4))
    if not reverse and not np.allclose(seen, [high[0], low[1], low[2]], atol=1e-4):
        raise UsageError(f"The processor of {spec} mixes color channels, which is not supported.")
    if reverse:
        # Mean and deviation are applied before the channels are swapped.
        low, high = low[::-1], high[::-1]
    # low = (0 − mean) / std and high = (1 − mean) / std, so their difference is 1 / std.
    spread = 1 / (high - low)
    return Preprocessing(
        side=square(spec, height, width),
        mean=_channels(-low * spread),
        std=_channels(spread),
        interpolation=_resampling(processor),
        channels="bgr" if reverse else "rgb",
    )


def _processed(processor: Untyped, color: tuple[int, int, int]) -> NDArray[np.float64]:
    image = Image.new("RGB", (STIMULUS, STIMULUS), color)
    values = np.asarray(processor(images=image, return_tensors="np")["pixel_values"])
    return values.reshape(values.shape[-3:]).astype(np.float64)


def _channels(values: NDArray[np.float64]) -> Channels:
    # The processor's float32 is precise to seven digits.
    red, green, blue = (round(float(value), 7) for value in values)
    return (red, green, blue)


def _resampling(processor: Untyped) -> str:
    resample = getattr(processor, "resample", None)
    if resample is None:
        return "bicubic"
    if isinstance(resample, int):
        return PIL_RESAMPLING[int(resample)]
    return interpolation(str(getattr(resample, "value", resample)))
