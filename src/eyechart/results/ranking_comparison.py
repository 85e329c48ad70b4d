"""Compare rankings of models by fixed and continuous severities, and by two benchmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.corruptions.suites.catalogue import list_corruptions
from eyechart.corruptions.suites.published import VCR, WITH_LEVELS
from eyechart.results.image_sets import image_set_of
from eyechart.results.published_results import (
    PublishedModel,
    PublishedTable,
    find_published,
    read_published,
)
from eyechart.results.runs import Leaderboard
from eyechart.results.standings import Standings
from eyechart.scores.baseline_names import ROBUSTBENCH_ALEXNET
from eyechart.scores.baseline_tables import built_in, find_baseline, siblings
from eyechart.scores.registry import BASELINE, CURVE_SCORES, HUMANS, LEADERBOARD, SCORES
from eyechart.stats.estimate import Estimate, complement
from eyechart.stats.ranking import Ranking, Swap, rank, swaps

TWO_BENCHMARKS = ("imagenet-c", "imagenet-noc")
"""Suites whose rankings of models are compared by the same metric."""

FILE = ".csv"


@cache
def shared_corruptions() -> tuple[str, ...]:
    """Return the corruptions that VCR shares with ImageNet-C or ImageNet-C's extra corruptions."""
    levelled = {name for suite in WITH_LEVELS for name in list_corruptions(suite)}
    names = (name.removeprefix("vcr/") for name in list_corruptions("vcr"))
    return tuple(name for name in names if name in levelled)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Models ranked by several methods, under one corruption or over all corruptions.

    Attributes:
        subject: The corruption, or the score that was averaged.
        scores: Scores by ranking method and model.
        ranks: Ranking by method.
        swaps: Pairs of models that two methods rank in opposite order.
    """

    subject: str
    scores: Mapping[str, Mapping[str, Estimate]]
    ranks: Mapping[str, Ranking]
    swaps: tuple[tuple[str, str, Swap], ...]


def rank_in_ways(subject: str, ways: Mapping[str, tuple[Mapping[str, Estimate], bool]]) -> Rankings:
    """Return rankings by several scores; `ways` states for each whether higher is better."""
    ranks = {name: rank(scores, higher) for name, (scores, higher) in ways.items()}
    changes = [
        (one, two, swap)
        for one, two in combinations(ways, 2)
        for swap in swaps(ways[one], ways[two])
    ]
    scores = {name: estimates for name, (estimates, _) in ways.items()}
    return Rankings(subject, scores, ranks, tuple(changes))


@dataclass(frozen=True, eq=False)
class SeverityComparison:
    """First experiment of the VCR paper: fixed severities (ImageNet-C) against continuous ones.

    Attributes:
        models: Models that both runs have.
        corruptions: Three rankings for each corruption that both suites have; none with
            insufficient data.
        missing: Corruptions that the runs lack.
        coverage: Coverage of Δv by corruption in the fixed and the continuous test set: the
            fraction of 39 bins with enough samples.
        fewest_in_covered: Minimum number of samples in a covered bin: one number, or several if the
            runs differ.
        note: A note on insufficient data, or on different images; "" if there is neither.
    """

    models: tuple[str, ...]
    corruptions: tuple[Rankings, ...]
    missing: tuple[str, ...]
    coverage: Mapping[str, tuple[float, float]]
    fewest_in_covered: tuple[int, ...]
    note: str


def fixed_against_continuous(
    boards: Sequence[Leaderboard], space: str | None = None
) -> SeverityComparison | None:
    """Return how rankings by ImageNet-C and VCR differ; None unless there are runs of both."""
    fixed = [board for board in boards if board.suite in WITH_LEVELS]
    continuous = next((board for board in boards if board.suite in VCR), None)
    if not fixed or continuous is None:
        return None
    models = _common([*fixed, continuous])
    where = _common_space([*fixed, continuous], space)
    verdict = _verdict([*fixed, continuous], where)
    rankings, coverage, missing = [], {}, []
    for name in shared_corruptions():
        board = next((candidate for candidate in fixed if name in candidate.corruptions), None)
        full = f"vcr/{name}"
        if board is None or full not in continuous.corruptions:
            missing.append(name)
            continue
        ways = {
            "ImageNet-C accuracy": _of(board, models, where, name, "error"),
            **{
                score.title: _of(continuous, models, where, full, score.name)
                for score in CURVE_SCORES
                if HUMANS not in score.needs
            },
        }
        # True: higher is better, also for errors, which `_of` converts to accuracy.
        known = {way: (estimates, True) for way, estimates in ways.items() if estimates}
        # A single ranking has nothing to be compared with.
        if len(known) > 1 and not verdict:
            rankings.append(rank_in_ways(name, known))
        shares = (_covered(board, name), _covered(continuous, full))
        coverage[name] = shares
    # Runs may have been made with different minimum counts; the caption names all of them.
    counts = [board.runs[0].fewest_in_covered for board in [*fixed, continuous]]
    return SeverityComparison(
        models,
        tuple(rankings),
        tuple(missing),
        coverage,
        tuple(dict.fromkeys(counts)),
        verdict or images_note([*fixed, continuous]),
    )


def two_benchmarks(boards: Sequence[Leaderboard], space: str | None = None) -> list[Rankings]:
    """Return how ImageNet-C and ImageNet-NOC rank models, compared by the same metric.

    Raises:
        UsageError: If the data are insufficient for ranks, or the runs have too little in common.
    """
    by_suite = {board.suite: board for board in boards}
    if not by_suite.keys() >= set(TWO_BENCHMARKS):
        return []
    pair = [by_suite[suite] for suite in TWO_BENCHMARKS]
    models, where = _common(pair), _common_space(pair, space)
    if verdict := _verdict(pair, where):
        raise UsageError(verdict)
    # mCE on two suites is comparable only if both are relative to the same network.
    has_baseline = _family(pair[0].baseline) == _family(pair[1].baseline) != ""
    metrics = [
        score.name
        for score in LEADERBOARD
        if score.group == "error" and (has_baseline or BASELINE not in score.needs)
    ]
    rankings = []
    for metric in metrics:
        scores = [board.overall(where, metric) for board in pair]
        if all(scores):
            ways = {
                board.suite: ({name: estimates[name] for name in models}, False)
                for board, estimates in zip(pair, scores, strict=True)
            }
            rankings.append(rank_in_ways(metric, ways))
    return rankings


def images_note(boards: Sequence[Leaderboard]) -> str:
    """Return a note if tests use different images, which alone can change a ranking; else ""."""
    first = boards[0].runs[0].names
    for board in boards[1:]:
        other = board.runs[0].names
        if other != first:
            return (
                f"{boards[0].suite} was tested on {count_of(len(first), 'image')} and {board.suite}"
                f" on {len(other)}, {len(first & other)} of them shared; rankings may differ for"
                " that reason alone."
            )
    return ""


def _verdict(boards: Sequence[Leaderboard], space: str) -> str:
    """Return why rankings are not compared: insufficient data in one of the runs; "" if not."""
    verdicts = (board.verdict(space) for board in boards)
    verdict = next(filter(None, verdicts), "")
    suites = " and ".join(board.suite for board in boards)
    return f"Rankings by {suites} are not compared: {verdict}." if verdict else ""


def _family(baseline: str) -> str:
    # Both tables contain AlexNet's errors.
    return baseline.removeprefix("noc-")


def _common(boards: Sequence[Leaderboard]) -> tuple[str, ...]:
    names = [name for name in boards[0].models if all(name in board.models for board in boards)]
    if len(names) < 2:
        suites = ", ".join(board.suite for board in boards)
        raise UsageError(f"The runs of {suites} have fewer than two models in common.")
    return tuple(names)


def _common_space(boards: Sequence[Leaderboard], space: str | None) -> str:
    spaces = [name for name in boards[0].spaces if all(name in board.spaces for board in boards)]
    if not spaces or (space is not None and space not in spaces):
        suites = ", ".join(board.suite for board in boards)
        raise UsageError(f"The runs of {suites} have no label space in common.")
    return space or spaces[0]


def _of(
    board: Leaderboard, models: Sequence[str], space: str, corruption: str, score: str
) -> dict[str, Estimate]:
    """Return a score of these models, with errors converted to accuracies; {} if one lacks it."""
    keys = {name: (name, space, corruption, score) for name in models}
    if not all(key in board.scores for key in keys.values()):
        return {}
    scores = {name: board.scores[key] for name, key in keys.items()}
    if score == "error":
        # Higher must be better for all ranking methods that are compared.
        return {name: complement(error) for name, error in scores.items()}
    return scores


def _covered(board: Leaderboard, corruption: str) -> float:
    coverage = board.runs[0].coverage.get(corruption)
    return np.nan if coverage is None else coverage.paper


@dataclass(frozen=True)
class RankedRow:
    """A model in a ranking, either from a run or from the published `table`."""

    rank: int
    model: str
    value: float
    table: PublishedTable | None = None
    row: PublishedModel | None = None


@dataclass(frozen=True)
class PublishedRanking:
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


def check_baseline(boards: Sequence[Leaderboard], baseline: str | None) -> None:
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


def is_comparable(board: Leaderboard, table: PublishedTable) -> bool:
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


def rank_together(
    standings: Standings, tables: Sequence[PublishedTable]
) -> PublishedRanking | None:
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
    return PublishedRanking(standings, tuple(chosen), ranked)


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
