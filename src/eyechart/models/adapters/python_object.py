"""`python:module:attribute`: custom modules and functions."""

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import ModuleType

from torch import nn

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.models.adapter import Request
from eyechart.models.model import Model, as_usage_error, identity_of, in_one_line, prepared

SPEC = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)(\(\))?")
"""What users write: `module:attribute` or `module:factory()`."""


def load(name: str, request: Request) -> Model:
    """Return the model that `module:attribute` or `module:factory()` names."""
    target, is_new = import_object(name)
    return from_object(target, name, request, is_new=is_new)


def from_object(target: object, name: str, request: Request, is_new: bool) -> Model:
    """Return a module or function as a model; `is_new`: whether nothing else uses the object."""
    device, dtype = request.device, request.dtype
    # A class is callable too, but calling it builds a model instead of returning scores.
    if isinstance(target, type) or not callable(target):
        kind = f"the class {target.__name__}" if isinstance(target, type) else type(target).__name__
        raise UsageError(
            f"Model '{name}' must be a torch.nn.Module or a function on batches, got {kind}."
        )
    if not isinstance(target, nn.Module):
        return Model(name, target, device, is_code=True)
    with as_usage_error(
        lambda error: (
            f"Model '{name}' cannot be copied to {device}: {in_one_line(error)};"
            " give a function that calls it instead."
        )
    ):
        # A module that the user keeps using must not be moved or converted.
        module = target if is_new else deepcopy(target)
        # Before the conversion, so that the identity does not depend on the precision.
        identity = identity_of(module)
        ready = prepared(module, device, dtype)
    return Model(name, ready, device, identity=identity, dtype=dtype, is_code=True)


def import_object(spec: str, classes_too: bool = False) -> tuple[object, bool]:
    """Return the object that `module:attribute` or `module:factory()` names.

    The second value is whether the object is new, that is, made by calling a factory. A class is
    rejected unless `classes_too` is set.
    """
    match = SPEC.fullmatch(spec)
    if match is None:
        raise UsageError(
            f"A model must be given as module:attribute or module:factory(), got '{spec}':"
            " file paths and arguments are not supported."
        )
    module_name, attribute, call = match.groups()
    with _current_directory_importable():
        target = _attribute(_module(module_name), attribute)
        if call:
            if not callable(target):
                raise UsageError(f"'{spec}' cannot be called: omit the ().")
            with as_usage_error(lambda error: f"'{spec}' failed: {in_one_line(error)}."):
                return target(), True
    if isinstance(target, type) and not classes_too:
        raise UsageError(f"'{spec}' is a class, not a model: write '{spec}()' to make one.")
    return target, False


def is_importable(name: str) -> bool:
    """Return whether a module or package with this name exists, without importing it."""
    with _current_directory_importable():
        try:
            return name in sys.modules or importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            return False


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        # The module exists, but one of its own imports is missing.
        if name != missing and not name.startswith(f"{missing}."):
            raise UsageError(f"'{name}' needs '{missing}': install it with pip first.") from error
        raise UsageError(
            f"There is no module '{missing}': it must be a file in the current directory"
            " or an installed package."
        ) from None
    # SystemExit is not an Exception: it would end the command without a message.
    except (Exception, SystemExit) as error:
        raise UsageError(f"Importing '{name}' failed: {in_one_line(error)}.") from error


def _attribute(module: ModuleType, path: str) -> object:
    target: object = module
    for name in path.split("."):
        if not hasattr(target, name):
            owner = getattr(target, "__name__", type(target).__name__)
            known = [
                key for key, value in vars(module).items() if callable(value) and key[0] != "_"
            ]
            if target is module and known:
                raise unknown_name(f"attribute of '{owner}'", name, known)
            raise UsageError(f"There is no '{name}' in '{owner}'.")
        target = getattr(target, name)
    return target


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    # Like `python -m`, but only for the duration of the import.
    folder = os.getcwd()
    sys.path.insert(0, folder)
    # Finds modules that were written after Python last listed the folder.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        # The module may have changed sys.path itself: remove only our entry.
        if folder in sys.path:
            sys.path.remove(folder)
