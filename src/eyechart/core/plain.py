"""Plain values, as JSON has them, read into the records that declare what a file holds."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def from_plain(record: type[Record], value: Any) -> Record:
    """Return the dataclass `record` with the fields of a mapping; what it does not know is left.

    A field that is of another type, or that is missing and has no default, is a ValueError that
    says which.
    """
    made: Record = _read(record, value, record.__name__)
    return made


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _record(kind, value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _read(next(each for each in inner if each is not type(None)), value, where)
    if origin is tuple:
        return _sequence(inner, value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} is not a mapping")
        return {key: _read(inner[1], own, f"{where}.{key}") for key, own in value.items()}
    return _scalar(kind, value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} is not a mapping")
    hints = _hints(kind)
    found = {}
    for field in fields(kind):
        if field.name not in value:
            if field.default is not MISSING:
                continue
            raise ValueError(f"{where}.{field.name} is missing")
        found[field.name] = _read(hints[field.name], value[field.name], f"{where}.{field.name}")
    return kind(**found)


def _sequence(inner: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where} is not a list")
    kinds = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
    if len(kinds) != len(value):
        raise ValueError(f"{where} has {len(value)} elements, not {len(kinds)}")
    return tuple(_read(kind, own, where) for kind, own in zip(kinds, value, strict=True))


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where} is not of type {kind.__name__}")
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
