"""`hf:`, `dinov2:` and `clip:`: models from transformers; CLIP's also from open_clip.

The 224 px stimulus is resized to the size that the model's processor returns, without cropping,
then normalized. CLIP compares images with texts, which are encoded once.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize

from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import class_names
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.zoo import (
    build_model,
    interpolation,
    normalizing,
    square,
    unknown_of_many,
    zoo,
)
from eyechart.models.model import Channels, Model, Preprocessing

STIMULUS = 224
PIL_RESAMPLING = ("nearest", "bicubic", "bilinear", "bicubic", "bilinear", "bilinear")
"""Interpolation for each of Pillow's method numbers 0 … 5; Lanczos, box and Hamming are replaced by
the closest method that tensors support.
"""


SIZES = ("small", "base", "large", "giant")
STEPS = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), interpolation="bicubic")
"""The preprocessing of DINOv2's evaluation, after resizing to 256 px and cropping to 224 px."""


PROMPT = "a picture of {}"
"""The VCR study's prompt."""

OPEN_CLIP = re.compile(r"(RN|ViT|EVA|convnext|coca|xlm|roberta|nllb|MobileCLIP)", re.IGNORECASE)
"""Prefixes of open_clip's model names, used when open_clip is not installed."""

TEXTS_PER_BATCH = 64
"""Number of texts per batch."""


class Scores(nn.Module):
    """Wraps a network that returns a record, and returns only its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (B, K)."""
        return cast(Tensor, self.network(images).logits)


def load_hf(name: str, request: Request, prefix: str = "hf") -> Model:
    """Return the classifier in a repository or folder as the model `prefix:name`."""
    spec = f"{prefix}:{name}"
    package = need("transformers", prefix, "AutoImageProcessor", "AutoModelForImageClassification")
    with hub(spec, name, package, request) as options:
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
        # The giant model with the linear head on its last layer, as in the VCR study.
        folder, entry = path, "dinov2_vitg14_lc"
    # CHECKOUT/ENTRY: the last part names a function, not a file.
    elif (path.parent / "hubconf.py").is_file() and not path.exists():
        folder, entry = path.parent, path.name
    else:
        if name in SIZES:
            name = f"facebook/dinov2-{name}-imagenet1k-1-layer"
        return load_hf(name, request, "dinov2")
    if not request.trust:
        raise UsageError(f"{spec} runs the code in {folder}: add --trust if you trust its author.")
    with zoo(spec, request):
        network = torch.hub.load(str(folder), entry, source="local")  # type: ignore[no-untyped-call]
    return build_model(spec, network.float(), request, STEPS)


@contextmanager
def hub(spec: str, name: str, package: ModuleType, request: Request) -> Iterator[dict[str, bool]]:
    """Let transformers load a repository or folder, with these options for `from_pretrained`.

    By default they allow no network and no remote code, and there are no progress bars.
    """
    bars = package.utils.logging
    hides_bars = not request.download and bars.is_progress_bar_enabled()
    if hides_bars:
        bars.disable_progress_bar()
    try:
        with zoo(spec, request, repository=is_repository(spec, name)):
            yield {"local_files_only": not request.download, "trust_remote_code": request.trust}
    finally:
        if hides_bars:
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
    images = (Image.new("RGB", (STIMULUS, STIMULUS), color) for color in ("black", "white", "red"))
    processed: list[NDArray[np.float64]] = []
    for image in images:
        values = np.asarray(processor(images=image, return_tensors="np")["pixel_values"])
        processed.append(values.reshape(values.shape[-3:]).astype(np.float64))
    black, white, red = processed
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


class ZeroShot(nn.Module):
    """Logits: the cosine similarity of an image with each text, times the model's scale."""

    def __init__(self, images: nn.Module, texts: Tensor, scale: float) -> None:
        super().__init__()
        self.images = images
        # Not a buffer: converted to bfloat16, logits of 25 and 25.1 would be equal.
        self.texts = texts
        self.scale = scale

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (B, number of texts), float32."""
        features = self.images(images)
        if isinstance(features, tuple):
            # CoCa's image encoder returns its tokens as well.
            features = features[0]
        return self.scale * normalize(features.float(), dim=1) @ self.texts.T


class ImageEncoder(nn.Module):
    """The image encoder of a CLIP model from transformers."""

    def __init__(self, model: Untyped) -> None:
        super().__init__()
        self.tower = model.vision_model
        self.projection = model.visual_projection

    def forward(self, images: Tensor) -> Tensor:
        """Return features (B, C)."""
        return cast(Tensor, self.projection(self.tower(pixel_values=images).pooler_output))


def load_clip(name: str, request: Request) -> Model:
    """Return a zero-shot classifier, given open_clip's NAME[/WEIGHTS], a repository or a folder."""
    texts, names = texts_of(request)
    spec = f"clip:{name}"
    load_parts = _from_open_clip if _is_open_clip(name) else _from_transformers
    network, image_encoder, encoded, steps = load_parts(spec, name, request, texts)
    module = ZeroShot(image_encoder, encoded, float(network.logit_scale.detach().exp()))
    # Scores depend on the texts and on the text encoder too, so both are part of the identity.
    return build_model(
        spec, module, request, steps, labels=names, also=repr(texts), network=network
    )


