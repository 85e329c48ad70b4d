"""Compared runs as tables for the terminal and as files: leaderboard.csv, pairs.csv and others."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.pipeline.caveats import MARK
from eyechart.reports.interval_text import interval_text, known
from eyechart.reports.names import short_names
from eyechart.reports.terminal.columns import stacked
from eyechart.results.ranking_comparison import Discrete, Rankings
from eyechart.results.standings import Standings
from eyechart.scores.registry import IN_TERMINAL, LEADERBOARD, SCORES, Score
from eyechart.stats.estimate import Estimate
from eyechart.stats.ranking import kendall_tau
from eyechart.suites.suite import split_variant

if TYPE_CHECKING:
    from rich.table import Table


def board_title(standings: Standings) -> str:
    """Return one line on what a board is of."""
    board = standings.board
    where = "16 categories" if standings.space == "entry16" else "own classes"
    pictures = board.pictures(standings.space)
    text = f"{board.suite}, {where}, {pictures} pictures, by {SCORES[standings.by].title}"
    return f"{text}; baseline {short_names([board.baseline])[0]}" if board.baseline else text


def board_tables(standings: Standings, width: int, markdown: bool = False) -> Iterator["Table"]:
    """Yield the models, best first, with intervals, and whom each is clearly better than."""
    from rich.markup import escape

    main = [score.name for score in LEADERBOARD if score.is_main]
    wanted = (*IN_TERMINAL.get(split_variant(standings.board.suite)[0], main), standings.by)
    columns = [
        score for score in LEADERBOARD if score.name in standings.scores and score.name in wanted
    ]
    places = {name: str(index + 1) for index, name in enumerate(standings.order)}
    short = dict(zip(standings.order, short_names(standings.order), strict=True))
    rows = []
    for model in standings.order:
        low, high = standings.ranks.intervals[model]
        span = f"{low:g}" if low == high else f"{low:g}–{high:g}"
        behind = standings.worse_than(model)
        ahead = ", ".join(places[name] for name in behind) or "–"
        cells = [shown(standings.scores[score.name][model], score) for score in columns]
        mark = f" {MARK}" if standings.board.marked(model) else ""
        rows.append((places[model], escape(short[model]) + mark, span, ahead, *cells))
    head = ("#", "model", "rank 95 %", "ahead of #", *(score.title for score in columns))
    return stacked(head, rows, width=width, kept=2, left=(1,), markdown=markdown)


def shown(estimate: Estimate, score: Score) -> str:
    """Return a score with its 95 % interval; CE in percent, as the field writes it."""
    ends = interval_text(estimate.interval95, score.decimals - 1, score.scale)
    return f"{score.scale * estimate.value:.{score.decimals}f} ({ends})"


def rankings_tables(
    rankings: Sequence[Rankings], width: int, markdown: bool = False
) -> Iterator["Table"]:
    """Yield every model's rank in each way of ranking, a line per corruption or metric."""
    from rich.markup import escape

    ways = list(dict.fromkeys(way for comparison in rankings for way in comparison.ranks))
    models = list(rankings[0].ranks[ways[0]].ranks)
    rows = []
    for comparison in rankings:
        cells = [
            " / ".join(f"{ranking.ranks[model]:g}" for ranking in comparison.ranks.values())
            for model in models
        ]
        rows.append((_ranked_by(comparison), *cells, str(len(comparison.swaps))))
    head = (f"rank by {' / '.join(ways)}", *map(escape, short_names(models)), "pairs swapped")
    return stacked(head, rows, width=width, markdown=markdown)


def swap_lines(rankings: Sequence[Rankings]) -> list[str]:
    """Return a sentence for each two models that two ways put in opposite orders beyond chance."""
    models = dict.fromkeys(
        name
        for comparison in rankings
        for name in comparison.ranks[next(iter(comparison.ranks))].ranks
    )
    short = dict(zip(models, short_names(list(models)), strict=True))
    return [
        f"{_ranked_by(comparison)}: {one} puts {short[swap.first]} before"
        f" {short[swap.second]}, {two} behind it."
        for comparison in rankings
        for one, two, swap in comparison.swaps
        if comparison.is_sure(swap)
    ]


def _ranked_by(rankings: Rankings) -> str:
    """Return the title of the score, or the corruption, that models are ranked under."""
    return SCORES[rankings.subject].title if rankings.subject in SCORES else rankings.subject


