"""Load a `Model` from its specification: a name, `module:attribute`, a file or an object."""

import difflib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import nn

from eyechart.core.arguments import as_flag, as_list, as_path, as_text, as_texts
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.registry import Registry, unknown_name
from eyechart.models.adapter import ADAPTERS, Request
from eyechart.models.adapters.python_object import from_object, is_importable
from eyechart.models.adapters.torch_files import TORCH_SUFFIXES, load_file
from eyechart.models.card import CARD_SUFFIXES, Card, read_card
from eyechart.models.efficientnet_lite import SIZES, load_efficientnet_lite
from eyechart.models.label_map import LabelMap, find_map
from eyechart.models.model import Forward, Model

NAMED: Registry[Callable[[torch.device, torch.dtype], Model]] = Registry("model")
"""The models that are available by name."""

FILES = {**dict.fromkeys(TORCH_SUFFIXES, "torch"), ".onnx": "onnx", ".tflite": "tflite"}
"""The kind of model for each file suffix."""

for _name in SIZES:
    NAMED.add(_name, partial(load_efficientnet_lite, _name))


def load_model(
    spec: str | nn.Module | Forward,
    device: torch.device | str = "cpu",
    half: bool | None = None,
    *,
    trust: bool = False,
    download: bool = False,
    prompt: str | None = None,
    class_names: Sequence[str] | None = None,
    label_maps: Sequence[str | LabelMap] = (),
) -> Model:
    """Load a model, ready for predictions on a device.

    The model is called with images of any type that `corrupt` accepts, and returns class scores,
    float32 (B, K).

    Args:
        spec: A model name, `PREFIX:NAME` for a model zoo (such as timm:resnet50),
            `module:attribute`, a file, a torch.nn.Module, or a function from a float batch (B, 3,
            H, W) in [0, 1] to scores.
        device: "cpu", "cuda", "cuda:1", "mps" or "auto".
        half: Whether to run in bfloat16. By default, bfloat16 is used on CUDA, except for
            TorchScript, whose constants may not be converted. Exported programs keep the precision
            of their export, and functions always get float32.
        trust: Allow files that can run code when they are read.
        download: Allow weights to be downloaded.
        prompt: Prompt for models that compare images with texts, with {} for the class name.
        class_names: Class names for models that compare images with texts.
        label_maps: Names or files of label maps, which give the meaning of the outputs. The first
            map with as many entries as the model has outputs is used.

    Returns:
        The model.

    Raises:
        UsageError: If the model does not exist or cannot be loaded.

    Example:
        >>> model = load_model(nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10)))
        >>> model(torch.zeros(2, 3, 16, 16)).shape
        torch.Size([2, 10])
        >>> model.name, model.classes
        ('Sequential', 10)
    """
    where = find_device(device, can_be_mps=True)
    half = None if half is None else as_flag(half, "half")
    trust, download = as_flag(trust, "trust"), as_flag(download, "download")
    if prompt is not None:
        as_text(prompt, "prompt")
    names = None if class_names is None else as_texts(class_names, "class_names")
    maps = [
        label_map
        if isinstance(label_map, LabelMap)
        else find_map(os.fspath(as_path(label_map, "Each of label_maps")))
        for label_map in as_list(label_maps, "label_maps")
    ]
    model = _load(spec, Request(where, half, trust, prompt, names, download=download))
    model.offer_maps(maps)
    return model


