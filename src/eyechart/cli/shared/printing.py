"""Print tables, notes and the names of written files."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path


def print_table(
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    left: Collection[int] = (0,),
    last_apart: bool = False,
) -> None:
    """Print a table as wide as the terminal; columns that do not fit are printed below it."""
    from rich.markup import escape

    from eyechart.cli.shared.console import wide_console
    from eyechart.reports.terminal.columns import stacked

    head, rows = table
    console = wide_console()
    for part in stacked(
        [escape(cell) for cell in head],
        [[escape(cell) for cell in row] for row in rows],
        width=console.width,
        left=left,
        last_apart=last_apart,
    ):
        console.print(part)


def print_notes(notes: Iterable[str]) -> None:
    """Print each note on its own line."""
    for note in notes:
        print(f"Note: {note}")


def print_written(paths: Iterable[Path | None]) -> None:
    """Print the files that were written."""
    written = [path for path in paths if path is not None]
    if written:
        print("Written:")
    for path in written:
        print(f"  {path}")
