"""Options for files that commands write, and their checks before any work is done."""

from pathlib import Path
from typing import Annotated

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.options import Option

FigureFile = Annotated[
    Path | None,
    Option(
        help="Also draw the result, as .png, .svg or .pdf.",
        group="Output",
        metavar="FILE",
        path="folder or file",
    ),
]
Latex = Annotated[
    Path | None,
    Option(
        help="Also write LaTeX tables.",
        group="Output",
        metavar="FILE.tex",
        path="folder or file",
    ),
]


OURS = (",", "one,two,", "benchmark,form,")
"""The first characters of every CSV file that an overlap command writes."""


def check_figure_file(path: Path | None) -> None:
    """Raise a UsageError unless a figure can be written at this path."""
    if path is None:
        return
    from eyechart.reports.figures.figure_files import check_figure

    check_file_to_write(path)
    check_figure(path)


def check_table(path: Path | None, source: Path | None) -> None:
    """Raise a UsageError unless a CSV file can be written at this path."""
    if path is None:
        return
    check_file_to_write(path)
    if path.suffix.lower() != ".csv":
        raise UsageError(f"The name of a table must end in .csv, got '{path.suffix}'.")
    if not path.exists():
        return
    # any file may be at this path, also one that is not text
    with regular_file(path).open(encoding="utf-8", errors="replace") as file:
        ours = file.readline().startswith(OURS)
    if (source is not None and path.samefile(source)) or not ours:
        raise UsageError(
            f"{path} already exists and would be overwritten: choose another name, or delete it."
        )


def check_latex(path: Path | None) -> None:
    """Raise a UsageError unless a LaTeX file can be written at this path."""
    if path is None:
        return
    from eyechart.reports.latex import MADE_BY

    check_file_to_write(path)
    if path.suffix.lower() != ".tex":
        raise UsageError(f"--latex must end in .tex, got '{path.name}': give another name.")
    if not path.exists():
        return
    with regular_file(path).open(encoding="utf-8", errors="replace") as file:
        is_ours = file.readline().startswith(MADE_BY)
    if not is_ours:
        raise UsageError(
            f"{path} already exists and was not written by eyechart: choose another file."
        )


def check_file_to_write(path: Path) -> None:
    """Raise a UsageError if no file can be written at this path."""
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"Cannot write {path}: it is a folder, not a file.")
    if path.exists() and not path.is_file():
        raise UsageError(f"Cannot write {path}: it is not a regular file.")
    if folder.is_file():
        raise UsageError(f"Cannot write into {folder}: it is a file, not a folder.")
    if not folder.is_dir():
        raise UsageError(f"No such folder: {folder}.")
