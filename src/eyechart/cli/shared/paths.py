"""Paths from the command line, checked before any work is done."""

from pathlib import Path

import typer

from eyechart.core.errors import UsageError


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


def check_file_to_write(path: Path) -> None:
    """Raise a UsageError if no file can be written at this path."""
    if path.is_dir():
        raise UsageError(f"Cannot write {path}: it is a folder, not a file.")
    if path.exists() and not path.is_file():
        raise UsageError(f"Cannot write {path}: it is not a regular file.")
    if path.parent.is_file():
        raise UsageError(f"Cannot write into {path.parent}: it is a file, not a folder.")
    if not path.parent.is_dir():
        raise UsageError(f"No such folder: {path.parent}.")
