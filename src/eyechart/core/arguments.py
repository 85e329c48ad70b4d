"""Validation of the arguments of public functions: numbers, integers, paths, folders.

Each check returns the value in the type that the code works with, or raises a UsageError.
"""

import errno
import math
import operator
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, SupportsFloat

from eyechart.core.errors import UsageError

FilePath = str | os.PathLike[str]

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""What a string contains if it cannot be encoded as UTF-8."""

SPECIAL_FILES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegularFile(UsageError, OSError):
    """The error for a file that is not read: opening a named pipe would wait for a writer.

    Functions that name unreadable files catch it as an OSError.
    """

    def __init__(self, path: Path, kind: str) -> None:
        OSError.__init__(
            self, errno.EINVAL, f"it must be a regular file, but it is {kind}", str(path)
        )

    def __str__(self) -> str:
        return f"Cannot read {self.filename}: {self.strerror}."


def regular_file(path: Path) -> Path:
    """Return the path of a file that is about to be opened for reading.

    Raises:
        NotRegularFile: it is a named pipe, a socket or a device.
        OSError: there is no such file.
    """
    kind = SPECIAL_FILES.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise NotRegularFile(path, kind)
    return path


def as_number(value: object, name: str) -> float:
    """Return a real number as a float; reject strings, booleans, complex numbers and lists.

    Example:
        >>> as_number(3, "sigma")
        3.0
    """
    try:
        if isinstance(value, str | bytes | bool):
            # float("3") and float(True) would succeed, but neither was meant as a number
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    # an int beyond float's range raises OverflowError, a tensor with several elements RuntimeError
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise UsageError(f"{name} must be a number, got {short_repr(value)}.") from None


def as_int(value: object, name: str, low: int, high: int) -> int:
    """Return an integer in [low, high] as an int; reject 3.0 and True.

    Example:
        >>> as_int(5, "severity", 1, 5)
        5
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"{name} must be a whole number, got {short_repr(value)}.") from None
    if number < low:
        raise UsageError(f"{name} must be at least {low:,}, got {short_repr(number)}.")
    if number > high:
        raise UsageError(f"{name} must be at most {high:,}, got {short_repr(number)}.")
    return number


def as_within(value: object, name: str, low: float, high: float) -> float:
    """Return a finite number in [low, high] as a float."""
    number = as_number(value, name)
    if not (math.isfinite(number) and low <= number <= high):
        raise UsageError(f"{name} must be in [{low:g}, {high:g}], got {digits(number)}.")
    return number


def digits(number: SupportsFloat) -> str:
    """Return a number with all its digits, for error messages: 1.0000001 must not read as 1.

    Example:
        >>> digits(1.0000001), digits(5.0)
        ('1.0000001', '5')
    """
    return str(number).removesuffix(".0")


def as_flag(value: object, name: str) -> bool:
    """Return a boolean; 0 and 1 are accepted too."""
    # NumPy's booleans do not support operator.index; by name, so that NumPy need not be imported
    is_bool = type(value).__name__ in ("bool_", "bool")
    try:
        number = int(bool(value)) if is_bool else operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        number = -1
    if number not in (0, 1):
        raise UsageError(f"{name} must be True or False, got {short_repr(value)}.")
    return bool(number)


def as_text(value: object, name: str) -> str:
    """Return the value if it is a string that can be encoded as UTF-8; reject everything else."""
    if not isinstance(value, str) or LONE_SURROGATE.search(value):
        raise UsageError(f"{name} must be a string, got {short_repr(value)}.")
    return value


def as_texts(values: object, name: str) -> tuple[str, ...]:
    """Return an iterable of strings as a tuple; reject a single string."""
    return tuple(as_text(value, f"each of {name}") for value in as_list(values, name))


def as_list(values: object, name: str) -> list[Any]:
    """Return an iterable as a list; reject a string, because it counts as a single value."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise UsageError(f"{name} must be a list, got {short_repr(values)}.")
    try:
        return list(values)
    except Exception:  # a foreign iterator may raise anything
        raise UsageError(f"{name} must be a list, got {short_repr(values)}.") from None


def as_path(value: object, name: str, expected: str = "a name or a path") -> FilePath:
    """Return a string or path unchanged if it is a valid path; it need not exist."""
    try:
        if not isinstance(value, str | os.PathLike):
            raise TypeError
        text = os.fspath(value)
        if not isinstance(text, str) or "\0" in text:
            raise ValueError
        # raises for surrogates that do not stand for the bytes of a file name
        os.fsencode(text)
        # raises for paths that the operating system rejects, such as a name that is too long
        Path(text).exists()
    except (TypeError, ValueError, OSError):
        raise UsageError(f"{name} must be {expected}, got {short_repr(value)}.") from None
    return value


def as_paths(values: object, name: str) -> list[FilePath]:
    """Return a single name or path, or a list of them, as a list."""
    paths = [values] if isinstance(values, str | os.PathLike) else as_list(values, name)
    return [as_path(path, f"Each of {name}") for path in paths]


def resolved_path(path: Path) -> Path:
    """Return the absolute path without links; links that end nowhere or in themselves stay."""
    # unlike Path.resolve, which raises a RuntimeError for a link to itself
    return Path(os.path.realpath(path))


def as_folder(value: object, name: str) -> Path:
    """Return the path of a folder, which need not exist; reject the path of a file."""
    path = Path(as_path(value, name, "the path of a folder"))
    if path.exists() and not path.is_dir():
        raise UsageError(f"{name} must be a folder, but {path} is a file.")
    return path


def short_repr(value: object) -> str:
    """Return a value in the form quoted in error messages: only the type if it is long or unusual.

    Example:
        >>> short_repr(7), short_repr("x" * 100), short_repr([1, 2])
        ('7', 'a str', 'a list')
    """
    if isinstance(value, int | float | complex | str | bytes | bool | None):
        with suppress(ValueError):  # an integer with more digits than Python converts to text
            text = repr(value)
            if len(text) <= 60:
                return text
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
