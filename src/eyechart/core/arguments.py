"""What callers of the public functions give, checked: a number, a whole number, a folder.

Each check returns the value in the type that the code works with, or raises one sentence.
"""

import math
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eyechart.core.errors import UsageError

FilePath = str | os.PathLike[str]


def as_number(value: object, name: str) -> float:
    """Return a real number as a float; text, truth values, complex numbers and lists are none."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise UsageError(f"{name} must be a number, got {brief(value)}.") from None


def as_whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number in low…high as an int; 3.0 and True are none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"{name} must be a whole number, got {brief(value)}.") from None
    if number < low:
        raise UsageError(f"{name} must be at least {low:,}, got {brief(number)}.")
    if number > high:
        raise UsageError(f"{name} must be at most {high:,}, got {brief(number)}.")
    return number


def as_within(value: object, name: str, low: float, high: float) -> float:
    """Return a finite number in low…high as a float."""
    number = as_number(value, name)
    if not (math.isfinite(number) and low <= number <= high):
        raise UsageError(f"{name} must be in [{low:g}, {high:g}], got {number:g}.")
    return number


def as_flag(value: object, name: str) -> bool:
    """Return a truth value; 0 and 1 are ones too."""
    # NumPy's truth values have no index
    is_bool = type(value).__name__ in ("bool_", "bool")
    try:
        number = int(bool(value)) if is_bool else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        number = -1
    if number not in (0, 1):
        raise UsageError(f"{name} must be True or False, got {brief(value)}.")
    return bool(number)


def as_text(value: object, name: str) -> str:
    """Return a string."""
    if not isinstance(value, str) or (not value.isascii() and not _is_encodable(value)):
        raise UsageError(f"{name} must be a string, got {brief(value)}.")
    return value


def _is_encodable(text: str) -> bool:
    """Whether a text can be written at all: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_texts(values: object, name: str) -> tuple[str, ...]:
    """Return a list of strings; a single string is none."""
    return tuple(as_text(value, f"each of {name}") for value in as_list(values, name))


def as_list(values: object, name: str) -> list[Any]:
    """Return what can be gone through as a list; a string is one thing."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError(f"{name} must be a list, got {brief(values)}.")
    try:
        return list(values)
    except Exception:  # whatever going through it brings
        raise UsageError(f"{name} must be a list, got {brief(values)}.") from None


def as_path(value: object, name: str, expected: str = "a name or a path") -> FilePath:
    """Return a string or path as it is, if the file system could have it."""
    try:
        if not isinstance(value, str | os.PathLike):
            raise TypeError
        text = os.fspath(value)
        if not isinstance(text, str) or "\0" in text:
            raise ValueError
        os.fsencode(text)
        Path(text).exists()
    except (TypeError, ValueError, OSError):
        raise UsageError(f"{name} must be {expected}, got {brief(value)}.") from None
    return value


def as_paths(values: object, name: str) -> list[FilePath]:
    """Return one name or path, or a list of them, as a list."""
    paths = [values] if isinstance(values, str | os.PathLike) else as_list(values, name)
    return [as_path(path, f"Each of {name}") for path in paths]


def as_folder(value: object, name: str) -> Path:
    """Return the path of a folder, which may be missing; a file or what is no path is none."""
    path = Path(as_path(value, name, "the path of a folder"))
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name} must be a folder, and {path} is a file.")
    return path


def brief(value: object) -> str:
    """Return what was given in a few letters: a long or strange value by its type alone."""
    if isinstance(value, int | float | complex | str | bytes | bool | None):
        try:
            text = repr(value)
        except ValueError:  # a whole number of more digits than Python writes
            text = ""
        if 0 < len(text) <= 60:
            return text
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
