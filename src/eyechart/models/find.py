"""From what the user gives (a name, `module:attribute`, a file, an object) to a `Model`."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from torch import nn

from eyechart.core.errors import UsageError
from eyechart.core.registry import Registry, unknown_name
from eyechart.models.efficientnet_lite import SIZES, load_efficientnet_lite
from eyechart.models.files import SUFFIXES, load_file
from eyechart.models.imports import import_object
from eyechart.models.model import Answer, Model, identity_of, in_one_line, prepared

NAMED: Registry[Callable[[torch.device, torch.dtype], Model]] = Registry("model")
"""The models that come by name."""

for _name in SIZES:
    NAMED.add(_name, partial(load_efficientnet_lite, _name))


def load_model(
    spec: str | nn.Module | Answer, device: torch.device, half: bool | None = None
) -> Model:
    """Return the model that `spec` stands for, ready on the device.

    `half` runs it in bfloat16; None: on CUDA, except TorchScript, whose constants may not follow.
    Exported programs keep the precision of their export, and functions always get float32.
    """
    wanted = device.type == "cuda" if half is None else half
    dtype = torch.bfloat16 if wanted else torch.float32
    if not isinstance(spec, str):
        return _from_object(spec, _name_of(spec), device, dtype, own=False)
    if spec in NAMED:
        return NAMED[spec](device, dtype)
    if Path(spec).suffix.lower() in SUFFIXES:
        return load_file(spec, device, half=bool(half))
    if Path(spec).is_file():
        raise UsageError(f"A model's file must end in {', '.join(SUFFIXES)}, got '{spec}'.")
    if ":" in spec:
        found, made = import_object(spec)
        return _from_object(found, spec, device, dtype, own=made)
    raise UsageError(
        f"{unknown_name('model', spec, NAMED)} A model of your own is given as module:attribute or"
        " as a file (.pt, .pt2)."
    )


def _from_object(
    found: object, name: str, device: torch.device, dtype: torch.dtype, own: bool
) -> Model:
    if isinstance(found, nn.Module):
        try:
            # A module that the user goes on using must stay as it is, and where it is.
            module = found if own else deepcopy(found)
            identity = identity_of(module)
            return Model(
                name, prepared(module, device, dtype), device, identity=identity, dtype=dtype
            )
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:
            raise UsageError(
                f"Model '{name}' cannot be copied to {device}: {in_one_line(error)};"
                " give a function that calls it instead."
            ) from error
    if isinstance(found, type) or not callable(found):
        kind = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
        raise UsageError(
            f"Model '{name}' must be a torch.nn.Module or a function on batches, got {kind}."
        )
    return Model(name, found, device)


def _name_of(spec: object) -> str:
    name = getattr(spec, "__name__", None)
    return name if isinstance(name, str) else type(spec).__name__