def texts_of(request: Request) -> tuple[list[str], tuple[str, ...] | None]:
    """Return a text for each class, and the class names if they are not ImageNet's."""
    prompt = PROMPT if request.prompt is None else request.prompt
    if prompt.count("{}") != 1:
        raise UsageError(
            f"A prompt must contain {{}} once, as placeholder for the class name, got '{prompt}'."
        )
    names = request.class_names
    if names is not None and (len(names) < 2 or not all(name.strip() for name in names)):
        raise UsageError(f"At least two non-empty class names are needed, got {list(names)}.")
    return [prompt.replace("{}", name) for name in names or class_names()], names


def _is_open_clip(name: str) -> bool:
    """Return whether a name is an open_clip model, not a transformers repository or folder."""
    folder = Path(name)
    if folder.is_dir():
        return (folder / "open_clip_config.json").is_file()
    if name.startswith(("hf-hub:", "local-dir:")) or "/" not in name:
        return True
    # owner/name is a repository, unless the first part is an open_clip model.
    if find_spec("open_clip") is None:
        return OPEN_CLIP.match(name) is not None
    return name.partition("/")[0] in need("open_clip", "clip").list_models()


def _from_open_clip(
    spec: str, name: str, request: Request, texts: list[str]
) -> tuple[Untyped, nn.Module, Tensor, Preprocessing]:
    """Return the network, its image encoder, the encoded texts and the preprocessing."""
    package = need("open_clip", "clip")
    if Path(name).is_dir():
        name = f"local-dir:{name}"
    base, weights = (name, None) if ":" in name else _named(package, name)
    with zoo(spec, request):
        model = package.create_model(
            base, pretrained=weights, device="cpu", weights_only=not request.trust
        )
        # In full precision while texts are encoded; `build_model` converts the image encoder.
        model = model.float().eval().to(request.device)
        tokenizer = package.get_tokenizer(base)
        encoded = _encode(texts, lambda some: model.encode_text(tokenizer(some).to(request.device)))
    config = model.visual.preprocess_cfg
    size = config["size"]
    height, width = (size, size) if isinstance(size, int) else size
    steps = normalizing(
        spec,
        (height, width),
        config["mean"],
        config["std"],
        config.get("interpolation", "bicubic"),
    )
    return model, model.visual, encoded, steps


def _named(package: ModuleType, name: str) -> tuple[str, str]:
    """Return open_clip's names of the model and of its weights, by default the first weights."""
    base, _, weights = name.partition("/")
    if base not in (models := package.list_models()):
        raise unknown_of_many("open_clip model", base, models, "open_clip.list_models()")
    known = package.list_pretrained_tags_by_model(base)
    if not known:
        raise UsageError(
            f"open_clip has no weights for {base}: choose from open_clip.list_pretrained()."
        )
    if weights and weights not in known:
        raise unknown_of_many(f"weights of {base}", weights, known, "open_clip.list_pretrained()")
    return base, weights or known[0]


def _from_transformers(
    spec: str, name: str, request: Request, texts: list[str]
) -> tuple[Untyped, nn.Module, Tensor, Preprocessing]:
    """Return the network, its image encoder, the encoded texts and the preprocessing."""
    package = need("transformers", "clip", "AutoImageProcessor", "AutoTokenizer", "CLIPModel")
    with hub(spec, name, package, request) as options:
        steps = steps_of(spec, package.AutoImageProcessor.from_pretrained(name, **options))
        tokenizer = package.AutoTokenizer.from_pretrained(name, **options)
        # This option is for the Auto classes only.
        options.pop("trust_remote_code")
        model = package.CLIPModel.from_pretrained(name, **options, weights_only=not request.trust)
        model = model.float().eval().to(request.device)

        def encode(some: Sequence[str]) -> Tensor:
            tokens = tokenizer(list(some), padding=True, truncation=True, return_tensors="pt")
            pooled = model.text_model(**tokens.to(request.device)).pooler_output
            return cast(Tensor, model.text_projection(pooled))

        encoded = _encode(texts, encode)
    return model, ImageEncoder(model), encoded, steps


def _encode(texts: list[str], encode: Callable[[list[str]], Tensor]) -> Tensor:
    """Return the features of all texts, normalized to length 1, in float32."""
    with torch.no_grad():
        parts = [
            normalize(encode(texts[start : start + TEXTS_PER_BATCH]).float(), dim=1)
            for start in range(0, len(texts), TEXTS_PER_BATCH)
        ]
        return torch.cat(parts)
