"""LaTeX tables: escaped text, a score by corruption, leaderboards, and overlap studies."""

import re
from collections.abc import Iterable, Mapping, Sequence

from eyechart.core.arguments import as_text
from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.registry import unknown_name
from eyechart.overlap.benchmarks import Balance, DirectTest
from eyechart.pipeline.scoring.caveats import MEANING
from eyechart.reports.number_text import (
    MISSING,
    bracketed_text,
    estimate_text,
    estimate_texts,
    rank_text,
)
from eyechart.reports.terminal.leaderboard import board_columns, board_title
from eyechart.reports.titles import corruption_title, short_names, short_space
from eyechart.results.ranking_comparison import Rankings
from eyechart.results.schema import Results
from eyechart.results.standings import Standings
from eyechart.scores.registry import DECLARED, SCORES, Score
from eyechart.stats.estimate import Estimate

MADE_BY = "% Made by eyechart."
"""First words of every table, by which files written by eyechart are recognized."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
LAST = 0x17F
"""Last code point that LaTeX typesets without additional packages."""


def table_file(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1
) -> str:
    """Return a table whose header and rows are already LaTeX, ready to be included.

    `n_text` is the number of left-aligned columns; the columns after them are right-aligned.
    """
    columns = "l" * n_text + "r" * (len(rows[0]) - n_text)
    needs = r"% This table needs \usepackage{booktabs}."
    return "\n".join([f"{MADE_BY} {plain(caption)}", needs, *tabular(columns, heads, rows), ""])


def captioned(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of one text column and numbers, below its caption as a comment."""
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join([f"% {plain(caption)}", *tabular(columns, heads, rows)])


