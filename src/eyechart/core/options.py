"""Declaration of options: each is declared once, in a settings record, with type and default.

The command line, the Python signature and the documentation are derived from this declaration.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from textwrap import TextWrapper
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    ForwardRef,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
)

from eyechart.core.arguments import as_text
from eyechart.core.registry import unknown_name
from eyechart.core.storage.shards import Shard, read_shard

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

GROUPS = (
    "Models", "Data", "Study", "Trials", "Budget", "Robots", "Server", "Corruptions", "Training",
    "Human reference", "Curves and statistics", "Compute", "Output",
)  # fmt: skip
"""The groups of options, in the order in which help shows them."""

Settings = ParamSpec("Settings")
Given = TypeVar("Given")
Returned = TypeVar("Returned")


@dataclass(frozen=True, kw_only=True)
class Option:
    """What a settings field declares in addition to its name, type and default.

    Args:
        help: one sentence for the command line and for Python.
        group: one of `GROUPS`.
        python: a sentence for the Python documentation on what else the function accepts.
        flags: the command-line flags, if they are not derived from the name of the field.
        metavar: the placeholder for the value in help, if it is not the type.
        cli_type: the type on the command line, if Python accepts more types; an option is
            repeatable if this is a list or the field is a tuple of any length.
        path: for options that are paths, what a path may point to; it applies to each path of a
            repeatable option.
        minimum: the smallest number that the command line accepts.
        maximum: the largest number that the command line accepts.
        read: converts the text on the command line to the field's value.
        cli_default: the default on the command line, if it is not the field's default.
        is_argument: whether the option is a positional argument on the command line.
        presets: for an option that selects a preset, the values that each preset gives to other
            options unless they are given.
    """

    help: str
    group: str
    python: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    cli_type: object = None
    path: Literal["", "folder", "folder or file"] = ""
    minimum: float | None = None
    maximum: float | None = None
    read: Callable[[str], object] | None = None
    cli_default: object = None
    is_argument: bool = False
    is_advanced: bool = False
    presets: Mapping[str, Mapping[str, object]] | None = None

    def __get_pydantic_json_schema__(
        self, core_schema: "CoreSchema", handler: "GetJsonSchemaHandler"
    ) -> "JsonSchemaValue":
        """Return a field's JSON Schema, with its help as the description."""
        return {**handler(core_schema), "description": self.help}


Device = Annotated[str, Option(help="Device: cpu, cuda or auto.", group="Compute")]
Seed = Annotated[int, Option(help="Random seed.", group="Compute")]
ShardOption = Annotated[
    Shard | None,
    Option(
        help="Do only this part of the work, such as 2/7, so that several processes or machines"
        " share it.",
        group="Compute",
        is_advanced=True,
        metavar="NUMBER/COUNT",
        cli_type=str | None,
        read=read_shard,
    ),
]


@dataclass(frozen=True)
class Field:
    """An option with its name, type and default from the settings record.

    `default` is `inspect.Parameter.empty` if the field is required.
    """

    name: str
    type: object
    default: object
    option: Option
    is_keyword: bool
    is_shared: bool
    """Whether the option is inherited from another record."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags on the command line."""
        # without an explicit flag Typer would add --no-name to boolean options
        return self.option.flags or (f"--{self.name.replace('_', '-')}",)


@cache
def fields_of(record: type) -> Mapping[str, Field]:
    """Return the options that a record declares, in order; fields without an Option are skipped.

    Types that are written as strings because they are slow to import stay strings.
    """
    by_name = {}
    for field in fields(record):
        if get_origin(field.type) is not Annotated:
            continue
        kind, option = get_args(field.type)
        kind = kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind
        # own annotations do not include those of base classes
        is_shared = field.name not in inspect.get_annotations(record)
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        by_name[field.name] = Field(
            field.name, kind, default, option, bool(field.kw_only), is_shared
        )
    return MappingProxyType(by_name)


def preset_values(options: Iterable[Field], given: Mapping[str, object]) -> dict[str, object]:
    """Return the values that a preset among the given options gives to the other options.

    Raises:
        UsageError: If there is no preset of this name.
    """
    fields = {field.name: field for field in options}
    values: dict[str, object] = {}
    for field in fields.values():
        presets, name = field.option.presets, given.get(field.name)
        if presets is not None and name is not None:
            preset = as_text(name, field.name)
            if preset not in presets:
                raise unknown_name(field.name, preset, presets)
            values |= presets[preset]
    return {name: value for name, value in values.items() if name in fields and name not in given}


def has_options(annotation: object) -> bool:
    """Return whether this is a settings record, in which every field is an option."""
    declared = getattr(annotation, "__dataclass_fields__", {}).values()
    return isinstance(annotation, type) and any(
        isinstance(extra, Option) for field in declared for extra in get_args(field.type)
    )


def takes_fields_of(
    record: Callable[Settings, Given],
) -> Callable[[Callable[[Given], Returned]], Callable[Settings, Returned]]:
    """Return a decorator with which a function takes a record's fields instead of the record.

    The help texts of the fields are appended to the function's docstring as Args.
    """

    def decorate(function: Callable[[Given], Returned]) -> Callable[Settings, Returned]:
        def call(*arguments: Settings.args, **keywords: Settings.kwargs) -> Returned:
            # Python's own error would name the record's constructor, which the caller never saw
            for name in keywords:
                if name not in known:
                    raise unknown_name("argument", name, known)
            # fewer positional arguments than names are usual
            given = {**dict(zip(positional, arguments, strict=False)), **keywords}
            keywords.update(preset_values(known.values(), given))
            return function(record(*arguments, **keywords))

        assert isinstance(record, type)
        known = fields_of(record)
        positional = [field.name for field in known.values() if not field.is_keyword]
        for name in ("__name__", "__qualname__", "__module__"):
            setattr(call, name, getattr(function, name))
        call.__doc__ = f"{inspect.getdoc(function)}\n\nArgs:\n{argument_lines(record)}\n"
        returned = inspect.signature(function).return_annotation
        call.__signature__ = signature_of(record, returned)  # type: ignore[attr-defined]
        return call

    return decorate


def signature_of(record: type, returned: object = inspect.Signature.empty) -> inspect.Signature:
    """Return the signature of a function that takes a record's fields as arguments."""
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY
            if field.is_keyword
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=field.default,
            annotation=field.type,
        )
        # positional parameters must come before keyword-only ones
        for field in sorted(fields_of(record).values(), key=lambda field: field.is_keyword)
    ]
    return inspect.Signature(parameters, return_annotation=returned)


def argument_lines(record: type) -> str:
    """Return the Args lines for the docstring of a function that takes a record's fields."""
    # names with hyphens, such as imagenet-c, are not broken across lines
    wrapper = TextWrapper(100, " " * 4, " " * 8, break_on_hyphens=False)
    options = {name: fields_of(record)[name].option for name in signature_of(record).parameters}
    return "\n".join(
        wrapper.fill(f"{name}: {option.help}{' ' if option.python else ''}{option.python}")
        for name, option in options.items()
    )
