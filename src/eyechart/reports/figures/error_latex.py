"""Corruption errors as LaTeX tables, grouped noise, blur, weather, digital."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from eyechart.pipeline.caveats import MEANING
from eyechart.reports.figures.drawings import Drawing, Drawings, suite_words
from eyechart.reports.figures.latex import MADE, plain, row, tex, upright
from eyechart.reports.series.model_errors import (
    ErrorColumn,
    ErrorScores,
    error_columns,
    errors_of,
)
from eyechart.reports.series.report import Report
from eyechart.stats.estimate import Estimate

QUERY = "$^?$"
UNSURE = "its 95 percent interval is undetermined, for the baseline may have no error to divide by"


def plan_tables(report: Report) -> Drawings:
    """Return the tables of CE and of relative CE of each test that has them."""
    drawings = []
    for part in report.parts:
        rows = errors_of(part)
        for relative, name in ((False, "corruption-errors"), (True, "relative-corruption-errors")):
            if any(row.by_corruption(relative) for row in rows):
                make = partial(make_table, part.suite, rows, relative)
                words = (name, *suite_words(report, part))
                drawings.append(Drawing(words, _caption(rows, relative), make, (".tex",)))
    return Drawings(tuple(drawings))


def _caption(rows: Sequence[ErrorScores], relative: bool) -> str:
    title = "Relative corruption errors" if relative else "Corruption errors"
    return f"{title} and their mean, in percent of those of {rows[0].errors.baseline}."


def make_table(suite: str, rows: Sequence[ErrorScores], relative: bool) -> str:
    """Return a LaTeX table with a row for each model, best first; numbers are percent."""
    columns = error_columns(suite, rows, relative)
    groups = _groups(columns)
    head = ["Model", "Error", "Rel. mCE" if relative else "mCE"]
    lines = [
        f"{MADE} {plain(_caption(rows, relative))}",
        r"% It needs \usepackage{booktabs} and \usepackage{graphicx}.",
        *([rf"% $^\dagger$: {MEANING}."] if any(row.model.results.marked for row in rows) else []),
        *([f"% {QUERY}: {UNSURE}."] if _has_undetermined(rows, relative) else []),
        r"\begin{tabular}{" + " ".join(["lrr", *("r" * count for _, count in groups)]) + "}",
        r"\toprule",
        *_group_lines(groups),
        row([*head, *(upright(column.title) for column in columns)]),
        r"\midrule",
    ]
    for errors in rows:
        names = [column.corruption for column in columns]
        trained_on = [name for name in names if name in errors.model.results.marked]
        scores = errors.by_corruption(relative)
        cells = [_cell(errors.clean_error, 1), _number(errors.mean(relative), 1, bool(trained_on))]
        cells += [_number(scores.get(name), 0, name in trained_on) for name in names]
        lines.append(row([tex(errors.model.short), *cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _groups(columns: Sequence[ErrorColumn]) -> list[tuple[str, int]]:
    """Return the groups of neighbouring columns, and how many columns each spans."""
    groups = groupby(columns, key=lambda column: column.group)
    return [(group, len(list(members))) for group, members in groups]


def _group_lines(groups: Sequence[tuple[str, int]]) -> list[str]:
    """Return the row of the groups' names and the rules below them; none if there is no group."""
    if not any(group for group, _ in groups):
        return []
    cells, rules, start = ["", "", ""], [], 4
    for group, count in groups:
        end = start + count - 1
        cells.append(rf"\multicolumn{{{count}}}{{c}}{{{tex(group.capitalize())}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
        start = end + 1
    return [row(cells), "".join(rules)]


def _cell(share: float | None, decimals: int, is_marked: bool = False) -> str:
    if share is None:
        return "--"
    return f"{100 * share:.{decimals}f}" + (r"$^\dagger$" if is_marked else "")


def _number(number: Estimate | None, decimals: int, is_marked: bool) -> str:
    if number is None or not number.is_known:
        return _cell(None, decimals)
    return _cell(number.value, decimals, is_marked) + (QUERY if _is_undetermined(number) else "")


def _is_undetermined(number: Estimate | None) -> bool:
    return number is not None and not number.has_interval


def _has_undetermined(rows: Sequence[ErrorScores], relative: bool) -> bool:
    means = (row.mean(relative) for row in rows)
    scores = (score for row in rows for score in row.by_corruption(relative).values())
    return any(map(_is_undetermined, (*means, *scores)))
