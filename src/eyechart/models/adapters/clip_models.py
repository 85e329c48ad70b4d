"""`clip:…`: zero-shot classification of images by texts, with open_clip or transformers.

The 224 px stimulus is resized to the model's input size without cropping, then normalized. Texts
are encoded once.
"""

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import class_names
from eyechart.models.adapter import Request, Untyped, need
from eyechart.models.adapters.hf_models import (
    is_repository,
    options_for,
    steps_of,
    without_bars,
)
from eyechart.models.adapters.zoo import build_model, normalizing, square, unknown_of_many, zoo
from eyechart.models.model import Model
from eyechart.models.preprocessing import Preprocessing

PROMPT = "a picture of {}"
"""The VCR study's prompt."""

OPEN_CLIP = re.compile(r"(RN|ViT|EVA|convnext|coca|xlm|roberta|nllb|MobileCLIP)", re.IGNORECASE)
"""Prefixes of open_clip's model names, used when open_clip is not installed."""

TEXTS_PER_BATCH = 64
"""Number of texts per batch."""


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
        features: Tensor = self.projection(self.tower(pixel_values=images).pooler_output)
        return features


def load(name: str, request: Request) -> Model:
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
    side, method = square(spec, height, width), config.get("interpolation", "bicubic")
    return model, model.visual, encoded, normalizing(side, config["mean"], config["std"], method)


def _named(package: ModuleType, name: str) -> tuple[str, str]:
    """Return open_clip's names of the model and of its weights, by default the first weights."""
    base, _, weights = name.partition("/")
    if base not in package.list_models():
        known = package.list_models()
        raise unknown_of_many("open_clip model", base, known, "open_clip.list_models()")
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
    with zoo(spec, request, repository=is_repository(spec, name)), without_bars(package, request):
        options = options_for(request)
        steps = steps_of(spec, package.AutoImageProcessor.from_pretrained(name, **options))
        tokenizer = package.AutoTokenizer.from_pretrained(name, **options)
        # This option is for the Auto classes only.
        options.pop("trust_remote_code")
        model = package.CLIPModel.from_pretrained(name, **options, weights_only=not request.trust)
        model = model.float().eval().to(request.device)

        def encode(some: Sequence[str]) -> Tensor:
            tokens = tokenizer(list(some), padding=True, truncation=True, return_tensors="pt")
            pooled = model.text_model(**tokens.to(request.device)).pooler_output
            features: Tensor = model.text_projection(pooled)
            return features

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
