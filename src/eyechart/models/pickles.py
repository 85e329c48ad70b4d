"""How freely torch may unpickle: files that run code when read are for those who trust them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

FORCE, FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""The variables by which torch lets its own and others' calls of `torch.load` be overruled."""


@contextmanager
def weights_only() -> Iterator[None]:
    """Make every `torch.load` read tensors alone, whatever it is asked for."""
    with _forced(FORCE):
        yield


@contextmanager
def anything() -> Iterator[None]:
    """Let every `torch.load` read whatever it is given, code included."""
    with _forced(FORBID):
        yield


@contextmanager
def _forced(name: str) -> Iterator[None]:
    before = {key: os.environ.pop(key, None) for key in (FORCE, FORBID)}
    os.environ[name] = "1"
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value
