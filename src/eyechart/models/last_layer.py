"""The layer of a network that makes the class scores: which it is, and another in its place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.models.model import in_one_line, is_out_of_memory
from eyechart.models.probabilities import refuse_probabilities

SHAPE = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
"""What a convolution has besides its inputs and outputs."""


def find_last_layer(module: nn.Module, ready: Tensor) -> str:
    """Return the name of the layer that makes the class scores of a network.

    It is the linear layer or convolution that is called last of those with as many outputs as there
    are scores, whatever the order in which the network lists its parts. `ready`: two pictures or
    more as the network takes them.
    """
    called: list[nn.Module] = []

    def note(layer: nn.Module, inputs: object, output: object) -> None:
        called.append(layer)

    names: dict[nn.Module, str] = {
        part: name for name, part in module.named_modules() if _outputs(part)
    }
    hooks = [part.register_forward_hook(note) for part in names]
    modes = {part: part.training for part in module.modules()}
    try:
        with torch.no_grad():
            scores: object = module.eval()(ready)
    except Exception as error:
        if isinstance(error, UsageError) or is_out_of_memory(error):
            raise
        raise UsageError(
            f"The network failed on a batch {tuple(ready.shape)}: {in_one_line(error)}."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
        for part, mode in modes.items():
            part.training = mode
    if not isinstance(scores, Tensor) or scores.ndim != 2:
        raise UsageError(
            "The network must return class scores (B, K), got"
            f" {tuple(getattr(scores, 'shape', ())) or type(scores).__name__}."
        )
    refuse_probabilities(scores)
    candidates = [part for part in called if _outputs(part) == scores.shape[1] and names[part]]
    if not candidates:
        raise UsageError(
            f"No linear layer or convolution makes the {scores.shape[1]:,} class scores of the"
            " network, so it has no last layer that could be tuned or replaced: give one that has."
        )
    return names[candidates[-1]]


def _outputs(part: nn.Module) -> int:
    """Return how many outputs a layer has; 0 for what cannot be a last layer."""
    if isinstance(part, nn.Linear):
        return part.out_features
    if isinstance(part, nn.Conv2d) and part.groups == 1:
        return part.out_channels
    return 0


def replace_layer(module: nn.Module, name: str, outputs: int, seed: int = 0) -> None:
    """Put an untrained layer with so many outputs in the place of a last one.

    Its weights follow from the seed.
    """
    old = module.get_submodule(name)
    new: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash64("last layer", seed) >> 1)
        if isinstance(old, nn.Linear):
            new = nn.Linear(old.in_features, outputs, bias=old.bias is not None)
        else:
            assert isinstance(old, nn.Conv2d), "only layers that find_last_layer names"
            shape = {name: getattr(old, name) for name in SHAPE}
            new = nn.Conv2d(old.in_channels, outputs, bias=old.bias is not None, **shape)
    weight = next(old.parameters())
    new = new.to(weight.device, weight.dtype).train(old.training)
    # a network may hold the same layer in several of its parts
    for part in module.modules():
        for child_name, child in list(part.named_children()):
            if child is old:
                setattr(part, child_name, new)


def fit_last_layer(module: nn.Module, weights: Mapping[str, Tensor], outputs: int) -> None:
    """Give the module a last layer of so many outputs if that is all in which weights differ.

    Otherwise it stays as it is.
    """
    known = module.state_dict()
    misshapen = [
        name for name in weights if name in known and known[name].shape != weights[name].shape
    ]
    layers = {name.rpartition(".")[0] for name in misshapen}
    if len(layers) == 1:
        (name,) = layers
        if name and _outputs(module.get_submodule(name)):
            replace_layer(module, name, outputs)
