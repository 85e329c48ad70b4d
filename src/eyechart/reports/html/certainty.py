"""How sure the scores are: tests of pairs, error consistency, coverage, corruptions alike."""

from collections.abc import Iterator

from markupsafe import Markup

from eyechart.reports.html.cells import (
    NOTHING,
    Estimated,
    Numbers,
    chance,
    compared,
    count,
    delta,
    hundredths,
    score,
    style_of,
)
from eyechart.reports.html.html_table import MANY, Column, Table, TableChoice, TableRow
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.words import (
    corruption_title,
    listed,
    space_title,
    suite_title,
)
from eyechart.results.model_results import SimilarPair
from eyechart.scores.registry import PROPERTIES, SCORES

LEVEL = 0.05


def pair_table(part: Part, index: int) -> Table | None:
    """Return the paired tests of every two models, None where there is one only."""
    standings = part.standings
    if not standings.pairs:
        return None
    short = {model.name: model.short for model in part.models}
    style = style_of(SCORES[standings.by])
    rows = []
    for pair in standings.pairs:
        clear = pair.corrected < LEVEL and not standings.verdict
        text = "yes" if clear else "no claim" if standings.verdict else "no"
        difference = Estimated(
            compared(style, pair.difference), *(compared(style, end) for end in pair.interval)
        )
        names = (short[pair.first], short[pair.second])
        chances = (compared(chance, pair.p_value), compared(chance, pair.corrected))
        rows.append(TableRow((*names, difference, *chances, text)))
    unit = " (%)" if style is hundredths else ""
    columns = (
        Column("First", numeric=False),
        Column("Second", numeric=False),
        Column(f"First less second{unit}"),
        Column("p"),
        Column("p, Holm", hint="corrected for the number of pairs"),
        Column("Different?", numeric=False),
    )
    caption = f"Paired tests by {SCORES[standings.by].symbol}, {suite_title(part.suite)}"
    return Table(f"pairs-{index}", caption, columns, tuple(rows), True, standings.verdict)


def agreement_table(report: Report, part: Part, index: int) -> Table | None:
    """Return error consistency of every two models and of models with people, if it was found."""
    short = {model.name: model.short for model in part.models}
    rows = []
    for run in part.runs:
        numbers = Numbers(report.runs.index(run), run.results)
        for number, agreement in enumerate(run.results.agreements):
            cells = (
                short.get(agreement.first, agreement.first),
                short.get(agreement.second, agreement.second),
                space_title(agreement.space),
                numbers.estimate(delta, "agreements", number, "kappa"),
                numbers.cell(count, "agreements", number, "trials"),
            )
            rows.append(TableRow(cells))
    if not rows:
        return None
    columns = (
        Column("First", numeric=False),
        Column("Second", numeric=False),
        Column("Classes", numeric=False),
        Column("κ", hint="1: both err on the very same pictures; 0: as often as chance has it"),
        Column("Answers"),
    )
    caption = f"Error consistency κ, {suite_title(part.suite)}: do two err on the same pictures?"
    return Table(f"agreement-{index}", caption, columns, tuple(rows), True)


def coverage_table(report: Report) -> Table | None:
    """Return the share of 39 bins of visual change that each test set fills, by corruption."""
    suites = [part for part in report.parts if part.runs[0].results.coverage]
    if not suites:
        return None
    collected: dict[str, dict[int, tuple[Numbers, str]]] = {}
    for index, part in enumerate(suites):
        numbers = Numbers(report.runs.index(part.runs[0]), part.runs[0].results)
        for name in numbers.results.coverage:
            collected.setdefault(corruption_title(name), {})[index] = (numbers, name)
    columns = [Column("Corruption", numeric=False)]
    for part in suites:
        title = suite_title(part.suite) if len(suites) > 1 else ""
        columns += [
            Column("Covered (%)", group=title),
            Column("Largest Δv", group=title),
            Column("Pictures", group=title),
        ]
    rows = []
    for title, by_suite in collected.items():
        cells = [
            cell
            for index in range(len(suites))
            for cell in (_covered(*by_suite[index]) if index in by_suite else (NOTHING,) * 3)
        ]
        rows.append(TableRow((title, *cells)))
    least = listed(list(dict.fromkeys(f"{part.runs[0].config.fit.least:g}" for part in suites)))
    caption = f"Share of 39 equal bins of visual change with at least {least} pictures"
    return Table("coverage", caption, tuple(columns), tuple(rows), True)


def _covered(numbers: Numbers, name: str) -> tuple[object, ...]:
    styles = ((hundredths, "paper"), (delta, "largest"), (count, "rows"))
    return tuple(numbers.cell(style, "coverage", name, field) for style, field in styles)


def similar_tables(report: Report, part: Part, index: int) -> list[TableChoice]:
    """Return for each model how its scores differ between corruptions that look alike."""
    collected = []
    for space in part.spaces:
        for model in part.models:
            scores = model.space(space)
            if scores is not None and scores.similar:
                has_all = len(part.models) <= MANY
                table = _similar(report, model, space, index, has_all)
                collected.append(TableChoice(model.short, table))
    return collected


def _similar(report: Report, model: ModelEntry, space: str, index: int, has_all: bool) -> Table:
    """Return the table of a model: all pairs, or those that differ by more than chance."""
    numbers = Numbers(model.run, report.runs[model.run].results)
    scores = model.space(space)
    assert scores is not None
    home = ("models", model.index, "spaces", space, "similar")
    rows = tuple(
        TableRow(
            (
                corruption_title(pair.first),
                corruption_title(pair.second),
                PROPERTIES[pair.property],
                "one curve" if pair.human_curves == 1 else "both corruptions",
                _difference(numbers, (*home, number), "hmri"),
                _difference(numbers, (*home, number), "mrsi"),
                Markup("; ").join(_ranges(numbers, pair, (*home, number))) or NOTHING,
            )
        )
        for number, pair in enumerate(scores.similar)
        if has_all or _is_clear(pair)
    )
    columns = (
        Column("First", numeric=False),
        Column("Second", numeric=False),
        Column("Of", numeric=False),
        Column("Humans", numeric=False, hint="whether one human curve stands for both"),
        Column("HMRI, first less second"),
        Column("MRSI, first less second"),
        Column("Clearly apart at Δv", numeric=False),
    )
    caption = f"{model.short} under corruptions that look alike to people ({space_title(space)})"
    left = len(scores.similar) - len(rows)
    note = f"{left} more pairs do not differ by more than chance." if left else ""
    identity = f"similar-{index}-{space}-{model.run}-{model.index}"
    return Table(identity, caption, columns, rows, True, note)


def _is_clear(pair: SimilarPair) -> bool:
    """Return whether no difference is outside of the interval of HMRI or of MRSI."""
    ends = (pair.hmri_interval, pair.mrsi_interval)
    return any(low > 0 or high < 0 for low, high in ends)


def _difference(numbers: Numbers, path: tuple[str | int, ...], name: str) -> object:
    value = numbers.cell(score, *path, f"delta_{name}")
    ends = [numbers.cell(score, *path, f"{name}_interval", end) for end in (0, 1)]
    return Estimated(value, *ends)


def _ranges(numbers: Numbers, pair: SimilarPair, path: tuple[str | int, ...]) -> Iterator[Markup]:
    for index, lead in enumerate(pair.ranges):
        ends = (numbers.cell(delta, *path, "ranges", index, end) for end in ("start", "end"))
        yield Markup("{}–{}: {} higher").format(*ends, lead.who)
