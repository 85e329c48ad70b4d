"""Trained networks: checkpoints, and the last layer, which training finds and replaces.

A checkpoint is a network with everything needed to use it, and how it was trained. The file is a
torch file with plain values and tensors only, so that reading it runs no code.
"""

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.storage.files import write_torch
from eyechart.core.storage.run_folder import Settings
from eyechart.images.labels.imagenet import wordnet_ids
from eyechart.models.adapter import ADAPTERS, Request
from eyechart.models.card import CARD_SUFFIXES
from eyechart.models.label_map import reject_probabilities
from eyechart.models.model import (
    Channels,
    Model,
    Preprocessing,
    as_usage_error,
    identity_of,
    in_one_line,
)
from eyechart.models.networks import build_network
from eyechart.models.registries import ZOOS

MARK, VERSION = "eyechart_checkpoint", 1

LoadBase = Callable[[str, Request], Model]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained network.

    `network`: its architecture if it was trained from scratch, otherwise "". `base`: the model
    before training, as a string that `load_model` accepts, or "" if it was trained from scratch.
    `class_names`: the classes of its outputs, () if they are the same as the base model's. `mean`,
    `std`, `side`: its preprocessing. `trained_on`: the corruptions that it was trained on.
    `recipe`: how it was trained. `made`: versions of the packages that it was trained with.
    """

    network: str
    base: str
    class_names: tuple[str, ...]
    trained_on: tuple[str, ...]
    weights: Mapping[str, Tensor]
    side: int | None = None
    mean: Channels = (0.0, 0.0, 0.0)
    std: Channels = (1.0, 1.0, 1.0)
    recipe: Mapping[str, Settings] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing of a network trained from scratch; a base model has its own."""
        return Preprocessing(self.side, self.mean, self.std)


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write the file atomically, with all weights on the CPU."""
    # Cloned, since a view would store the whole tensor that it belongs to.
    weights = {name: value.detach().cpu().clone() for name, value in checkpoint.weights.items()}
    held = {column.name: getattr(checkpoint, column.name) for column in fields(checkpoint)}
    write_torch({MARK: VERSION, **held, "weights": weights}, path)


def load(path: Path, mapped: bool = False) -> dict[str, Any]:
    """Return the contents of a file that `write_torch` wrote.

    `mapped`: whether tensors are memory-mapped, and not read until they are used.

    Raises:
        UsageError: If the file is missing or cannot be read.
    """
    try:
        # torch warns about bare pickles; the error below covers that.
        with warnings.catch_warnings(action="ignore"):
            held = torch.load(
                regular_file(path), map_location="cpu", weights_only=True, mmap=mapped
            )
    except FileNotFoundError:
        raise UsageError(f"No such file: {path}.") from None
    except Exception:
        # On arbitrary bytes an unpickler may raise any exception.
        raise UsageError(
            f"{path} is damaged or not a checkpoint: delete it to train again, or give another one."
        ) from None
    return held if isinstance(held, dict) else {}


def read_checkpoint(path: Path, mapped: bool = False) -> Checkpoint:
    """Return the checkpoint in a file; with `mapped`, weights are not read until they are used."""
    held = load(path, mapped)
    if not is_checkpoint(held):
        raise UsageError(f"{path} is not an eyechart checkpoint: give one that eyechart wrote.")
    return checkpoint_of(held, path)


def is_checkpoint(held: object) -> bool:
    """Return whether the contents of a file are a checkpoint."""
    return isinstance(held, dict) and MARK in held


def checkpoint_of(held: Mapping[str, Any], path: Path) -> Checkpoint:
    """Return the checkpoint that a file's contents represent."""
    names = [field_.name for field_ in fields(Checkpoint)]
    if held[MARK] != VERSION or any(name not in held for name in names):
        raise UsageError(
            f"{path} was written by a different eyechart version: train again, or use that version."
        )
    values = {name: held[name] for name in names}
    for name in ("class_names", "trained_on", "mean", "std"):
        values[name] = tuple(values[name])
    return Checkpoint(**values)


def model_of(checkpoint: Checkpoint, name: str, request: Request, load_base: LoadBase) -> Model:
    """Return the model of a checkpoint, ready for predictions.

    `load_base` loads the base model. If the file names custom code instead of a model from a zoo,
    this code is only run if the file is trusted.
    """
    made_by = checkpoint.network or checkpoint.base
    kinds = ZOOS if checkpoint.network else [kind for kind in ADAPTERS if kind != "python"]
    # Importing a module that a file names would run code chosen by the file's author.
    if _is_users(made_by, kinds) and not request.trust:
        raise UsageError(
            f"{name} was trained with {made_by}, which runs code when it is loaded: give --trust if"
            " you trust its author."
        )
    n_classes = len(checkpoint.class_names)
    if checkpoint.network:
        # The initial weights are replaced immediately: do not change the caller's random state.
        with torch.random.fork_rng(devices=[]):
            module = build_network(checkpoint.network, n_classes)
        # ImageNet's classes need no names: their 16 categories are known.
        is_imagenet = checkpoint.class_names == wordnet_ids()
        model = Model(
            name,
            module,
            request.device,
            classes=n_classes,
            preprocessing=checkpoint.preprocessing,
            class_names=None if is_imagenet else checkpoint.class_names,
        )
    else:
        # Full precision until the weights are loaded.
        model = load_base(checkpoint.base, replace(request, half=False))
        if model.module is None:
            raise UsageError(f"{checkpoint.base}, on which {name} is based, is not a torch module.")
        module = model.module
        if checkpoint.class_names:
            # The classes differ from those of the base, so the meaning of the base's outputs does
            # not apply.
            fit_last_layer(module, checkpoint.weights, n_classes)
            model.class_names, model.classes = checkpoint.class_names, n_classes
            model.label_map, model.published_accuracy = None, None
    try:
        module.load_state_dict(dict(checkpoint.weights))
    except RuntimeError as error:
        message = " ".join(str(error).split())[:120]
        raise UsageError(f"The weights in {name} do not match {made_by} ({message}…).") from None
    model.name, model.trained_on = name, checkpoint.trained_on
    # Before the conversion, so that the identity does not depend on the precision.
    model.identity = identity_of(module)
    if checkpoint.network:
        model.mark(asdict(checkpoint.preprocessing))
    model.use_precision(request.dtype)
    return model


