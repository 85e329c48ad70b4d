"""Options of commands that are derived from records of settings, see `eyechart.core.options`.

A command takes the record as one argument; the command line shows the record's fields.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, get_args, get_origin

import typer
from typer.models import ParameterInfo

from eyechart.cli.shared.paths import folder, folder_or_file
from eyechart.core.options import GROUPS, Field, fields_of, has_options

PATHS = {"folder": folder, "folder or file": folder_or_file}


class Only:
    """The fields of a record that a command has options for, with a default of its own for some.

    As in `Annotated[Recipe, Only("batch", epochs=5)]`.
    """

    def __init__(self, *names: str, **defaults: object) -> None:
        self.names, self.defaults = (*names, *defaults), defaults

    def fields(self, record: type) -> list[Field]:
        """Return these fields of a record, in the record's order."""
        known = fields_of(record)
        return [
            replace(known[name], default=self.defaults.get(name, known[name].default))
            for name in sorted(self.names, key=list(known).index)
        ]


def derived_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer: arguments that are records become an option for each field."""
    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    records: dict[str, dict[str, Field]] = {}
    kinds: dict[str, type] = {}
    for parameter in signature.parameters.values():
        record, chosen = _record_of(parameter.annotation)
        if record is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        chosen.sort(key=_place_in_help)
        parameters += [_parameter(field) for field in chosen]
        records[parameter.name] = {field.name: field for field in chosen}
        kinds[parameter.name] = record

    def call(**typed: object) -> None:
        read = {
            name: kinds[name](**read_typed(chosen, {field: typed.pop(field) for field in chosen}))
            for name, chosen in records.items()
        }
        command(**typed, **read)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, __name__
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _place_in_help(field: Field) -> tuple[bool, int, bool]:
    """Return what options are sorted by; arguments are typed in the order of their record.

    In each group, what a record declares itself comes before what it shares with others.
    """
    if field.option.is_argument:
        return False, 0, False
    return True, GROUPS.index(field.option.group), field.is_shared


def read_typed(chosen: Mapping[str, Field], typed: Mapping[str, object]) -> dict[str, object]:
    """Return the values of those fields that were typed; the others keep their defaults."""
    values = {}
    for name, value in typed.items():
        if value is None or value == []:
            continue
        read = chosen[name].option.read
        if isinstance(value, list):
            value = tuple(value)
        values[name] = read(value) if read is not None and isinstance(value, str) else value
    return values


def _record_of(annotation: object) -> tuple[type | None, list[Field]]:
    """Return the record that an annotation stands for, if it does, and the fields to show."""
    extras: list[object] = []
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
    if isinstance(annotation, type) and has_options(annotation):
        only = next((extra for extra in extras if isinstance(extra, Only)), None)
        return annotation, list(fields_of(annotation).values()) if only is None else only.fields(
            annotation
        )
    return None, []


def _parameter(field: Field) -> inspect.Parameter:
    """Return the parameter from which Typer makes an option."""
    option = field.option
    default = field.default if option.typed_default is None else option.typed_default
    kind = field.type if option.typed is None else option.typed
    is_list = get_origin(kind) is list
    if option.path and not is_list:
        kind = Path if default is not None else Path | None
    if is_list and default is not inspect.Parameter.empty:
        # an empty list would be shown as a default
        kind, default = kind | None, None  # type: ignore[operator]
    make: Callable[..., ParameterInfo] = (
        typer.Argument if option.is_argument else partial(typer.Option, *_flags(field))
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


def _flags(field: Field) -> tuple[str, ...]:
    if field.option.flags:
        return field.option.flags
    # without a name Typer would add --no-name to what is off until it is asked for
    return (f"--{field.name.replace('_', '-')}",)
