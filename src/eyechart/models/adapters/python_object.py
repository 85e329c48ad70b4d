"""`python:module:attribute`: custom modules and functions."""

from eyechart.models.imports import import_object
from eyechart.models.model import Model
from eyechart.models.objects import from_object
from eyechart.models.request import Request


def load(name: str, request: Request) -> Model:
    """Return the model that `module:attribute` or `module:factory()` names."""
    target, is_new = import_object(name)
    return from_object(target, name, request, is_new=is_new)