def coverage_table(discrete: Discrete, markdown: bool = False) -> "Table":
    """Return the share of Δv that both test sets cover, by corruption."""
    rows = [
        (name, _share(fixed), _share(continuous))
        for name, (fixed, continuous) in discrete.coverage.items()
    ]
    head = ("Δv covered", "ImageNet-C", "VCR")
    return next(stacked(head, rows, width=80, markdown=markdown))


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def comparison_texts(
    boards: Sequence[Standings], discrete: Discrete | None, benchmarks: Sequence[Rankings]
) -> dict[str, str]:
    """Return leaderboard.csv, pairs.csv and, where rankings were compared, rankings.json."""
    texts = {
        "leaderboard.csv": csv_text(_leaders(boards)),
        "pairs.csv": csv_text(_pairs(boards)),
    }
    if discrete is not None or benchmarks:
        collected = {
            "corruptions": [] if discrete is None else list(map(_plain, discrete.corruptions)),
            "coverage": {} if discrete is None else _coverage(discrete),
            "benchmarks": list(map(_plain, benchmarks)),
        }
        texts["rankings.json"] = json.dumps(collected, indent=1, allow_nan=False) + "\n"
    return texts


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files by name into a folder, which is made if it is missing; return their paths."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"Cannot write into {folder}: it is a file, not a folder.")
    written = []
    for name, text in texts.items():
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
        written.append(path)
    return written


def _leaders(boards: Sequence[Standings]) -> Iterator[dict[str, Any]]:
    for standings in boards:
        for model in standings.order:
            low, high = standings.ranks.intervals[model]
            line: dict[str, Any] = {
                "suite": standings.board.suite,
                "space": standings.space,
                "pictures": standings.board.pictures(standings.space),
                "note": standings.verdict,
                "baseline": standings.board.baseline,
                "model": model,
                "trained_on": ", ".join(standings.board.marked(model)),
                "ranked_by": standings.by,
                "rank": standings.ranks.ranks[model],
                "rank_low95": low,
                "rank_high95": high,
            }
            for score in LEADERBOARD:
                name = score.name
                estimate = standings.scores.get(name, {}).get(model)
                cells: tuple[float | None, ...] = (None, None, None)
                if estimate is not None:
                    cells = (estimate.value, *estimate.interval95)
                names = (name, f"{name}_low95", f"{name}_high95")
                line |= {
                    key: None if (number := known(cell)) is None else round(number, 6)
                    for key, cell in zip(names, cells, strict=True)
                }
            yield line


def _pairs(boards: Sequence[Standings]) -> Iterator[dict[str, Any]]:
    for standings in boards:
        for pair in standings.pairs:
            low, high = map(known, pair.interval)
            values = {name: value for name, value in asdict(pair).items() if name != "interval"}
            yield {
                "suite": standings.board.suite, "space": standings.space, "score": standings.by,
                **values, "low95": low, "high95": high, "note": standings.verdict,
            }  # fmt: skip


def csv_text(lines: Iterator[dict[str, Any]]) -> str:
    """Return lines with the same keys as CSV, the keys as its head."""
    rows = list(lines)
    file = StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _plain(rankings: Rankings) -> dict[str, Any]:
    return {
        "what": rankings.subject,
        "ways": {
            way: {
                model: {"value": estimate.value, "rank": rankings.ranks[way].ranks[model]}
                for model, estimate in scores.items()
            }
            for way, scores in rankings.scores.items()
        },
        "kendall_tau": {
            f"{one} / {two}": None if math.isnan(tau) else tau
            for one, two in combinations(rankings.ranks, 2)
            if (tau := kendall_tau(rankings.ranks[one], rankings.ranks[two])) is not None
        },
        "swaps": [
            {
                "ways": [one, two],
                "models": [swap.first, swap.second],
                "significant": rankings.is_sure(swap),
            }
            for one, two, swap in rankings.swaps
        ],
    }


def _coverage(discrete: Discrete) -> dict[str, dict[str, float | None]]:
    return {
        name: {
            "imagenet-c": None if math.isnan(fixed) else fixed,
            "vcr": None if math.isnan(continuous) else continuous,
        }
        for name, (fixed, continuous) in discrete.coverage.items()
    }
