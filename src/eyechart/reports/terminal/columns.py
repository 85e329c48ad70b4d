"""Tables for the terminal: columns that do not fit beside each other come in further tables."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

PADDING = 3
"""What a column takes besides its text."""

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
    """Yield tables with all columns, each no wider than `width` if that can be.

    The first `kept` columns are in every table, the others in as few tables as will do. `left`:
    columns set flush left. `last_apart`: the last row is a summary, set off by a line. Cells may
    hold mark-up.
    """
    from rich.text import Text

    sizes = [
        max(Text.from_markup(text).cell_len for text in (title, *(row[index] for row in rows)))
        + PADDING
        for index, title in enumerate(head)
    ]
    room = width - sum(sizes[:kept])
    group: list[int] = []
    groups = []
    for index in range(kept, len(head)):
        if group and not markdown and sum(sizes[column] for column in group) + sizes[index] > room:
            groups.append(group)
            group = []
        group.append(index)
    for columns in [*groups, group]:
        places = [*range(kept), *columns]
        yield _table(head, rows, places, left, markdown, last_apart)


def _table(
    head: Sequence[str],
    rows: Rows,
    places: Sequence[int],
    left: Collection[int],
    markdown: bool,
    last_apart: bool,
) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.MARKDOWN if markdown else box.SIMPLE_HEAD)
    for index in places:
        side: Literal["left", "right"] = "left" if index in left else "right"
        table.add_column(head[index], justify=side, overflow="fold")
    for number, row in enumerate(rows):
        if last_apart and number == len(rows) - 1:
            table.add_section()
        table.add_row(*(row[index] for index in places))
    return table
