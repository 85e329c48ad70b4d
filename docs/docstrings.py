"""Brings docstrings and signatures to the form that the reference of the Python API expects."""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Reads `Example:` as code, and takes signatures that decorators make from the running code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section `Example:`, which griffe would render as prose."""
        if obj.docstring:
            obj.docstring.value = with_examples(obj.docstring.value)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Show the keywords of functions whose decorator takes them from a settings record."""
        if not any("takes_fields_of" in str(each.value) for each in func.decorators):
            return
        # the source has one parameter, the record; signature and docstring exist at run time only
        running = getattr(import_module(func.module.path), func.name)
        signature = inspect.signature(running)
        func.parameters = griffe.Parameters(
            *(_parameter(each) for each in signature.parameters.values())
        )
        func.docstring = griffe.Docstring(
            with_examples(inspect.getdoc(running) or ""), parent=func, parser="google"
        )


def with_examples(text: str) -> str:
    """Return a docstring whose section of examples has the name that griffe knows."""
    return re.sub(r"^(\s*)Example:$", r"\1Examples:", text, flags=re.MULTILINE)


def _parameter(parameter: inspect.Parameter) -> griffe.Parameter:
    empty = parameter.default is inspect.Parameter.empty
    return griffe.Parameter(
        parameter.name,
        annotation=_annotation(parameter.annotation),
        kind=griffe.ParameterKind(parameter.kind.description),
        default=None if empty else repr(parameter.default),
    )


def _annotation(annotation: Any) -> str | None:
    if annotation is inspect.Parameter.empty:
        return None
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