def _load(spec: str | nn.Module | Forward, request: Request) -> Model:
    # The caller may still use this object, so it is copied.
    if not isinstance(spec, str):
        own_name = getattr(spec, "__name__", None)
        name = own_name if isinstance(own_name, str) else type(spec).__name__
        return from_object(spec, name, request, is_new=False)
    as_path(spec, "A model")
    if spec in NAMED:
        return NAMED[spec](request.device, request.dtype)
    prefix, colon, name = spec.partition(":")
    if colon and prefix in ADAPTERS:
        if not name:
            takes = ADAPTERS[prefix].takes
            raise UsageError(f"'{prefix}:' does not name a model: write {takes} after it.")
        if prefix in FILES.values():
            return _from_file(name, prefix, request)
        return ADAPTERS[prefix].load(name, request)
    ending = Path(spec).suffix.lower()
    if ending in CARD_SUFFIXES:
        return _from_card(spec, request)
    if ending in FILES:
        return _from_file(spec, FILES[ending], request)
    if ending == ".py":
        raise UsageError(
            f"A model from {spec} must be given by its name, such as {Path(spec).stem}:NAME."
        )
    if Path(spec).is_file():
        raise UsageError(
            f"A model's file must end in {', '.join((*FILES, *CARD_SUFFIXES))}, got '{spec}'."
        )
    # Checked only after files, because a path may contain a colon as well.
    if colon:
        _check_prefix(prefix, name)
        return ADAPTERS["python"].load(spec, request)
    raise UsageError(
        f"{unknown_name('model', spec, NAMED)} Give any other model with a prefix"
        f" ({', '.join(f'{kind}:' for kind in ADAPTERS)}), as module:attribute, as a file or as a"
        f" card ({', '.join((*FILES, *CARD_SUFFIXES))})."
    )


def _from_file(name: str, kind: str, request: Request, card: Card | None = None) -> Model:
    """Return the model in a file, with the settings from its sidecar and its card."""
    path = Path(name)
    sidecar = path.with_suffix(CARD_SUFFIXES[0])
    cards = [card] if card is not None else []
    # The card itself may be the sidecar: then it is applied only once.
    if sidecar.exists() and not any(sidecar.samefile(given.path) for given in cards):
        found = read_card(sidecar)
        if found.model is not None:
            other = sidecar.parent / found.model.rpartition(":")[2]
            if not (path.exists() and other.exists() and path.samefile(other)):
                raise UsageError(
                    f"The card {sidecar} next to {path} names a different model: rename the card or"
                    " the file."
                )
        cards.insert(0, found)
    for model_card in cards:
        request = model_card.request(request)
    model = (
        load_file(name, request, _load) if kind == "torch" else ADAPTERS[kind].load(name, request)
    )
    for model_card in cards:
        model_card.apply(model)
    return model


def _from_card(spec: str, request: Request) -> Model:
    card = read_card(Path(spec))
    if card.model is None:
        raise UsageError(
            f"{spec} does not name a model: add  model: NAME  to it, or give the model's file "
            "instead."
        )
    prefix, colon, name = card.model.partition(":")
    kind = prefix if colon and prefix in ADAPTERS else ""
    ending = Path(card.model).suffix.lower()
    if kind in FILES.values():
        model = _from_file(str(card.path.parent / name), kind, request, card)
    elif not kind and ending in FILES:
        model = _from_file(str(card.path.parent / card.model), FILES[ending], request, card)
    elif not kind and ending in CARD_SUFFIXES:
        raise UsageError(
            f"{spec} names another card, {card.model}, as its model: name the model itself."
        )
    else:
        # A folder with weights, which these kinds of models may be, may be next to the card.
        near = card.path.parent / name
        is_folder = kind in ("hf", "clip", "dinov2") and near.is_dir()
        model = _load(f"{kind}:{near}" if is_folder else card.model, card.request(request))
        card.apply(model, names_outputs=kind != "clip")
    if card.name is None:
        model.name = spec
    return model


def _check_prefix(prefix: str, name: str) -> None:
    """Raise a UsageError for prefixes that are neither a kind of model nor a module."""
    # Looked up without importing it, since importing runs code.
    package = prefix.partition(".")[0]
    # A name that cannot be a module is reported when it is imported.
    if not package.isidentifier() or is_importable(package):
        return
    near = difflib.get_close_matches(prefix.lower(), ADAPTERS, n=1)
    hint = f"did you mean '{near[0]}:{name}'?" if near else f"the kinds are {', '.join(ADAPTERS)}."
    raise UsageError(
        f"There is no module '{prefix}' (a file in the current directory or an installed package)"
        f" and no kind of model '{prefix}': {hint}"
    )


def reject_unused(maps: Sequence[LabelMap], models: Sequence[Model]) -> None:
    """Raise a UsageError for a label map that no model uses, once all models have been called."""
    for label_map in maps:
        if not any(model.label_map is label_map for model in models):
            raise UsageError(
                f"The label map {label_map.source} has {label_map.length:,} lines, but the models"
                f" have {' and '.join(sorted({f'{model.classes:,}' for model in models}))} outputs:"
                " give a map with one line per output, or no map."
            )
