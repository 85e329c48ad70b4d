"""Published results as tables for the terminal and as CSV files, with source and dataset."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from eyechart.reports.number_text import MISSING
from eyechart.reports.terminal.columns import stacked
from eyechart.reports.terminal.leaderboard import Line, bracketed, rounded
from eyechart.results.published_results import PublishedModel, PublishedTable
from eyechart.results.published_rows import RankedBoard
from eyechart.scores.registry import LEADERBOARD, SCORES

if TYPE_CHECKING:
    from rich.table import Table

AREAS = {"human_area_a": "human area_a", "human_area_p": "human area_p"}
PLAIN = {"accuracy": "accuracy", "coverage": "coverage"}
"""Scores of other tasks: accuracy on held-out classes, coverage of Δv."""

COLUMNS = {**{score.name: score.title for score in LEADERBOARD}, **AREAS, **PLAIN}
"""Scores that published results may have, in the order of their columns."""


def published_title(table: PublishedTable) -> str:
    """Return the title of a table of published results."""
    text = f"Published, {table.suite}: {table.title}"
    return f"{text}; baseline {table.baseline}" if table.baseline else text


def published_source(table: PublishedTable) -> str:
    """Return the source of published results, and the images they were measured on."""
    return f"{table.name}: {table.source}. Images: {table.image_title}."


def published_rows(table: PublishedTable, width: int, markdown: bool = False) -> Iterator["Table"]:
    """Yield the models of a published table, in its order, with all its printed scores."""
    from rich.markup import escape

    names = [name for name in COLUMNS if any(name in row.scores for row in table.models)]
    has_corruptions = any(row.corruption for row in table.models)
    rows = [
        [
            escape(row.model),
            *([row.corruption] if has_corruptions else []),
            *(_cell(row, name, table.is_computed) for name in names),
        ]
        for row in table.models
    ]
    head = ["model", *(["corruption"] if has_corruptions else []), *map(COLUMNS.get, names)]
    kept = 2 if has_corruptions else 1
    left = tuple(range(kept))
    return stacked([str(name) for name in head], rows, width=width, kept=kept, left=left,
                   markdown=markdown)  # fmt: skip


def ranked_title(ranked: RankedBoard) -> str:
    """Return a title with the suite, images, score and baseline of a joint ranking."""
    board = ranked.standings.board
    return (
        f"{board.suite} with published results on the same images"
        f" ({ranked.tables[0].image_title}), by {SCORES[ranked.standings.by].title};"
        f" baseline {board.baseline}"
    )


def ranked_rows(ranked: RankedBoard, width: int, markdown: bool = False) -> Iterator["Table"]:
    """Yield tables of runs (with intervals) and published models in one ranking."""
    from rich.markup import escape

    by = ranked.standings.by
    rows = []
    for row in ranked.rows:
        if row.table is None or row.row is None:
            score = bracketed(ranked.standings.scores[by][row.model], SCORES[by])
        else:
            score = _cell(row.row, by, row.table.is_computed)
        where = "this run" if row.table is None else f"published: {row.table.name}"
        rows.append([str(row.rank), escape(row.model), score, where])
    head = ("#", "model", SCORES[by].title, "from")
    return stacked(head, rows, width=width, kept=2, left=(1, 3), markdown=markdown)


def published_lines(
    tables: Sequence[PublishedTable], boards: Sequence[RankedBoard]
) -> Iterator[Line]:
    """Yield a row for each published model, with its `rank` if it is ranked with runs."""
    ranks = {
        (row.table.name, row.model): row.rank
        for board in boards
        for row in board.rows
        if row.table is not None
    }
    for table in tables:
        for row in table.models:
            line: Line = {
                "suite": table.suite, "table": table.name, "images": table.image_title,
                "baseline": table.baseline, "source": table.source, "model": row.model,
                "corruption": row.corruption, "rank": ranks.get((table.name, row.model)),
            }  # fmt: skip
            yield line | {name: rounded(row.scores.get(name)) for name in COLUMNS}


def error_lines(tables: Sequence[PublishedTable]) -> Iterator[Line]:
    """Yield a row for each published corruption error, as a ratio."""
    for table in tables:
        for row in table.models:
            for name in row.ce or row.relative_ce:
                yield {
                    "table": table.name, "baseline": table.baseline, "model": row.model,
                    "corruption": name, "ce": rounded(row.ce.get(name)),
                    "relative_ce": rounded(row.relative_ce.get(name)),
                }  # fmt: skip


def _cell(row: PublishedModel, name: str, is_computed: bool) -> str:
    """Return a score with as many decimals as in its source, or two if it was computed."""
    if name not in row.scores:
        return MISSING
    value = row.scores[name]
    if name in SCORES and SCORES[name].is_percent:
        return f"{100 * value:.2f}" if is_computed else f"{round(100 * value, 2):g}"
    # Human areas are derived from numbers with three digits.
    text = f"{value:.3f}" if name in AREAS else f"{value:.4f}"
    return text[:-1] if len(text) == 6 and text.endswith("0") else text
