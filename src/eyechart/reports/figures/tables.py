"""Corruption errors as LaTeX tables, grouped noise, blur, weather, digital."""

import re
from functools import partial

from eyechart.evaluation.saved import Number
from eyechart.evaluation.trained_on import MEANING
from eyechart.reports.figures.errors import Errors, errors_of
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.report import Report
from eyechart.reports.words import groups_of, title_below

MADE = "% Made by eyechart."
"""The first words of a table of ours, so that nobody else's file is taken for one."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
LAST = 0x17F
"""The last letter that LaTeX sets without further packages."""


def plan_tables(report: Report) -> Plans:
    """Return the tables of CE and of relative CE of each test that has them."""
    plans = []
    for part in report.parts:
        errors = errors_of(part)
        for relative, name in ((False, "corruption-errors"), (True, "relative-corruption-errors")):
            if any(_errors(own, relative) for own in errors):
                make = partial(make_table, part.suite, errors, relative)
                words = (name, *suite_words(report, part))
                plans.append(Plan(words, _caption(errors, relative), make, (".tex",)))
    return Plans(tuple(plans))


def _caption(errors: list[Errors], relative: bool) -> str:
    baseline = errors[0][2].baseline
    what = "Relative corruption errors" if relative else "Corruption errors"
    return f"{what} and their mean, in percent of those of {baseline}."


def _errors(errors: Errors, relative: bool) -> dict[str, Number]:
    own = errors[2]
    return dict(own.relative_ce if relative else own.ce)


def make_table(suite: str, errors: list[Errors], relative: bool) -> str:
    """Return a LaTeX table with a row for each model, best first; numbers are percent."""
    names = list(dict.fromkeys(name for own in errors for name in _errors(own, relative)))
    groups = groups_of(suite, names)
    columns = [name for _, members in groups for name in members]
    head = ["Model", "Error", "Rel. mCE" if relative else "mCE"]
    lines = [
        f"{MADE} {plain(_caption(errors, relative))}",
        r"% It needs \usepackage{booktabs} and \usepackage{graphicx}.",
        *([rf"% $^\dagger$: {MEANING}."] if any(own[0].model.marked for own in errors) else []),
        r"\begin{tabular}{" + " ".join(["lrr", *("r" * len(own) for _, own in groups)]) + "}",
        r"\toprule",
        *_group_lines(groups),
        _row(
            [*head, *(_upright(title_below(group, name)) for group, own in groups for name in own)]
        ),
        r"\midrule",
    ]
    for model, space, own in errors:
        clean = space.clean_accuracy
        error = None if clean is None or clean.value is None else 1 - clean.value
        mean = own.relative_mce if relative else own.mce
        found = _errors((model, space, own), relative)
        over = [name for name in columns if name in model.model.marked]
        cells = [_cell(error, 1), _cell(None if mean is None else mean.value, 1, bool(over))]
        cells += [
            _cell(found[name].value if name in found else None, 0, name in over) for name in columns
        ]
        lines.append(_row([tex(model.short), *cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _group_lines(groups: list[tuple[str, list[str]]]) -> list[str]:
    """Return the row of the groups' names and the rules below them; none if there is no group."""
    if not any(group for group, _ in groups):
        return []
    cells, rules, start = ["", "", ""], [], 4
    for group, own in groups:
        end = start + len(own) - 1
        cells.append(rf"\multicolumn{{{len(own)}}}{{c}}{{{tex(group.capitalize())}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{end}}}")
        start = end + 1
    return [_row(cells), "".join(rules)]


def _upright(text: str) -> str:
    return rf"\rotatebox{{90}}{{{tex(text)}}}"


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(share: float | None, decimals: int, is_marked: bool = False) -> str:
    if share is None:
        return "--"
    return f"{100 * share:.{decimals}f}" + (r"$^\dagger$" if is_marked else "")


def tex(text: str) -> str:
    """Return text as LaTeX sets it, whatever is in it; letters that it has not become "?"."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in plain(text))
    # two hyphens would be set as a dash
    return re.sub(r"-(?=-)", "-{}", escaped)


def plain(text: str) -> str:
    """Return text in one line, without letters that LaTeX does not have."""
    return "".join(
        letter if ord(letter) <= LAST and letter.isprintable() else "?"
        for letter in " ".join(text.split())
    )
