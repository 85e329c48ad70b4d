"""The content of each section of the page, test by test."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from eyechart.core.phrases import plural
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.html.breakdown import breakdowns
from eyechart.reports.html.cells import NumberCell, Numbers, count, counted
from eyechart.reports.html.certainty import (
    agreement_table,
    flow_tables,
    pair_table,
    similar_tables,
)
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.report_charts import Placing
from eyechart.reports.html.embedded_images import Key
from eyechart.reports.html.error_tables import condition_table, error_tables
from eyechart.reports.html.example_strips import Strip, strip_of
from eyechart.reports.html.html_table import Table, TableChoice
from eyechart.reports.html.leaderboard_table import leaderboard, summary_table
from eyechart.reports.html.model_summary import ModelSummary, summarize
from eyechart.reports.html.overview import bounds, overviews
from eyechart.reports.html.verdict import Verdict, about_humans, verdict_on
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import (
    NO_REFERENCE,
    corruption_title,
    human_source,
    listed,
    suite_title,
)


@dataclass(frozen=True)
class Panel:
    """One corruption: its charts and example strip. `note`: which models were trained on it.

    `humans`: the human reference that models are compared with; "" for no reference.
    `conditions`: accuracy at single conditions, such as quarter turns.
    """

    id: str
    title: str
    suite: str
    charts: tuple[Chart, ...]
    human_charts: tuple[Chart, ...]
    strip: Strip
    note: str
    humans: str
    conditions: Table | None


@dataclass(frozen=True)
class PartView:
    """The content of the page for one test of the report."""

    index: int
    title: str
    summaries: tuple[ModelSummary, ...]
    summary: Table
    main_charts: tuple[Chart, ...]
    verdicts: tuple[Verdict, ...]
    about_humans: str
    flow: tuple[Table, ...]
    leaderboard: Table
    standing_charts: tuple[Chart, ...]
    panels: tuple[Panel, ...]
    overviews: tuple[TableChoice, ...]
    error_tables: tuple[Table, ...]
    error_charts: tuple[Chart, ...]
    breakdowns: tuple[TableChoice, ...]
    pairs: Table | None
    agreement: Table | None
    bounds: tuple[TableChoice, ...]
    similar: tuple[TableChoice, ...]


def part_view(report: Report, index: int, charts: Placing, images: Mapping[Key, str]) -> PartView:
    """Return the content of the page for one test."""
    part = report.parts[index]
    # Arguments are evaluated in order, and a chart is taken once: the panels of corruptions get
    # their severity charts before the section on errors takes the rest.
    return PartView(
        index,
        suite_title(part.suite),
        tuple(summarize(report, part, model) for model in part.models),
        summary_table(report, part, index),
        charts.take("main-score", part=index),
        tuple(verdict_on(report, part, model) for model in part.models),
        about_humans(part),
        tuple(flow_tables(report, part, index)),
        leaderboard(report, part, index),
        charts.take("human-index", "areas", part=index, corruption=""),
        tuple(_panels(report, index, charts, images)),
        tuple(overviews(report, part, index)),
        tuple(error_tables(report, part, index)),
        charts.take("mce", "severity", part=index),
        tuple(breakdowns(report, part, index)),
        pair_table(part, index),
        agreement_table(report, part, index),
        tuple(bounds(report, part, index)),
        tuple(similar_tables(report, part, index)),
    )


def _panels(report: Report, index: int, charts: Placing, images: Mapping[Key, str]) -> list[Panel]:
    part = report.parts[index]
    return [
        Panel(
            f"corruption-{index}-{number}",
            corruption_title(name),
            suite_title(part.suite),
            charts.take("curves", part=index, corruption=name)
            + charts.take("severity", part=index, corruption=name),
            charts.take("human-index", part=index, corruption=name)
            + charts.take("areas", part=index, corruption=name),
            strip_of(report, part, name, images),
            _trained_on(part, name),
            _humans(part, name),
            condition_table(report, part, name, f"conditions-{index}-{number}"),
        )
        for number, name in enumerate(part.corruptions)
    ]


def _trained_on(part: Part, corruption: str) -> str:
    names = [model.short for model in part.models if corruption in model.results.marked]
    return f"{MARK} {listed(names)}: {MEANING}." if names else ""


def _humans(part: Part, corruption: str) -> str:
    """Return the human reference of a corruption in words."""
    compared = False
    for model in part.models:
        for space in model.results.spaces.values():
            compared = compared or any(
                score.humans
                for results in space.corruptions.values()
                for score in results.properties.values()
            )
            score = space.corruptions.get(corruption)
            properties = {} if score is None else score.properties
            collected = [(letter, scored.humans) for letter, scored in properties.items()]
            if any(humans is not None for _, humans in collected):
                return f"Human reference: {human_source(collected)}."
    return f"{NO_REFERENCE.capitalize()}." if compared else ""


def title_of(report: Report) -> str:
    """Return the main question of the report."""
    models = report.models
    if report.is_single:
        return f"How robust is {models[0].short}?"
    return f"How robust are {len(models)} models?"


def summary_of(report: Report) -> Markup:
    """Return one line that describes the test."""
    suites = [
        Markup("{} ({} {})").format(
            suite_title(part.suite),
            counted(len(part.corruptions)),
            plural(len(part.corruptions), "corruption"),
        )
        for part in report.parts
    ]
    text = Markup('{}; {}; made <span class="whole">{}</span>')
    return text.format(Markup(", ").join(suites), _images(report), _dates(report))


def _images(report: Report) -> Markup:
    cells: dict[float | None, NumberCell] = {}
    for index, run in enumerate(report.runs):
        cell = Numbers(index, run.results).cell(count, "images", "used")
        cells.setdefault(cell.value, cell)
    joined = Markup(" and ").join(cell.__html__() for cell in cells.values())
    last = int(list(cells)[-1] or 0)
    return joined + " " + plural(last, "image")


def _dates(report: Report) -> str:
    days = sorted({run.results.run.made[:10] for run in report.runs})
    known = [day for day in days if day]
    if not known:
        return "on an unknown date"
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
