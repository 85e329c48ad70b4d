"""Identity of Python objects as models: the networks and tensors that a call can reach.

A function may keep its network in a closure, a default argument, a global variable or the object
that it is bound to; a module may keep one where `state_dict` does not list it.
"""

import functools
import hashlib
import types
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from eyechart.models.model import identity_of

MAX_OBJECTS = 20_000
"""Maximum number of objects that are inspected, since one may refer to a whole dataset."""

_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Attributes that every module has: registered state, which `identity_of` covers, and hooks."""

_SKIPPED_PACKAGES = ("torch", "numpy", "builtins")
"""Packages whose functions and objects have no state that a user could have changed."""


def function_identity(function: object) -> str:
    """Return the SHA-256 of all networks, arrays and tensors that a function or callable reaches.

    The result is "" if there are none: the function then depends only on its code and on plain
    values. Plain values are not part of the identity, because counters and caches would change it.

    Example:
        >>> network = nn.Linear(2, 2)
        >>> one, two = (function_identity(lambda images: network(images)) for _ in range(2))
        >>> one == two != "" == function_identity(lambda images: images)
        True
    """
    return _digest(_states(function, "", set()))


def module_identity(module: nn.Module) -> str:
    """Return the identity of a module, including networks and tensors that it does not register.

    For a module that registers everything, the result is the same as from `identity_of`.
    """
    registered = identity_of(module)
    more = _digest(_unregistered(module, "", {id(part) for part in module.modules()}))
    return hashlib.sha256(f"{registered} {more}".encode()).hexdigest() if more else registered


def _digest(states: Iterator[tuple[str, str]]) -> str:
    digest, is_empty = hashlib.sha256(), True
    for path, state in states:
        digest.update(f"{path}={state};".encode())
        is_empty = False
    return "" if is_empty else digest.hexdigest()


def _states(value: object, path: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Yield the path and digest of each network, array and tensor that a value refers to."""
    # Each object counts once, where it is first reached, which also ends cycles.
    if id(value) in seen or len(seen) >= MAX_OBJECTS:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        # Tensors that were computed during a prediction are caches, not weights.
        if value.grad_fn is None and not value.is_inference():
            yield path, _tensor_digest(value)
    elif isinstance(value, np.ndarray):
        if not value.dtype.hasobject:
            content = np.ascontiguousarray(value)
            head = f"{content.dtype}:{content.shape};".encode()
            yield path, hashlib.sha256(head + content.tobytes()).hexdigest()
    elif isinstance(value, nn.Module):
        # Parts of a network that is already included are not included again.
        seen.update(id(part) for part in value.modules())
        state = identity_of(value)
        if state:
            yield path, state
        yield from _unregistered(value, path, seen)
    else:
        for name, inner in _parts(value):
            yield from _states(inner, f"{path}.{name}", seen)


def _unregistered(module: nn.Module, path: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Yield the states that submodules hold outside their parameters and buffers."""
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if key not in _MODULE_ATTRIBUTES:
                yield from _states(value, f"{path}.{name}.{key}", seen)
        forward = type(part).forward
        if isinstance(forward, types.FunctionType):
            yield from _states(forward, f"{path}.{name}.forward()", seen)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield the name and value of everything that a function, container or object refers to."""
    if isinstance(value, functools.partial):
        yield "func", value.func
        yield "args", value.args
        yield "keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
        yield "function", value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))
    # Not every mapping, since one that reads files would read all of them.
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())
    elif not isinstance(value, type | types.ModuleType) and not _is_of(value, _SKIPPED_PACKAGES):
        yield from vars(value).items() if hasattr(value, "__dict__") else ()
        call = getattr(type(value), "__call__", None)  # noqa: B004 (its function is needed)
        if isinstance(call, types.FunctionType):
            yield "call()", call


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    if _is_of(function, _SKIPPED_PACKAGES):
        # Such as the wrapper of torch.no_grad, whose closure has the user's function.
        names: Iterator[str] = iter(())
    else:
        names = _global_names(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # Not assigned yet.
            continue
    yield "defaults", function.__defaults__
    yield "keyword defaults", function.__kwdefaults__
    for name in names:
        value = function.__globals__.get(name)
        # Classes and imported packages have no weights.
        if not isinstance(value, type | types.ModuleType):
            yield name, value


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a function uses, including those used by functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_of(value: object, packages: tuple[str, ...]) -> bool:
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0] in packages


def _tensor_digest(tensor: Tensor) -> str:
    # As bytes, since NumPy has no bfloat16.
    flat = tensor.detach().cpu().contiguous().flatten()
    digest = hashlib.sha256(f"{tensor.dtype}:{tuple(tensor.shape)};".encode())
    digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
