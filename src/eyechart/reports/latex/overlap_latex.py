"""Balance and coverage as LaTeX tables, laid out as in the paper on ImageNet-NOC."""

from collections.abc import Iterable, Mapping, Sequence

from eyechart.overlap.benchmarks import Balance, DirectTest
from eyechart.reports.latex.tex_tables import MADE_BY, plain, table_line, tabular, tex, upright
from eyechart.reports.words import corruption_title

Named = Sequence[tuple[str, Balance]]


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
            _table(
                f"{title} on {suite}, as percentages of {test.baseline.name}'s errors. {test.note}",
                ["", "Clean", *_heads(test.errors), _mean_title(test.relative)],
                rows,
            )
        )
    return _file(parts)


def balance_latex(balances: Named) -> str:
    """Return two tables for each balance: model mCEs (Table 2) and all errors (Tables 7 and 8)."""
    parts = []
    for suite, balance in balances:
        models = balance.benchmark
        means = [
            _mean_title(balance.relative),
            *(_percent(balance.means[name], 0) for name in models),
        ]
        parts.append(
            _table(
                f"{balance.title} on {suite} of models trained on one corruption each; standard"
                f" deviation {_percent(balance.deviation, 1)},"
                f" range {_percent(balance.range, 0)}.",
                ["", *_heads(models)],
                [means],
            )
        )
        rows = [
            _errors_row(model, balance.clean[model], errors, balance.means[model])
            for model, errors in balance.errors.items()
        ]
        title = "Relative CE" if balance.relative else "CE"
        parts.append(
            _table(
                f"{title} on {suite}; rows: trained on, columns: tested on. {balance.note}",
                ["", "Clean", *_heads(models), _mean_title(balance.relative)],
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


def _heads(corruptions: Iterable[str]) -> list[str]:
    return [upright(corruption_title(name)) for name in corruptions]


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = "l" + "r" * (len(head) - 1)
    return "\n".join([f"% {plain(caption)}", *tabular(columns, [table_line(head)], rows)])


def _file(parts: Sequence[str]) -> str:
    needed = r"% The tables need \usepackage{booktabs} and \usepackage{graphicx}."
    return "\n\n".join([f"{MADE_BY} Tables of an overlap study.\n{needed}", *parts]) + "\n"