def tabular(columns: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return only the lines of the tabular environment."""
    return [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *heads,
        r"\midrule",
        *map(table_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def upright(text: str) -> str:
    """Return text rotated by 90°, for narrow columns."""
    return rf"\rotatebox{{90}}{{{tex(text)}}}"


def table_line(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return " & ".join(cells) + r" \\"


def tex(text: str) -> str:
    """Return text escaped for LaTeX; unsupported characters become "?"."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in plain(text))
    # Two hyphens would be typeset as a dash.
    return re.sub(r"-(?=-)", "-{}", escaped)


def plain(text: str) -> str:
    """Return text on one line, without characters that LaTeX does not support."""
    return "".join(
        letter if ord(letter) <= LAST and letter.isprintable() else "?"
        for letter in " ".join(text.split())
    )


def score_latex(results: Results, name: str, space: str | None) -> str:
    """Return a table with a row per corruption, a row for their mean, and a column per model.

    Raises:
        UsageError: If the score or the label space is unknown, or no model has the score.
    """
    known = [score.name for score in DECLARED if not score.of_test]
    if as_text(name, "score") not in known:
        raise unknown_name("score of a corruption", name, known)
    score = SCORES[name]
    space = next(iter(results.models[0].spaces)) if space is None else space
    spaces = [model.space(space) for model in results.models]
    corruptions = [name for name in spaces[0] if any(score.name in s[name].scores for s in spaces)]
    if not corruptions:
        raise UsageError(
            f"These results have no {score.name} in the label space {space}: it needs"
            f" {', '.join(score.needs)}."
        )
    rows = []
    for corruption in corruptions:
        estimates = (space[corruption].scores.get(score.name) for space in spaces)
        cells = (_cell(estimate, score) for estimate in estimates)
        rows.append([tex(corruption_title(corruption)), *cells])
    # The mean of CE has a name of its own, mCE.
    mean = score.mean or score.name
    means = [found.scores.get(mean) for found in spaces]
    if any(estimate is not None for estimate in means):
        title = SCORES[score.mean].title if score.mean else "Mean"
        rows.append([tex(title), *(_cell(estimate, score) for estimate in means)])
    models = short_names([model.name for model in results.models])
    caption = (
        f"{score.title} under {results.config.suite}, {short_space(space)},"
        f" {spaces[0].n_images} {plural(spaces[0].n_images, 'image')}; 95 % confidence intervals in"
        " parentheses."
    )
    head = table_line(["Corruption", *map(tex, models)])
    return table_file(caption, [head], rows)


def _cell(estimate: Estimate | None, score: Score) -> str:
    if estimate is None:
        return "--"
    value, interval = estimate_texts(estimate, score)
    text = f"{value} ({interval})" if interval else value
    # The sign for a missing number and the dash of an interval are both an en dash.
    return text.replace(MISSING, "--").replace(">", "$>$")


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
        scores = [bracketed_text(standings.scores[score.name][model], score) for score in columns]
        if standings.ranks is not None:
            scores.insert(0, rank_text(standings.ranks.intervals[model]))
        rows.append([tex(short) + mark, *map(_number, scores)])
    heads = [
        *([] if standings.ranks is None else [r"Rank (95\,\%)"]),
        *(tex(score.title) for score in columns),
    ]
    caption = f"{board_title(standings)}; 95 % confidence intervals in parentheses. "
    head = table_line(["Model", *heads])
    return captioned(caption + standings.verdict.capitalize(), [head], rows)


def _both_benchmarks(benchmarks: Sequence[Rankings]) -> str:
    """Return a row per model with each metric on both benchmarks."""
    scores = [SCORES[ranking.subject] for ranking in benchmarks]
    suites = list(benchmarks[0].scores)
    models = list(benchmarks[0].scores[suites[0]])
    spans = [rf"\multicolumn{{{len(suites)}}}{{c}}{{{tex(score.title)}}}" for score in scores]
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
    return captioned(f"The same models on {' and '.join(suites)}.", heads, rows)


def _number(text: str) -> str:
    """Return a number or an interval with LaTeX dashes."""
    # The sign for a missing number and the dash of an interval are both an en dash.
    return text.replace(MISSING, "--")


def coverage_latex(tests: Sequence[tuple[str, DirectTest]]) -> str:
    """Return a table for each direct test (Table 1 of the paper), given pairs of suite and test."""
    parts = []
    for suite, test in tests:
        mean, standard = test.means
        rows = [
            _errors_row("standard", test.clean[1], test.standard, standard),
            _errors_row(test.trained_on, test.clean[0], test.errors, mean),
        ]
        title = "Relative CE" if test.relative else "CE"
        parts.append(
            captioned(
                f"{title} on {suite}, as percentages of {test.baseline.name}'s errors. {test.note}",
                [_errors_head(test.errors, test.relative)],
                rows,
            )
        )
    return _file(parts)


def balance_latex(balances: Sequence[tuple[str, Balance]]) -> str:
    """Return two tables for each balance: model mCEs (Table 2) and all errors (Tables 7 and 8)."""
    parts = []
    for suite, balance in balances:
        models = balance.benchmark
        means = [
            _mean_title(balance.relative),
            *(_percent(balance.means[name], 0) for name in models),
        ]
        parts.append(
            captioned(
                f"{balance.title} on {suite} of models trained on one corruption each; standard"
                f" deviation {_percent(balance.deviation, 1)},"
                f" range {_percent(balance.range, 0)}.",
                [table_line(["", *_upright_titles(models)])],
                [means],
            )
        )
        rows = [
            _errors_row(model, balance.clean[model], errors, balance.means[model])
            for model, errors in balance.errors.items()
        ]
        title = "Relative CE" if balance.relative else "CE"
        parts.append(
            captioned(
                f"{title} on {suite}; rows: trained on, columns: tested on. {balance.note}",
                [_errors_head(models, balance.relative)],
                rows,
            )
        )
    return _file(parts)


def _mean_title(is_relative: bool) -> str:
    return "Rel. mCE" if is_relative else "mCE"


def _errors_row(
    model: str, clean: float, errors: Mapping[str, float], mean: float
) -> Sequence[str]:
    # all:BENCHMARK names a benchmark, not a corruption.
    title = model if ":" in model or model == "standard" else corruption_title(model)
    cells = (_percent(value, 0) for value in errors.values())
    return [tex(title), f"{clean:.3f}", *cells, _percent(mean, 0)]


def _percent(share: float, decimals: int) -> str:
    return f"{100 * share:.{decimals}f}"


def _errors_head(corruptions: Iterable[str], is_relative: bool) -> str:
    return table_line(["", "Clean", *_upright_titles(corruptions), _mean_title(is_relative)])


def _upright_titles(corruptions: Iterable[str]) -> list[str]:
    return [upright(corruption_title(name)) for name in corruptions]


def _file(parts: Sequence[str]) -> str:
    needed = r"% The tables need \usepackage{booktabs} and \usepackage{graphicx}."
    return "\n\n".join([f"{MADE_BY} Tables of an overlap study.\n{needed}", *parts]) + "\n"
