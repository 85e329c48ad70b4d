"""Compared runs and published results as tables for the terminal, and as rows of files."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING

from eyechart.core.csv_table import csv_text
from eyechart.corruptions.suites.suite import split_variant
from eyechart.pipeline.scoring.caveats import MARK
from eyechart.reports.number_text import MISSING, bracketed_text, known, rank_text
from eyechart.reports.series.model_scores import swap_sentences
from eyechart.reports.terminal.columns import stacked
from eyechart.reports.titles import short_names, short_space
from eyechart.results.published_results import PublishedModel, PublishedTable
from eyechart.results.ranking_comparison import PublishedRanking, Rankings, SeverityComparison
from eyechart.results.standings import Standings
from eyechart.scores.registry import IN_TERMINAL, LEADERBOARD, SCORES, Score
from eyechart.stats.ranking import kendall_tau

if TYPE_CHECKING:
    from rich.table import Table

PAIR_COLUMNS = ("suite", "space", "score", "first", "second", "difference", "p_value", "corrected",
                "low95", "high95")  # fmt: skip
"""Columns of pairs.csv, which has no rows with insufficient data."""

Line = dict[str, object]
"""A row of a CSV file, or an object of a JSON file."""


def board_title(standings: Standings) -> str:
    """Return the title of a leaderboard in one line."""
    board = standings.board
    text = f"{board.suite}, {short_space(standings.space)}, {board.n_images(standings.space)}"
    text += f" images, {'by' if standings.ranks else 'not ranked, sorted by'}"
    text += f" {SCORES[standings.by].title}"
    return f"{text}; baseline {short_names([board.baseline])[0]}" if board.baseline else text


def board_columns(standings: Standings) -> list[Score]:
    """Return the scores that a leaderboard shows, in the order of its columns."""
    main = [score.name for score in LEADERBOARD if score.is_main]
    wanted = (*IN_TERMINAL.get(split_variant(standings.board.suite)[0], main), standings.by)
    return [
        score for score in LEADERBOARD if score.name in standings.scores and score.name in wanted
    ]


def board_tables(standings: Standings, width: int, markdown: bool = False) -> Iterator["Table"]:
    """Yield the models, best first, with intervals; if they are ranked, with significant leads."""
    from rich.markup import escape

    columns = board_columns(standings)
    positions = {name: str(index + 1) for index, name in enumerate(standings.order)}
    rows = []
    for model, short in zip(standings.order, short_names(standings.order), strict=True):
        behind = ", ".join(positions[name] for name in standings.worse_than(model)) or MISSING
        cells = [bracketed_text(standings.scores[score.name][model], score) for score in columns]
        mark = f" {MARK}" if standings.board.marked(model) else ""
        name = escape(short) + mark
        if standings.ranks is None:
            rows.append((name, *cells))
            continue
        ranks = rank_text(standings.ranks.intervals[model])
        rows.append((positions[model], name, ranks, behind, *cells))
    titles = [score.title for score in columns]
    if standings.ranks is None:
        return stacked(("model", *titles), rows, width=width, markdown=markdown)
    head = ("#", "model", "rank 95 %", "ahead of #", *titles)
    return stacked(head, rows, width=width, kept=2, left=(1,), markdown=markdown)


def rankings_tables(
    rankings: Sequence[Rankings], width: int, markdown: bool = False
) -> Iterator["Table"]:
    """Yield tables of each model's rank by every method, with a row per corruption or metric."""
    from rich.markup import escape

    ways = list(dict.fromkeys(way for comparison in rankings for way in comparison.ranks))
    models = list(rankings[0].ranks[ways[0]].ranks)
    rows = []
    for comparison in rankings:
        cells = [
            " / ".join(f"{ranking.ranks[model]:g}" for ranking in comparison.ranks.values())
            for model in models
        ]
        rows.append((_ranked_by(comparison.subject), *cells, str(len(comparison.swaps))))
    head = (f"rank by {' / '.join(ways)}", *map(escape, short_names(models)), "pairs swapped")
    return stacked(head, rows, width=width, markdown=markdown)


def swap_lines(rankings: Sequence[Rankings]) -> list[str]:
    """Return a sentence for each pair of models whose order significantly depends on the method."""
    models = list(
        dict.fromkeys(
            name
            for comparison in rankings
            for name in comparison.ranks[next(iter(comparison.ranks))].ranks
        )
    )
    short = dict(zip(models, short_names(models), strict=True))
    return list(swap_sentences(rankings, short, title=_ranked_by, way_title=str))


def _ranked_by(name: str) -> str:
    """Return the title of a ranking: the score, or the corruption."""
    return SCORES[name].title if name in SCORES else name


def coverage_table(discrete: SeverityComparison, markdown: bool = False) -> "Table":
    """Return a table of the fraction of Δv that each of two test sets covers, by corruption."""
    rows = [
        (name, *(MISSING if math.isnan(share) else f"{share:.3f}" for share in shares))
        for name, shares in discrete.coverage.items()
    ]
    return next(stacked(("Δv covered", "ImageNet-C", "VCR"), rows, width=80, markdown=markdown))


def comparison_texts(
    boards: Sequence[Standings], discrete: SeverityComparison | None, benchmarks: Sequence[Rankings]
) -> dict[str, str]:
    """Return leaderboard.csv, pairs.csv and, if rankings were compared, rankings.json."""
    texts = {
        "leaderboard.csv": csv_text(_leaders(boards)),
        "pairs.csv": csv_text(_pairs(boards), PAIR_COLUMNS),
    }
    if discrete is not None or benchmarks:
        coverage = {} if discrete is None else discrete.coverage
        content = {
            "corruptions": [] if discrete is None else list(map(_plain, discrete.corruptions)),
            "coverage": {
                name: {"imagenet-c": known(fixed), "vcr": known(continuous)}
                for name, (fixed, continuous) in coverage.items()
            },
            "benchmarks": list(map(_plain, benchmarks)),
        }
        texts["rankings.json"] = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return texts


def _leaders(boards: Sequence[Standings]) -> Iterator[Line]:
    # Scores are rounded, ranks are not.
    scores = {f"{score.name}{end}" for score in LEADERBOARD for end in ("", "_low95", "_high95")}
    for standings in boards:
        for row in standings.rows():
            yield {
                name: rounded(value) if name in scores and isinstance(value, float) else value
                for name, value in row.items()
            }


def _pairs(boards: Sequence[Standings]) -> Iterator[Line]:
    for standings in boards:
        for pair in standings.pairs:
            low, high = map(known, pair.interval)
            values = {name: value for name, value in asdict(pair).items() if name != "interval"}
            yield {
                "suite": standings.board.suite, "space": standings.space, "score": standings.by,
                **values, "low95": low, "high95": high,
            }  # fmt: skip


def rounded(value: float | None) -> float | None:
    """Return a number as it is written to CSV files; None stays None."""
    number = known(value)
    return None if number is None else round(number, 6)


def _plain(rankings: Rankings) -> Line:
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
            f"{one} / {two}": known(tau)
            for one, two in combinations(rankings.ranks, 2)
            if (tau := kendall_tau(rankings.ranks[one], rankings.ranks[two])) is not None
        },
        "swaps": [
            {
                "ways": [one, two],
                "models": [swap.first, swap.second],
                "significant": swap.significant,
            }
            for one, two, swap in rankings.swaps
        ],
    }


AREAS = {"human_area_a": "human area_a", "human_area_p": "human area_p"}
PLAIN = {"accuracy": "accuracy", "coverage": "coverage"}
"""Scores of other tasks: accuracy on held-out classes, coverage of Δv."""

PUBLISHED_COLUMNS = {**{score.name: score.title for score in LEADERBOARD}, **AREAS, **PLAIN}
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

    names = [name for name in PUBLISHED_COLUMNS if any(name in row.scores for row in table.models)]
    has_corruptions = any(row.corruption for row in table.models)
    rows = [
        [
            escape(row.model),
            *([row.corruption] if has_corruptions else []),
            *(_published_cell(row, name, table.is_computed) for name in names),
        ]
        for row in table.models
    ]
    head = [
        "model",
        *(["corruption"] if has_corruptions else []),
        *map(PUBLISHED_COLUMNS.get, names),
    ]
    kept = 2 if has_corruptions else 1
    left = tuple(range(kept))
    return stacked([str(name) for name in head], rows, width=width, kept=kept, left=left,
                   markdown=markdown)  # fmt: skip


def ranked_title(ranked: PublishedRanking) -> str:
    """Return a title with the suite, images, score and baseline of a joint ranking."""
    board = ranked.standings.board
    return (
        f"{board.suite} with published results on the same images"
        f" ({ranked.tables[0].image_title}), by {SCORES[ranked.standings.by].title};"
        f" baseline {board.baseline}"
    )


def ranked_rows(ranked: PublishedRanking, width: int, markdown: bool = False) -> Iterator["Table"]:
    """Yield tables of runs (with intervals) and published models in one ranking."""
    from rich.markup import escape

    by = ranked.standings.by
    rows = []
    for row in ranked.rows:
        if row.table is None or row.row is None:
            score = bracketed_text(ranked.standings.scores[by][row.model], SCORES[by])
        else:
            score = _published_cell(row.row, by, row.table.is_computed)
        where = "this run" if row.table is None else f"published: {row.table.name}"
        rows.append([str(row.rank), escape(row.model), score, where])
    head = ("#", "model", SCORES[by].title, "from")
    return stacked(head, rows, width=width, kept=2, left=(1, 3), markdown=markdown)


def published_lines(
    tables: Sequence[PublishedTable], boards: Sequence[PublishedRanking]
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
            yield line | {name: rounded(row.scores.get(name)) for name in PUBLISHED_COLUMNS}


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


def _published_cell(row: PublishedModel, name: str, is_computed: bool) -> str:
    """Return a score with as many decimals as in its source, or two if it was computed."""
    if name not in row.scores:
        return MISSING
    value = row.scores[name]
    if name in SCORES and SCORES[name].is_percent:
        return f"{100 * value:.2f}" if is_computed else f"{round(100 * value, 2):g}"
    # Human areas are derived from numbers with three digits.
    text = f"{value:.3f}" if name in AREAS else f"{value:.4f}"
    return text[:-1] if len(text) == 6 and text.endswith("0") else text
