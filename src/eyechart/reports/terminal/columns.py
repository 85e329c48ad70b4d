"""Tables for the terminal: columns that do not fit side by side continue in further tables."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

PADDING = 3
"""Number of characters by which a column is wider than its text."""

Rows = Sequence[Sequence[str]]


def stacked(
    head: Sequence[str],
    rows: Rows,
    *,
    width: int,
    kept: int = 1,
    left: Collection[int] = (0,),
    markdown: bool = False,
    last_apart: bool = False,
) -> Iterator["Table"]:
    """Yield tables with all columns, each no wider than `width` if possible.

    The first `kept` columns are in every table, the others in as few tables as possible. `left`:
    indices of the left-aligned columns. `last_apart`: whether a line separates the last row,
    which is a summary. Cells may contain markup.
    """
    from rich import box
    from rich.table import Table

    for group in [range(kept, len(head))] if markdown else _groups(head, rows, kept, width):
        columns = [*range(kept), *group]
        table = Table(box=box.MARKDOWN if markdown else box.SIMPLE_HEAD)
        for index in columns:
            side = "left" if index in left else "right"
            table.add_column(head[index], justify=side, overflow="fold")  # type: ignore[arg-type]
        for number, row in enumerate(rows, start=1):
            # A summary may have no value in any of these columns.
            if not any(row[index] for index in group):
                continue
            if last_apart and number == len(rows):
                table.add_section()
            table.add_row(*(row[index] for index in columns))
        yield table


def _groups(head: Sequence[str], rows: Rows, kept: int, width: int) -> list[list[int]]:
    """Return the columns after the first `kept`, grouped by the table that they are in."""
    from rich.text import Text

    # Cells may contain markup, which takes no width on the terminal.
    sizes = [
        max(Text.from_markup(text).cell_len for text in (title, *(row[index] for row in rows)))
        + PADDING
        for index, title in enumerate(head)
    ]
    groups: list[list[int]] = [[]]
    # The table itself begins and ends with a space.
    room = width - 2 - sum(sizes[:kept])
    for index in range(kept, len(head)):
        if groups[-1] and sum(sizes[column] for column in groups[-1]) + sizes[index] > room:
            groups.append([])
        groups[-1].append(index)
    return groups


def number_table(title: str, *numbers: str) -> "Table":
    """Return a table without rows, with a column of names and columns of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
