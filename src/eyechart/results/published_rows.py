"""Published results next to finished runs, ranked together only if the images are the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.errors import UsageError
from eyechart.results.image_sets import image_set_of
from eyechart.results.published_results import (
    PublishedModel,
    PublishedTable,
    find_published,
    read_published,
)
from eyechart.results.runs import Board
from eyechart.results.standings import Standings
from eyechart.scores.baseline_names import ROBUSTBENCH_ALEXNET
from eyechart.scores.baseline_tables import built_in, find_baseline, siblings
from eyechart.scores.registry import SCORES

FILE = ".csv"


@dataclass(frozen=True)
class RankedRow:
    """A model in a ranking, either from a run or from the published `table`."""

    rank: int
    model: str
    value: float
    table: PublishedTable | None = None
    row: PublishedModel | None = None


@dataclass(frozen=True)
class RankedBoard:
    """Models from runs and published models, ranked by one score on the same images."""

    standings: Standings
    tables: tuple[PublishedTable, ...]
    rows: tuple[RankedRow, ...]


def choose_published(wanted: Sequence[str], baseline: str | None) -> tuple[PublishedTable, ...]:
    """Return the published results of suites, tables or CSV files, without duplicates.

    Args:
        wanted: Names of suites or tables, or CSV files.
        baseline: Return only results relative to this baseline, and divide errors from CSV files by
            it. By default, return all results and use "robustbench-alexnet" for CSV files.
    """
    tables: dict[tuple[str, str, str], PublishedTable] = {}
    for name in wanted:
        is_file = name.lower().endswith(FILE)
        read = (
            read_published(Path(name), baseline or ROBUSTBENCH_ALEXNET)
            if is_file
            else _relative_to(find_published(name), name, baseline)
        )
        # Files of the same name in two folders are two tables.
        origin = str(Path(name)) if is_file else ""
        tables |= {(origin, table.name, table.suite): table for table in read}
    return tuple(tables.values())


def check_baseline(boards: Sequence[Board], baseline: str | None) -> None:
    """Raise a UsageError if the runs were evaluated with a different baseline."""
    for board in boards:
        if baseline is None or board.baseline == baseline:
            continue
        wanted = baseline
        if baseline in built_in():
            # "alexnet" for ImageNet-NOC is stored as "noc-alexnet".
            wanted = find_baseline(baseline, suite=board.suite).name
        if board.baseline != wanted:
            raise UsageError(
                f"The runs of {board.suite} must be evaluated with --baseline {baseline}, got"
                f" {board.baseline or 'none'}: evaluate them again with it."
            )


def is_comparable(board: Board, table: PublishedTable) -> bool:
    """Whether runs and published results have the same suite, images and baseline.

    A built-in table counts as the run's baseline only if it is valid for the run's images, sizes
    and files. A model in the run with the same name as a table does not count as that table.
    """
    if (board.suite, board.baseline) != (table.suite, table.baseline):
        return False
    # Without known images or baseline, a comparison would mix different tests.
    if not table.images or not table.baseline or board.baseline in board.models:
        return False
    # Published image sets are recognized by file names.
    return image_set_of(sorted(board.runs[0].names)) == table.images


def rank_together(standings: Standings, tables: Sequence[PublishedTable]) -> RankedBoard | None:
    """Return a ranking of runs and comparable published results; None if nothing is comparable."""
    board, by = standings.board, standings.by
    chosen = [
        table
        for table in tables
        if is_comparable(board, table) and any(by in row.scores for row in table.models)
    ]
    if not chosen:
        return None
    rows = [RankedRow(0, name, estimate.value) for name, estimate in standings.scores[by].items()]
    rows += [
        RankedRow(0, row.model, row.scores[by], table, row)
        for table in chosen
        for row in table.models
        if by in row.scores
    ]
    # Published rows have no replicates, so ranks here have no intervals.
    rows.sort(key=lambda row: row.value, reverse=SCORES[by].higher_is_better)
    ranked = tuple(
        RankedRow(rank, row.model, row.value, row.table, row.row)
        for rank, row in enumerate(rows, 1)
    )
    return RankedBoard(standings, tuple(chosen), ranked)


def _relative_to(
    tables: tuple[PublishedTable, ...], name: str, baseline: str | None
) -> tuple[PublishedTable, ...]:
    if baseline is None:
        return tables
    named = find_baseline(baseline)
    kept = {table.name for table in (named, *siblings(named))}
    relative = tuple(table for table in tables if table.baseline in kept)
    if not relative:
        baselines = sorted({table.baseline or "none" for table in tables})
        raise UsageError(
            f"The published results of {name} must be relative to {baseline}, got "
            f"{', '.join(baselines)}: give one of these as --baseline, or omit it."
        )
    return relative
