"""What a command declares: its options (see `eyechart.core.options`), and its examples.

A command takes a settings record as one argument, and the command line shows the record's fields;
an argument of the command that is annotated with an `Option` is an option by itself.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar, get_args, get_origin

import typer
from typer.models import ParameterInfo

from eyechart.core.options import GROUPS, Field, Option, fields_of, has_options, preset_values


def folder_or_file(text: str) -> Path:
    """Return the path; reject an empty string, which would mean the current folder."""
    # a default value is a Path already
    if not str(text).strip():
        raise typer.BadParameter("give a folder or a file, not an empty string.")
    return Path(text)


def folder(text: str) -> Path:
    """Return the path of a folder; reject an empty string."""
    if not str(text).strip():
        raise typer.BadParameter("give a folder, not an empty string.")
    return Path(text)


Decorated = TypeVar("Decorated", bound=Callable[..., None])

PATHS = {"folder": folder, "folder or file": folder_or_file}
CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
"""The parameter through which a command receives Typer's context."""


def examples(*lines: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator that declares the examples at the end of a command's help."""

    def decorate(command: Decorated) -> Decorated:
        command.examples = lines  # type: ignore[attr-defined]
        return command

    return decorate


class Only:
    """The subset of a record's fields that a command offers as options.

    The values of the record `usual` replace the defaults, including those of fields without an
    option.

    Example: `Annotated[Recipe, Only("batch_size", "epochs", usual=RETRAINING)]`.
    """

    def __init__(self, *names: str, usual: object = None) -> None:
        self.names, self.usual = names, usual

    def fields(self, record: type) -> list[Field]:
        """Return these fields of a record, in the record's order."""
        known = fields_of(record)
        chosen = [known[name] for name in sorted(self.names, key=list(known).index)]
        if self.usual is None:
            return chosen
        return [replace(field, default=getattr(self.usual, field.name)) for field in chosen]


class Typed:
    """Options that a command receives as a mapping that contains only the values typed by the user.

    It is used for settings that can also come from a file: typed values override the file, and the
    file overrides the defaults.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self.fields = list(fields)


@dataclass(frozen=True)
class _Derived:
    """The options for a command's argument, and the function that builds its value from them."""

    make: Callable[..., object]
    fields: list[Field]
    is_typed_alone: bool = False

    def value(self, context: typer.Context, typed: dict[str, object]) -> object:
        """Return the argument's value; its options are removed from the typed values."""
        by_name = {field.name: field for field in self.fields}
        options = {name: typed.pop(name) for name in by_name}
        if self.is_typed_alone:
            options = {name: value for name, value in options.items() if _is_typed(context, name)}
        return self.make(**read_typed(by_name, options))


def derived_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer in which arguments become options as they declare.

    A record becomes one option per field, and an argument with an `Option` becomes this option.
    """
    signature = inspect.signature(command)
    takes_context = CONTEXT.name in signature.parameters
    parameters: list[inspect.Parameter] = [] if takes_context else [CONTEXT]
    derived: dict[str, _Derived] = {}
    for parameter in signature.parameters.values():
        options = _derived_from(parameter)
        if options is None:
            # positional parameters with a default could not be followed by required ones
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            derived[parameter.name] = options
    fields = [field for options in derived.values() for field in options.fields]
    parameters += [_parameter(field) for field in sorted(fields, key=_place_in_help)]

    def call(context: typer.Context, **typed: object) -> None:
        given = {name: value for name, value in typed.items() if _is_typed(context, name)}
        typed |= preset_values(fields, given)
        read = {name: options.value(context, typed) for name, options in derived.items()}
        if takes_context:
            typed[CONTEXT.name] = context
        command(**typed, **read)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, __name__
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.advanced = {field.name for field in fields if field.option.is_advanced}  # type: ignore[attr-defined]
    # Typer reads types from the annotations, not from the signature
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    # compared by name, because some versions of typer have a private copy of click
    return source is not None and source.name != "DEFAULT"


def _place_in_help(field: Field) -> tuple[bool, int, bool]:
    """Return the sort key of an option in help; positional arguments keep their record's order.

    In each group, the record's own options come before inherited ones.
    """
    if field.option.is_argument:
        return False, 0, False
    return True, GROUPS.index(field.option.group), field.is_shared


def read_typed(chosen: Mapping[str, Field], typed: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the fields that were typed; the others keep their defaults."""
    values = {}
    for name, value in typed.items():
        # what Typer passes for options that were not typed
        if value is None or value == []:
            continue
        read = chosen[name].option.read
        if isinstance(value, list):
            value = tuple(value)
        values[name] = read(value) if read is not None and isinstance(value, str) else value
    return values


def _derived_from(parameter: inspect.Parameter) -> _Derived | None:
    """Return the options for an argument of a command, or None if it declares none."""
    annotation = parameter.annotation
    extras: list[object] = []
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
    for extra in extras:
        if isinstance(extra, Option):
            name, default = parameter.name, parameter.default
            field = Field(name, annotation, default, extra, is_keyword=True, is_shared=False)
            return _Derived(partial(_own_value, field), [field])
        if isinstance(extra, Typed):
            return _Derived(dict, extra.fields, is_typed_alone=True)
        if isinstance(extra, Only):
            # fields without an option keep the values of `usual`
            make = annotation if extra.usual is None else partial(replace, extra.usual)  # type: ignore[type-var]
            return _Derived(make, extra.fields(annotation))
    if has_options(annotation):
        return _Derived(annotation, list(fields_of(annotation).values()))
    return None


def _own_value(field: Field, /, **typed: object) -> object:
    """Return the value of an option that an argument of a command declares itself."""
    return typed.get(field.name, field.default)


def _parameter(field: Field) -> inspect.Parameter:
    """Return the parameter from which Typer makes an option."""
    option = field.option
    default = field.default if option.cli_default is None else option.cli_default
    kind, arguments = option.cli_type or field.type, get_args(field.type)
    if option.cli_type is None and get_origin(kind) is tuple and arguments[-1] is Ellipsis:
        # a tuple of any length becomes a repeatable option
        kind = list[arguments[0]]  # type: ignore[valid-type]
    is_list = get_origin(kind) is list
    if option.path and not is_list:
        kind = Path if default is not None else Path | None
    if is_list and default is not inspect.Parameter.empty:
        # an empty list would be shown as a default
        default = list(default) if isinstance(default, tuple) and default else None
        kind = kind if default else kind | None  # type: ignore[operator]
    make: Callable[..., ParameterInfo] = (
        typer.Argument if option.is_argument else partial(typer.Option, *field.flags)
    )
    info = make(
        metavar=option.metavar,
        help=option.help,
        rich_help_panel=None if option.is_argument else option.group,
        parser=PATHS.get(option.path),
        min=option.minimum,
        max=option.maximum,
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )
