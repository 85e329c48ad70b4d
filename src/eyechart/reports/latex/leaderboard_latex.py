"""Compared runs as LaTeX tables: a leaderboard per test set, and two benchmarks side by side."""

from collections.abc import Sequence

from eyechart.pipeline.scoring.caveats import MEANING
from eyechart.reports.latex.tex_tables import MADE_BY, plain, table_line, tabular, tex
from eyechart.reports.number_text import MISSING, estimate_text, rank_text
from eyechart.reports.terminal.leaderboard import board_columns, board_title, bracketed
from eyechart.reports.words import short_names
from eyechart.results.ranking_comparison import Rankings
from eyechart.results.standings import Standings
from eyechart.scores.registry import SCORES, Score


def comparison_latex(boards: Sequence[Standings], benchmarks: Sequence[Rankings]) -> str:
    """Return a table per leaderboard, then a table of both benchmarks as in ImageNet-NOC's Table 3.

    Args:
        boards: Ranked models of each test set.
        benchmarks: Rankings of two benchmarks, one per metric. If empty, the table of
            both benchmarks is omitted.
    """
    parts = [_board(standings) for standings in boards]
    if benchmarks:
        parts.append(_both_benchmarks(benchmarks))
    needed = r"% The tables need \usepackage{booktabs}."
    head = [f"{MADE_BY} Leaderboards of eyechart compare.", needed]
    if any(standings.board.marked(name) for standings in boards for name in standings.order):
        head.append(rf"% $^\dagger$: {MEANING}.")
    return "\n\n".join(["\n".join(head), *parts]) + "\n"


def _board(standings: Standings) -> str:
    columns = board_columns(standings)
    rows = []
    for model, short in zip(standings.order, short_names(standings.order), strict=True):
        mark = r"$^\dagger$" if standings.board.marked(model) else ""
        scores = [bracketed(standings.scores[score.name][model], score) for score in columns]
        if standings.ranks is not None:
            scores.insert(0, rank_text(standings.ranks.intervals[model]))
        rows.append([tex(short) + mark, *map(_number, scores)])
    heads = [*([] if standings.ranks is None else [r"Rank (95\,\%)"]), *map(_title, columns)]
    caption = f"{board_title(standings)}; 95 % confidence intervals in parentheses. "
    columns_of = "l" + "r" * len(heads)
    head = table_line(["Model", *heads])
    return _table(caption + standings.verdict.capitalize(), columns_of, [head], rows)


def _both_benchmarks(benchmarks: Sequence[Rankings]) -> str:
    """Return a row per model with each metric on both benchmarks."""
    scores = [SCORES[ranking.subject] for ranking in benchmarks]
    suites = list(benchmarks[0].scores)
    models = list(benchmarks[0].scores[suites[0]])
    spans = [rf"\multicolumn{{{len(suites)}}}{{c}}{{{_title(score)}}}" for score in scores]
    heads = [
        table_line(["", *spans]),
        table_line(["Model", *[tex(suite) for suite in suites] * len(scores)]),
    ]
    rows = [
        [
            tex(short),
            *(
                _number(estimate_text(ranking.scores[suite][model], score))
                for ranking, score in zip(benchmarks, scores, strict=True)
                for suite in suites
            ),
        ]
        for model, short in zip(models, short_names(models), strict=True)
    ]
    caption = f"The same models on {' and '.join(suites)}."
    return _table(caption, "l" + "r" * len(suites) * len(scores), heads, rows)


def _title(score: Score) -> str:
    # The LaTeX titles of accuracy and consistency scores can be the same.
    return tex(score.title)


def _number(text: str) -> str:
    """Return a number or an interval with LaTeX dashes."""
    # The sign for a missing number and the dash of an interval are both an en dash.
    return text.replace(MISSING, "--")


def _table(caption: str, columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([f"% {plain(caption)}", *tabular(columns, heads, rows)])
