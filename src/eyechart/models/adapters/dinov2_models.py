"""`dinov2:…`: DINOv2 with its linear head, from transformers or a checkout of its repository.

The 224 px stimulus is normalized but not resized: 224 is DINOv2's input size.
"""

from pathlib import Path

import torch

from eyechart.core.errors import UsageError
from eyechart.models.adapters.hf_models import load_classifier
from eyechart.models.adapters.zoo import finished, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing
from eyechart.models.request import Request

SIZES = ("small", "base", "large", "giant")
HUB_ENTRY = "dinov2_vitg14_lc"
"""The giant model with the linear head on its last layer, as in the VCR study."""

STEPS = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), interpolation="bicubic")
"""The preprocessing of DINOv2's evaluation, after resizing to 256 px and cropping to 224 px."""


def load(name: str, request: Request) -> Model:
    """Return the model given by a size, a repository, a folder, or torch hub's CHECKOUT[/ENTRY]."""
    folder, entry = _checkout(name)
    if folder is not None:
        return _from_checkout(name, folder, entry, request)
    if name in SIZES:
        name = f"facebook/dinov2-{name}-imagenet1k-1-layer"
    return load_classifier(name, "dinov2", request)


def _checkout(name: str) -> tuple[Path | None, str]:
    path = Path(name)
    if (path / "hubconf.py").is_file():
        return path, HUB_ENTRY
    # CHECKOUT/ENTRY: the last part names a function, not a file.
    if (path.parent / "hubconf.py").is_file() and not path.exists():
        return path.parent, path.name
    return None, ""


def _from_checkout(name: str, folder: Path, entry: str, request: Request) -> Model:
    spec = f"dinov2:{name}"
    if not request.trust:
        raise UsageError(f"{spec} runs the code in {folder}: add --trust if you trust its author.")
    with zoo(spec, request):
        network = torch.hub.load(str(folder), entry, source="local")  # type: ignore[no-untyped-call]
    return finished(spec, network.float(), request, STEPS)
