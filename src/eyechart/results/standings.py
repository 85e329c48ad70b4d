"""Rank the models of a leaderboard, with intervals for ranks and paired tests for all pairs."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eyechart.core.arguments import as_path, as_text
from eyechart.core.errors import UsageError
from eyechart.core.records import CheckedFields
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.suite import split_variant
from eyechart.results.model_results import html_table
from eyechart.results.runs import Leaderboard, Run, make_leaderboards, read_run, run_of
from eyechart.results.schema import Results
from eyechart.results.scores_file import as_data_frame, known
from eyechart.scores.registry import HUMANS, LEADERBOARD, RANKED_BY, RANKED_ELSEWHERE, SCORES
from eyechart.stats.estimate import Estimate
from eyechart.stats.p_values import SIGNIFICANT, holm, paired_difference
from eyechart.stats.ranking import Ranking, rank

NOTHING = "The models of {} cannot be ranked: no score is available for every corruption."


@dataclass(frozen=True)
class Pair:
    """Two models of a leaderboard: score of the first minus score of the second.

    `p_value` is from a paired bootstrap test; `corrected` is that p-value corrected for all pairs
    (Holm).
    """

    first: str
    second: str
    difference: float
    interval: tuple[float, float]
    p_value: float
    corrected: float


@dataclass(frozen=True, eq=False)
class Standings(CheckedFields):
    """Models of a leaderboard, ranked by one score in one label space.

    With insufficient data, models are neither ranked nor tested: they are only sorted.

    Attributes:
        board: The models that are ranked, evaluated on the same test.
        space: Label space of the ranking.
        by: Score by which models are ranked.
        order: Models, best first.
        scores: Every overall score of each model.
        ranks: Ranks with intervals; None with insufficient data.
        pairs: Paired tests for all pairs of models; none with insufficient data.
        verdict: A note on insufficient data; "" if the data suffice.
        homes: Label space of each score.

    Example:
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> results = ec.evaluate(
        ...     mean_color, n=20, corruptions=["gaussian_blur"], labels="none", max_images=2,
        ...     bins=4, min_per_bin=2, n_bootstrap=10,
        ... )
        >>> standings = results.compare()
        >>> standings
        <Standings by r_p: mean_color>
        >>> standings.verdict  # so that standings.ranks is None
        'insufficient data (at least 40 images; have 2)'
    """

    board: Leaderboard
    space: str
    by: str
    order: list[str]
    scores: Mapping[str, Mapping[str, Estimate]]
    ranks: Ranking | None
    pairs: tuple[Pair, ...]
    verdict: str
    homes: Mapping[str, str]

    def __repr__(self) -> str:
        return f"<Standings by {self.by}: {', '.join(self.order)}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per model, best first, with its scores."""
        rows = {
            model: {name: scores[model] for name, scores in self.scores.items()}
            for model in self.order
        }
        return html_table("model", rows, LEADERBOARD, self.verdict)

    def rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """Yield a row of leaderboard.csv for each model, best first; missing values are None."""
        for model in self.order:
            rank = low = high = None
            if self.ranks is not None:
                rank, (low, high) = self.ranks.ranks[model], self.ranks.intervals[model]
            row: dict[str, str | int | float | None] = {
                "suite": self.board.suite,
                "space": self.space,
                "n_images": self.board.n_images(self.space),
                "note": self.verdict,
                "baseline": self.board.baseline,
                "model": model,
                "trained_on": ", ".join(self.board.marked(model)),
                "ranked_by": self.by,
                "rank": rank,
                "rank_low95": low,
                "rank_high95": high,
            }
            for name in (score.name for score in LEADERBOARD):
                estimate = self.scores.get(name, {}).get(model)
                low, high = (nan, nan) if estimate is None else estimate.interval95
                row[name] = None if estimate is None else known(estimate.value)
                row[f"{name}_low95"], row[f"{name}_high95"] = known(low), known(high)
            yield row

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with the rows and columns of leaderboard.csv, best model first."""
        return pa.Table.from_pylist(list(self.rows()))

    def to_pandas(self) -> Any:
        """Return the table of `to_arrow` as a pandas DataFrame."""
        return as_data_frame(self.to_arrow())

    def worse_than(self, model: str, level: float = SIGNIFICANT) -> list[str]:
        """Return the models that are significantly worse than this one, after correction.

        The result is empty if there is insufficient data.
        """
        # Differences are signed by score, not by quality.
        sign = 1 if SCORES[self.by].higher_is_better else -1
        behind = []
        for pair in self.pairs:
            # Corrected p-values: with many models some pairs differ by chance.
            if pair.corrected >= level or model not in (pair.first, pair.second):
                continue
            ahead = pair.first if sign * pair.difference > 0 else pair.second
            if ahead == model:
                behind.append(pair.second if ahead == pair.first else pair.first)
        return [name for name in self.order if name in behind]


def compare(
    *runs: Results | str | os.PathLike[str], by: str | None = None, labels: str | None = None
) -> Standings:
    """Rank the models of one or more runs of the same test, with paired tests for all pairs.

    The numbers are the same as in `eyechart compare`, which also compares rankings by different
    suites.

    Args:
        runs: Results, or run folders.
        by: Score to rank by, such as "r_a", "mce" or "clean_accuracy"; by default the suite's usual
            score.
        labels: Label space; the first common one by default.

    Returns:
        The standings: `order` (best model first), `scores`, `ranks` with intervals, `pairs` with
        differences and p-values; `to_pandas()` returns the leaderboard, and
        `pandas.DataFrame(standings.pairs)` returns the differences. With insufficient data,
        `verdict` says what is missing, and there are neither ranks nor pairs.

    Raises:
        UsageError: If the runs are from different tests or lack bootstrap replicates.

    Example:
        >>> import eyechart as ec
        >>> def mean_color(images):  # two toy models: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> def corner_color(images):
        ...     return images[:, :, 0, 0]
        >>> results = ec.evaluate(
        ...     [mean_color, corner_color], n=20, corruptions=["gaussian_blur"], labels="none",
        ...     max_images=2, bins=4, min_per_bin=2, n_bootstrap=10,
        ... )
        >>> standings = ec.compare(results, by="r_p")
        >>> standings.by, sorted(standings.order)
        ('r_p', ['corner_color', 'mean_color'])
    """
    for value, name in ((by, "by"), (labels, "labels")):
        if value is not None:
            as_text(value, name)
    if not runs:
        raise UsageError("compare needs at least one run: give results or run folders.")
    boards = make_leaderboards([_run(run, number) for number, run in enumerate(runs, start=1)])
    if len(boards) > 1:
        suites = " and ".join(board.suite for board in boards)
        raise UsageError(
            f"compare ranks models under one suite, got runs on {suites}: compare the runs of each"
            " suite, or use eyechart compare."
        )
    return rank_models(boards[0], labels, by)


def _run(run: object, number: int) -> Run:
    if isinstance(run, Results):
        return run_of(run, name=f"run {number}")
    return read_run(Path(as_path(run, "run", "results or the path of a run folder")))


def check_rankable(name: str) -> None:
    """Raise a UsageError unless models can be ranked by this score."""
    known = [score.name for score in LEADERBOARD]
    if name not in known:
        raise unknown_name("score", name, known)


def rank_models(board: Leaderboard, space: str | None = None, by: str | None = None) -> Standings:
    """Return the ranked models of a leaderboard.

    Args:
        board: The models to rank, evaluated on the same test.
        space: Label space; the first common one by default.
        by: Score to rank by. By default, or if a model lacks this score, the suite's usual score is
            used.
    """
    if by is not None:
        check_rankable(by)
    if not board.scores:
        raise UsageError(NOTHING.format(board.suite))
    if not board.spaces:
        raise UsageError("The runs have no label space in common: evaluate with the same --labels.")
    if space is not None and space not in board.spaces:
        raise unknown_name("label space of these runs", space, board.spaces)
    where = space or board.spaces[0]
    scores, homes = _overall(board, where)
    # A variant such as vcr@paper is ranked like its suite.
    usual = (*RANKED_BY.get(split_variant(board.suite)[0], ()), *RANKED_ELSEWHERE)
    wanted = (*((by,) if by else ()), *usual)
    # The requested score first, then the usual ones in order of preference.
    chosen = next((name for name in wanted if name in scores), None)
    if chosen is None:
        raise UsageError(NOTHING.format(board.suite))
    estimates, verdict = scores[chosen], board.verdict(homes[chosen])
    is_higher_better = SCORES[chosen].higher_is_better
    sign = -1 if is_higher_better else 1
    return Standings(
        board,
        homes[chosen],
        chosen,
        sorted(board.models, key=lambda name: sign * estimates[name].value),
        scores,
        None if verdict else rank(estimates, is_higher_better),
        () if verdict else tuple(_pairs(estimates)),
        verdict,
        homes,
    )


def _overall(
    board: Leaderboard, space: str
) -> tuple[dict[str, dict[str, Estimate]], dict[str, str]]:
    """Return the available overall scores, and the label space of each."""
    scores: dict[str, dict[str, Estimate]] = {}
    homes: dict[str, str] = {}
    for score in LEADERBOARD:
        # Comparisons with humans exist only in the 16 categories.
        for home in (space, *(["entry16"] if HUMANS in score.needs else [])):
            estimates = board.overall(home, score.name) if home in board.spaces else {}
            # HMRI is NaN where the human area is 0, and cannot rank models.
            if estimates and all(np.isfinite(estimate.value) for estimate in estimates.values()):
                scores[score.name], homes[score.name] = estimates, home
                break
    return scores, homes


def _pairs(scores: Mapping[str, Estimate]) -> list[Pair]:
    pairs = list(combinations(scores, 2))
    tests = [paired_difference(scores[first], scores[second]) for first, second in pairs]
    # All pairs of the board form one family of tests.
    corrected = holm([test.p_value for test in tests])
    return [
        Pair(first, second, test.difference, test.interval, test.p_value, float(p))
        for (first, second), test, p in zip(pairs, tests, corrected, strict=True)
    ]
