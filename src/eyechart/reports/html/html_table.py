"""Tables of the page: columns, rows, and cells shaded by value."""

from dataclasses import dataclass

from markupsafe import Markup

from eyechart.reports.html.cells import CellContent

MANY = 6
"""Number of models above which tables omit details, so that the page stays small."""


@dataclass(frozen=True)
class Column:
    """A column. `group`: heading shared with adjacent columns. `hint`: explanation of the title."""

    title: str
    numeric: bool = True
    group: str = ""
    hint: str = ""


def text_columns(*titles: str) -> tuple[Column, ...]:
    """Return text columns with these titles."""
    return tuple(Column(title, numeric=False) for title in titles)


@dataclass(frozen=True)
class TableRow:
    """A row, whose first cell is its name. `model`: name of its model; "" for other rows."""

    cells: tuple["CellContent | Shaded", ...]
    model: str = ""
    is_total: bool = False


@dataclass(frozen=True)
class Table:
    """A table. `id`: unique in the page. `note`: text shown below the table.

    `kind`: "stacked" has intervals below values, "dense" also has small text, "by-model" has a
    column for each model.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    is_sortable: bool = False
    note: str | Markup = ""
    kind: str = ""

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The column groups with the number of columns that each spans; empty if there are none."""
        collected: list[tuple[str, int]] = []
        for column in self.columns:
            if collected and collected[-1][0] == column.group:
                collected[-1] = (column.group, collected[-1][1] + 1)
            else:
                collected.append((column.group, 1))
        return collected if any(name for name, _ in collected) else []


@dataclass(frozen=True)
class Shaded:
    """A cell whose background gets darker as `share` increases from 0 to 1."""

    cell: CellContent
    share: float


@dataclass(frozen=True)
class TableChoice:
    """A table with the title by which readers select it among several tables."""

    title: str
    table: Table
