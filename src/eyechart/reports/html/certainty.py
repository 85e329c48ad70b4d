"""Uncertainty of scores: pairwise tests, error consistency, coverage, similar corruptions."""

from collections.abc import Iterator

from markupsafe import Markup

from eyechart.core.phrases import at_least, plural, verb
from eyechart.reports.html.html_table import (
    MANY,
    NOTHING,
    Column,
    Table,
    TableChoice,
    TableRow,
    chance,
    counted,
    delta,
    estimated,
    hundredths,
    number,
    style_of,
    text_columns,
    with_interval,
)
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title, space_title, suite_title
from eyechart.results.model_results import SimilarPair
from eyechart.scores.registry import PROPERTIES, SCORES
from eyechart.stats.p_values import SIGNIFICANT


def pair_table(section: TestSection, index: int) -> Table | None:
    """Return the paired tests of all pairs of models.

    The result is None if there is only one model, or insufficient data for a test.
    """
    standings = section.standings
    if not standings.pairs:
        return None
    score = SCORES[standings.by]
    style = style_of(score)
    rows = []
    for pair in standings.pairs:
        text = "yes" if pair.corrected < SIGNIFICANT else "no"
        names = (section.short_names[pair.first], section.short_names[pair.second])
        chances = (number(chance, pair.p_value), number(chance, pair.corrected))
        difference = with_interval(style, pair.difference, pair.interval)
        rows.append(TableRow((*names, difference, *chances, text)))
    columns = (
        *text_columns("First", "Second"),
        Column(f"First − second{' (%)' if score.is_percent else ''}"),
        Column("p"),
        Column("p, Holm", hint="corrected for the number of pairs"),
        *text_columns("Different?"),
    )
    caption = f"Paired tests by {score.symbol}, {suite_title(section.suite)}"
    return Table(f"pairs-{index}", caption, columns, tuple(rows), True)


def agreement_table(section: TestSection, index: int) -> Table | None:
    """Return error consistency between models and with humans, or None if it was not computed."""
    rows = []
    for run in section.runs:
        for agreement in run.results.agreements:
            cells = (
                section.short_names.get(agreement.first, agreement.first),
                section.short_names.get(agreement.second, agreement.second),
                space_title(agreement.space),
                estimated(delta, agreement.kappa),
                counted(agreement.trials),
            )
            rows.append(TableRow(cells))
    if not rows:
        return None
    columns = (
        *text_columns("First", "Second", "Classes"),
        Column(
            "κ", hint="1: both err on the same images; 0: no more often than expected by chance"
        ),
        Column("Predictions"),
    )
    caption = f"Error consistency κ, {suite_title(section.suite)}: do both err on the same images?"
    return Table(f"agreement-{index}", caption, columns, tuple(rows), True)


def flow_tables(section: TestSection, index: int) -> Iterator[Table]:
    """Yield the flow of participants of each study with which models were compared."""
    seen = set()
    for run in section.runs:
        for study in run.results.studies:
            # The same study in several runs is shown once.
            if study in seen or not study.flow:
                continue
            seen.add(study)
            rows = tuple(
                TableRow(
                    (
                        f"{step.step}: {step.rule}" if step.rule else step.step,
                        NOTHING if step.count is None else counted(step.count),
                    )
                )
                for step in study.flow
            )
            name = study.study or study.reference
            robots = " (simulated, robots)" if study.simulated else ""
            yield Table(
                f"flow-{index}-{len(seen)}",
                f"Flow of participants, {name}{robots}",
                (*text_columns("Step"), Column("Participants")),
                rows,
            )


def coverage_table(report: Report) -> Table | None:
    """Return the percentage of 39 bins of visual change covered by each test set and corruption."""
    suites = [section for section in report.sections if section.runs[0].coverage]
    if not suites:
        return None
    titles = ("Covered (%)", "Largest Δv", "Samples")
    columns = [*text_columns("Corruption")]
    cells: dict[str, dict[int, list[Markup]]] = {}
    for index, section in enumerate(suites):
        group = suite_title(section.suite) if len(suites) > 1 else ""
        columns += [Column(title, group=group) for title in titles]
        for name, covered in section.runs[0].coverage.items():
            # By title, because suites have different names for one corruption: fog and vcr/fog.
            cells.setdefault(corruption_title(name), {})[index] = [
                number(hundredths, covered.paper),
                number(delta, covered.largest),
                counted(covered.rows),
            ]
    missing = [NOTHING] * len(titles)
    rows = tuple(
        TableRow(
            (title, *(c for index in range(len(suites)) for c in by_suite.get(index, missing)))
        )
        for title, by_suite in cells.items()
    )
    fewest = at_least([section.runs[0].fewest_in_covered for section in suites], "sample")
    caption = f"Percentage of 39 equal bins of visual change with {fewest}"
    return Table("coverage", caption, tuple(columns), rows, True)


def similar_tables(section: TestSection, index: int) -> Iterator[TableChoice]:
    """Yield a table for each model: how its scores differ between corruptions that look alike."""
    for space in section.spaces:
        for model in section.models:
            scores = model.space(space)
            if scores is not None and scores.similar:
                pairs = scores.similar
                if len(section.models) > MANY:
                    # Those whose HMRI or MRSI differs significantly: its interval excludes 0.
                    pairs = tuple(
                        pair
                        for pair in pairs
                        if any(
                            low > 0 or high < 0
                            for low, high in (pair.hmri_interval, pair.mrsi_interval)
                        )
                    )
                left = len(scores.similar) - len(pairs)
                table = Table(
                    f"similar-{index}-{space}-{model.run}-{model.index}",
                    f"{model.short} under corruptions that look alike to humans"
                    f" ({space_title(space)})",
                    (
                        *text_columns("First", "Second", "Of"),
                        Column(
                            "Humans", numeric=False, hint="whether one human curve is used for both"
                        ),
                        Column("HMRI, first − second"),
                        Column("MRSI, first − second"),
                        *text_columns("Significantly different at Δv"),
                    ),
                    tuple(map(_similar_row, pairs)),
                    True,
                    (
                        f"{left} more corruption {plural(left, 'pair')}"
                        f" {verb(left, 'does')} not differ significantly."
                        if left
                        else ""
                    ),
                )
                yield model.short, table


def _similar_row(pair: SimilarPair) -> TableRow:
    ranges = (
        Markup("{}–{}: {} higher").format(
            number(delta, lead.start), number(delta, lead.end), lead.who
        )
        for lead in pair.ranges
    )
    hmri, mrsi = (style_of(SCORES[f"{name}_{pair.property}"]) for name in ("hmri", "mrsi"))
    return TableRow(
        (
            corruption_title(pair.first),
            corruption_title(pair.second),
            PROPERTIES[pair.property],
            "one curve" if pair.human_curves == 1 else "both corruptions",
            with_interval(hmri, pair.delta_hmri, pair.hmri_interval),
            with_interval(mrsi, pair.delta_mrsi, pair.mrsi_interval),
            Markup("; ").join(ranges) or NOTHING,
        )
    )
