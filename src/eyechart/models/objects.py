"""Models from Python objects: torch modules, and functions on batches."""

from copy import deepcopy

from torch import nn

from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.models.model import Model, identity_of, in_one_line, prepared
from eyechart.models.request import Request


def from_object(target: object, name: str, request: Request, is_new: bool) -> Model:
    """Return a module or function as a model; `is_new`: whether nothing else uses the object."""
    if isinstance(target, nn.Module):
        return _from_module(target, name, request, is_new)
    # A class is callable too, but calling it builds a model instead of returning scores.
    if isinstance(target, type) or not callable(target):
        kind = f"the class {target.__name__}" if isinstance(target, type) else type(target).__name__
        raise UsageError(
            f"Model '{name}' must be a torch.nn.Module or a function on batches, got {kind}."
        )
    return Model(name, target, request.device, is_code=True)


def _from_module(target: nn.Module, name: str, request: Request, is_new: bool) -> Model:
    device, dtype = request.device, request.dtype
    try:
        # A module that the user keeps using must not be moved or converted.
        module = target if is_new else deepcopy(target)
        # Before the conversion, so that the identity does not depend on the precision.
        identity = identity_of(module)
        ready = prepared(module, device, dtype)
        return Model(name, ready, device, identity=identity, dtype=dtype, is_code=True)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"Model '{name}' cannot be copied to {device}: {in_one_line(error)};"
            " give a function that calls it instead."
        ) from error


def name_of(spec: object) -> str:
    """Return an object's name, or the name of its class."""
    name = getattr(spec, "__name__", None)
    return name if isinstance(name, str) else type(spec).__name__
