"""Typed records for files and settings, declared once and validated when they are read.

A record's attribute docstrings document its fields and become part of its JSON Schema.
"""

import re
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from itertools import islice
from math import isnan, nan
from numbers import Integral
from numbers import Real as RealNumber
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema

from eyechart.core.arguments import short_repr
from eyechart.core.errors import UsageError

NUMBERS: Mapping[Any, type] = {float: RealNumber, int: Integral}
"""Types that fields of numbers accept, among them those of NumPy."""

Value = TypeVar("Value")
Default = TypeVar("Default")

NUMBER_OR_NULL = {"anyOf": [{"type": "number"}, {"type": "null"}]}

NaNFloat = Annotated[
    float,
    BeforeValidator(lambda value: nan if value is None else value),
    WithJsonSchema(NUMBER_OR_NULL),
]
"""A number for calculations: NaN if it is undetermined; NaN is written to JSON as null."""

NullableFloat = Annotated[
    float | None,
    BeforeValidator(lambda value: None if isinstance(value, float) and isnan(value) else value),
]
"""A number for display: None if it does not exist; NaN is converted to None."""


class Record(BaseModel):
    """A frozen record, constructed by keyword; unknown fields are rejected.

    NaN and infinity are written as null.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        ser_json_inf_nan="null",
        arbitrary_types_allowed=False,
        json_schema_serialization_defaults_required=True,
    )

    def __eq__(self, other: object) -> bool:
        # private attributes are caches and do not count
        return type(self) is type(other) and self.__dict__ == other.__dict__

    @classmethod
    def from_plain(cls, value: object, name: str = "") -> Self:
        """Return a record from plain values (as read from JSON or YAML).

        Args:
            value: a mapping with the record's fields.
            name: the source of the values, such as a file's path; error messages start with it.

        Raises:
            UsageError: a field is missing, unknown or has the wrong type; the first one is named.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise UsageError(f"{name or cls.__name__}: {first_problem(error)}") from None


class CheckedFields:
    """Base of dataclasses that functions return: the types of their fields are checked.

    Their `repr` and their methods rely on the fields, so that a value of another type raises here.
    Of tuples, lists and mappings the first item is checked, because some have millions.
    """

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not _is_of_type(value, kind):
                text = str(kind) if get_origin(kind) else getattr(kind, "__name__", str(kind))
                kind_name = re.sub(r"[a-z_]\w*\.", "", text)  # without modules
                raise UsageError(
                    f"{name} of {owner} must be {kind_name}, got"
                    f" {short_repr(value)}: use a function that returns {owner} instead of making"
                    " it."
                )


def _is_of_type(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is_of_type(value, one) for one in inner)
    if kind is None or kind is NoneType:
        return value is None
    outer = NUMBERS.get(kind, origin or kind)
    if not isinstance(outer, type) or getattr(outer, "_is_protocol", False):
        return True
    if not isinstance(value, outer):
        return False
    if isinstance(value, int) and abs(value) >= 2**63:  # as text it may have too many digits
        return False
    if isinstance(value, Mapping):
        return all(
            _is_of_type(one, kind)
            for item in islice(value.items(), 1)
            for one, kind in zip(item, inner, strict=False)
        )
    if outer is tuple and isinstance(value, tuple) and inner and Ellipsis not in inner:
        return len(value) == len(inner) and all(map(_is_of_type, value, inner))
    if isinstance(value, Sequence) and inner:
        return all(_is_of_type(item, inner[0]) for item in islice(value, 1))
    return True


class NamedRecords(Record, Generic[Value]):
    """A record that is read like a mapping from names to other records.

    `__getitem__` may accept more names than `_names` lists, and raises a UsageError for others.
    """

    def _names(self) -> list[str]:
        """Return the names in order."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Value:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._names())

    # A record of pydantic iterates over its fields, which nothing here needs.
    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        # by `get` rather than `_names`, since `__getitem__` may accept more names
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str, default: Default | None = None) -> Value | Default | None:
        """Return the record with this name, or `default` if there is none."""
        try:
            return self[name]
        except UsageError:
            return default

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._records().keys()

    def values(self) -> ValuesView[Value]:
        """Return the records."""
        return self._records().values()

    def items(self) -> ItemsView[str, Value]:
        """Return pairs of names and records."""
        return self._records().items()

    def _records(self) -> dict[str, Value]:
        return {name: self[name] for name in self._names()}


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a failed validation as one sentence with the field's name."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    # pydantic puts this before the message of a validator
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {message}." if where else f"{message}."
