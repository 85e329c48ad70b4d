"""Tables of the page: columns, rows, and cells that are shaded by how good they are."""

from dataclasses import dataclass

from markupsafe import Markup

from eyechart.reports.html.cells import CellContent

MANY = 6
"""Models above which tables leave out what nobody could take in, so that the page stays small."""


@dataclass(frozen=True)
class Column:
    """A column. `group`: what stands above it and its neighbours. `hint`: what it means."""

    title: str
    numeric: bool = True
    group: str = ""
    hint: str = ""


def text_columns(*titles: str) -> tuple[Column, ...]:
    """Return columns of texts."""
    return tuple(Column(title, numeric=False) for title in titles)


@dataclass(frozen=True)
class TableRow:
    """A row; the first cell is its name. `model`: whose it is, if it is one's."""

    cells: tuple["CellContent | Shaded", ...]
    model: str = ""
    is_total: bool = False


@dataclass(frozen=True)
class Table:
    """A table. `id`: unique in the page. `note`: below it.

    `kind`: "stacked" has intervals below values,
    "dense" is small besides,
    "by-model" has a column for each model.
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
        """The groups of columns with how many each spans; none where no column has one."""
        collected: list[tuple[str, int]] = []
        for column in self.columns:
            if collected and collected[-1][0] == column.group:
                collected[-1] = (column.group, collected[-1][1] + 1)
            else:
                collected.append((column.group, 1))
        return collected if any(name for name, _ in collected) else []


@dataclass(frozen=True)
class Shaded:
    """A cell on a ground that is the darker the larger `share` is, 0…1."""

    cell: CellContent
    share: float


@dataclass(frozen=True)
class TableChoice:
    """One of several tables of which a reader picks one to look at."""

    title: str
    table: Table
