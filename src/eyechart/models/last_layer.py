"""Find and replace the last layer of a network, which computes the class scores."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.randomness import hash64
from eyechart.models.label_map import reject_probabilities
from eyechart.models.model import in_one_line

SHAPE = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
"""The attributes of a convolution other than its numbers of channels."""


def find_last_layer(module: nn.Module, ready: Tensor) -> str:
    """Return the name of the layer that computes a network's class scores.

    This is the last linear layer or convolution called during a forward pass that has as many
    outputs as there are scores, regardless of the order in which the network lists its modules.
    `ready`: at least two preprocessed images.
    """
    called: list[nn.Module] = []

    def note(layer: nn.Module, inputs: object, output: object) -> None:
        called.append(layer)

    names: dict[nn.Module, str] = {
        part: name for name, part in module.named_modules() if _outputs(part)
    }
    hooks = [part.register_forward_hook(note) for part in names]
    # Hooks and modes are restored below, even if the call fails.
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
            shape = {name: getattr(old, name) for name in SHAPE}
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