def _is_users(spec: str, kinds: Collection[str]) -> bool:
    """Return whether a model is built by custom code, such as `module:attribute`.

    A prefix before a colon names a module unless it is one of `kinds`. A card may also name a
    module.
    """
    kind, colon, _ = spec.partition(":")
    return (bool(colon) and kind not in kinds) or Path(spec).suffix.lower() in CARD_SUFFIXES


def find_last_layer(module: nn.Module, ready: Tensor) -> str:
    """Return the name of the layer that computes a network's class scores.

    This is the last linear layer or convolution called during a forward pass that has as many
    outputs as there are scores, regardless of the order in which the network lists its modules.
    `ready`: at least two preprocessed images.
    """
    called: list[nn.Module] = []
    names: dict[nn.Module, str] = {
        part: name for name, part in module.named_modules() if _outputs(part)
    }
    hooks = [
        part.register_forward_hook(lambda layer, _inputs, _output: called.append(layer))
        for part in names
    ]
    # Hooks and modes are restored below, even if the call fails.
    modes = {part: part.training for part in module.modules()}
    failed = f"The network failed on a batch {tuple(ready.shape)}"
    try:
        with torch.no_grad(), as_usage_error(lambda error: f"{failed}: {in_one_line(error)}."):
            scores: object = module.eval()(ready)
    finally:
        for hook in hooks:
            hook.remove()
        # Module by module: a network may keep some modules in eval mode while it trains.
        for part, mode in modes.items():
            part.training = mode
    if not isinstance(scores, Tensor) or scores.ndim != 2:
        raise UsageError(
            "The network must return class scores (B, K), got"
            f" {tuple(getattr(scores, 'shape', ())) or type(scores).__name__}."
        )
    # With a final softmax, the layer found would not compute the logits that training needs.
    reject_probabilities(scores)
    # The network itself has the name "" and no parent in which it could be replaced.
    candidates = [part for part in called if _outputs(part) == scores.shape[1] and names[part]]
    if not candidates:
        raise UsageError(
            f"No linear layer or convolution computes the {scores.shape[1]:,} class scores of the"
            " network, so there is no last layer to tune or replace: give a network that has one."
        )
    return names[candidates[-1]]


def _outputs(part: nn.Module) -> int:
    """Return the number of outputs of a layer; 0 if it cannot be a last layer."""
    if isinstance(part, nn.Linear):
        return part.out_features
    # No output of a grouped convolution uses all features, so it is not a classifier.
    if isinstance(part, nn.Conv2d) and part.groups == 1:
        return part.out_channels
    return 0


def replace_layer(module: nn.Module, name: str, outputs: int, seed: int = 0) -> None:
    """Replace a last layer with an untrained one that has this number of outputs.

    The seed determines its initial weights.
    """
    old = module.get_submodule(name)
    new: nn.Module
    # The layer is built on the CPU, so the random states of GPUs need not be saved.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64("last layer", seed) >> 1)
        if isinstance(old, nn.Linear):
            new = nn.Linear(old.in_features, outputs, bias=old.bias is not None)
        else:
            assert isinstance(old, nn.Conv2d), "only layers that find_last_layer names"
            # All attributes of a convolution other than its numbers of channels.
            names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
            shape = {name: getattr(old, name) for name in names}
            new = nn.Conv2d(old.in_channels, outputs, bias=old.bias is not None, **shape)
    weight = next(old.parameters())
    new = new.to(weight.device, weight.dtype).train(old.training)
    # Several modules of a network may share the same layer.
    for part in module.modules():
        for child_name, child in list(part.named_children()):
            if child is old:
                setattr(part, child_name, new)


def fit_last_layer(module: nn.Module, weights: Mapping[str, Tensor], outputs: int) -> None:
    """Replace the last layer if it is the only one whose shape differs from the given weights.

    Otherwise the module is not changed.
    """
    known = module.state_dict()
    misshapen = [
        name for name in weights if name in known and known[name].shape != weights[name].shape
    ]
    # Weight and bias of one layer count once.
    layers = {name.rpartition(".")[0] for name in misshapen}
    if len(layers) == 1:
        (name,) = layers
        if name and _outputs(module.get_submodule(name)):
            replace_layer(module, name, outputs)
