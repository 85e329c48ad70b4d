"""Corruption errors as LaTeX tables, grouped noise, blur, weather, digital."""

from functools import partial

from eyechart.pipeline.trained_on import MEANING
from eyechart.reports.figures.error_figure import Errors, errors_of
from eyechart.reports.figures.latex import MADE, plain, row, tex, upright
from eyechart.reports.figures.plan import Plan, Plans, suite_words
from eyechart.reports.series.report import Report
from eyechart.reports.words import groups_of, title_below
from eyechart.results.schema import Estimate

QUERY = "$^?$"
UNSURE = "its 95 percent interval is undetermined, for the baseline may have no error to divide by"


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


def _errors(errors: Errors, relative: bool) -> dict[str, Estimate]:
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
        *([f"% {QUERY}: {UNSURE}."] if _has_undetermined(errors, relative) else []),
        r"\begin{tabular}{" + " ".join(["lrr", *("r" * len(own) for _, own in groups)]) + "}",
        r"\toprule",
        *_group_lines(groups),
        row([*head, *(upright(title_below(group, name)) for group, own in groups for name in own)]),
        r"\midrule",
    ]
    for model, space, own in errors:
        clean = space.clean_accuracy
        error = None if clean is None or clean.value is None else 1 - clean.value
        mean = own.relative_mce if relative else own.mce
        found = _errors((model, space, own), relative)
        over = [name for name in columns if name in model.model.marked]
        cells = [_cell(error, 1), _number(mean, 1, bool(over))]
        cells += [_number(found.get(name), 0, name in over) for name in columns]
        lines.append(row([tex(model.short), *cells]))
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
    return [row(cells), "".join(rules)]


def _cell(share: float | None, decimals: int, is_marked: bool = False) -> str:
    if share is None:
        return "--"
    return f"{100 * share:.{decimals}f}" + (r"$^\dagger$" if is_marked else "")


def _number(number: Estimate | None, decimals: int, is_marked: bool) -> str:
    if number is None or number.value is None:
        return _cell(None, decimals)
    return _cell(number.value, decimals, is_marked) + (QUERY if _is_undetermined(number) else "")


def _is_undetermined(number: Estimate | None) -> bool:
    return number is not None and None in number.interval95


def _has_undetermined(errors: list[Errors], relative: bool) -> bool:
    means = (own.relative_mce if relative else own.mce for *_, own in errors)
    scores = (number for own in errors for number in _errors(own, relative).values())
    return any(map(_is_undetermined, (*means, *scores)))
