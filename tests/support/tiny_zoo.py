"""Tiny models with random weights, written as each zoo keeps its own, and the zoos themselves."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from PIL import Image
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.models.adapter import Request, need

CPU = Request(torch.device("cpu"))
COLORS = ("scarlet", "olive", "navy", "teal", "plum")


def zoo_of(package: str, prefix: str, *parts: str) -> ModuleType:
    """Return a zoo's package, or skip the test where it cannot be imported."""
    try:
        return need(package, prefix, *parts)
    except UsageError as error:
        pytest.skip(str(error))


@contextmanager
def quiet() -> Iterator[None]:
    """Zoos warn of their own future; a test of ours is not about that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random_images(side: int, count: int = 3, seed: int = 0) -> Tensor:
    """Return 8-bit pictures with structure at several sizes."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(count, 3, side, side, generator=generator)
    rough = torch.rand(count, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(rough, (side, side), mode="bilinear")
    return (255 * (0.7 * smooth + 0.3 * noise)).round().byte()


def as_images(batch: Tensor) -> list[Image.Image]:
    return [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in batch]


def save_vit(folder: Path, labels: tuple[str, ...] = COLORS, seed: int = 0) -> Path:
    """Save a vision transformer of transformers' for 32 px pictures, with its processor."""
    package = zoo_of("transformers", "hf", "ViTForImageClassification", "ViTImageProcessor")
    with quiet():
        torch.manual_seed(seed)
        config = package.ViTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=32,
            patch_size=8,
            id2label=dict(enumerate(labels)),
            label2id={label: place for place, label in enumerate(labels)},
        )
        package.ViTForImageClassification(config).save_pretrained(folder)
        processor = package.ViTImageProcessor(
            size={"height": 32, "width": 32},
            image_mean=[0.4, 0.5, 0.6],
            image_std=[0.2, 0.25, 0.3],
            resample=2,
        )
        processor.save_pretrained(folder)
    return folder


def save_dinov2(folder: Path) -> Path:
    """Save a DINOv2 with a head for 1,000 classes, of transformers'."""
    package = zoo_of("transformers", "dinov2", "Dinov2ForImageClassification", "BitImageProcessor")
    with quiet():
        torch.manual_seed(1)
        config = package.Dinov2Config(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
            num_labels=1000,
        )
        package.Dinov2ForImageClassification(config).save_pretrained(folder)
        size = {"height": 28, "width": 28}
        processor = package.BitImageProcessor(size={"shortest_edge": 32}, crop_size=size)
        processor.save_pretrained(folder)
    return folder


def save_clip(folder: Path, seed: int = 0) -> Path:
    """Save a CLIP of transformers' with a tokenizer that spells every word."""
    package = zoo_of("transformers", "clip", "CLIPModel", "CLIPTokenizer", "CLIPImageProcessor")
    folder.mkdir(exist_ok=True)
    with quiet():
        letters = [chr(code) for code in range(33, 127)]
        words = [*letters, *(f"{letter}</w>" for letter in letters)]
        words += ["<|startoftext|>", "<|endoftext|>"]
        (folder / "vocab.json").write_text(json.dumps({w: n for n, w in enumerate(words)}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        special = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 40}
        (folder / "tokenizer_config.json").write_text(json.dumps(special))
        torch.manual_seed(seed)
        text = {
            "vocab_size": len(words),
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 40,
            "bos_token_id": len(words) - 2,
            "eos_token_id": len(words) - 1,
            "pad_token_id": len(words) - 1,
        }
        vision = {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
        }
        config = package.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
        package.CLIPModel(config).save_pretrained(folder)
        size = {"height": 32, "width": 32}
        package.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(
            folder
        )
    return folder


def save_open_clip(folder: Path) -> Path:
    """Save a CLIP as open_clip keeps it in a folder."""
    package = zoo_of("open_clip", "clip")
    safetensors = import_module("safetensors.torch")
    tower = {"layers": 2, "width": 32}
    model_cfg = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "patch_size": 8, "head_width": 16, **tower},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "heads": 2, **tower},
    }
    preprocess_cfg = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3], "interpolation": "bilinear"}
    folder.mkdir()
    whole = {"model_cfg": model_cfg, "preprocess_cfg": preprocess_cfg}
    (folder / "open_clip_config.json").write_text(json.dumps(whole))
    with quiet():
        torch.manual_seed(2)
        network = package.CLIP(**model_cfg)
        weights = {key: value.contiguous() for key, value in network.state_dict().items()}
        safetensors.save_file(weights, folder / "open_clip_model.safetensors")
    return folder
