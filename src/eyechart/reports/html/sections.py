"""What stands in each section of the page, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from eyechart.pipeline.trained_on import MARK, MEANING
from eyechart.reports.html.breakdown import breakdowns
from eyechart.reports.html.cells import Cell, Numbers, count, counted
from eyechart.reports.html.certainty import agreement_table, pair_table, similar_tables
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.report_charts import Placing
from eyechart.reports.html.embedded_images import Key
from eyechart.reports.html.error_tables import error_tables
from eyechart.reports.html.example_strips import Strip, strip_of
from eyechart.reports.html.html_table import Choice, Table
from eyechart.reports.html.leaderboard_table import leaderboard
from eyechart.reports.html.overview import bounds, overviews
from eyechart.reports.html.verdict import Verdict, about_people, verdict_on
from eyechart.reports.human_sources import NONE, source_in_words
from eyechart.reports.series.report import Part, Report
from eyechart.reports.words import corruption_title, listed, plural, suite_title


@dataclass(frozen=True)
class Panel:
    """One corruption: its charts and its strip of pictures. `note`: who was trained on it.

    `humans`: whose responses models are compared with, "" if there are none in this run.
    """

    id: str
    title: str
    suite: str
    charts: tuple[Chart, ...]
    people_charts: tuple[Chart, ...]
    strip: Strip
    note: str
    humans: str


@dataclass(frozen=True)
class PartView:
    """All that the page says of one part of the report."""

    place: int
    title: str
    part: Part
    verdicts: tuple[Verdict, ...]
    about_people: str
    leaderboard: Table
    standing_charts: tuple[Chart, ...]
    panels: tuple[Panel, ...]
    overviews: tuple[Choice, ...]
    error_tables: tuple[Table, ...]
    error_charts: tuple[Chart, ...]
    breakdowns: tuple[Choice, ...]
    pairs: Table | None
    agreement: Table | None
    bounds: tuple[Choice, ...]
    similar: tuple[Choice, ...]


def part_view(report: Report, place: int, charts: Placing, images: Mapping[Key, str]) -> PartView:
    """Return what the page says of a part."""
    part = report.parts[place]
    return PartView(
        place,
        suite_title(part.suite),
        part,
        tuple(verdict_on(report, part, shown) for shown in part.models),
        about_people(part),
        leaderboard(report, part, place),
        charts.take("people-index", "areas", part=place, corruption=""),
        tuple(_panels(report, place, charts, images)),
        tuple(overviews(report, part, place)),
        tuple(error_tables(report, part, place)),
        charts.take("mce", "severity", part=place),
        tuple(breakdowns(report, part, place)),
        pair_table(part, place),
        agreement_table(report, part, place),
        tuple(bounds(report, part, place)),
        tuple(similar_tables(report, part, place)),
    )


def _panels(report: Report, place: int, charts: Placing, images: Mapping[Key, str]) -> list[Panel]:
    part = report.parts[place]
    return [
        Panel(
            f"corruption-{place}-{number}",
            corruption_title(name),
            suite_title(part.suite),
            charts.take("curves", part=place, corruption=name)
            + charts.take("severity", part=place, corruption=name),
            charts.take("people-index", part=place, corruption=name)
            + charts.take("areas", part=place, corruption=name),
            strip_of(report, part, name, images),
            _trained_on(part, name),
            _humans(part, name),
        )
        for number, name in enumerate(part.corruptions)
    ]


def _trained_on(part: Part, corruption: str) -> str:
    names = [own.short for own in part.models if corruption in own.model.marked]
    return f"{MARK} {listed(names)}: {MEANING}." if names else ""


def _humans(part: Part, corruption: str) -> str:
    """Return whose responses models are compared with under a corruption."""
    compared = False
    for shown in part.models:
        for space in shown.model.spaces.values():
            compared = compared or any(
                own.people
                for each in space.corruptions.values()
                for own in each.properties.values()
            )
            score = space.corruptions.get(corruption)
            found = (
                [] if score is None else [(k, own.people) for k, own in score.properties.items()]
            )
            if any(own is not None for _, own in found):
                return f"Human reference: {source_in_words(found)}."
    return f"{NONE.capitalize()}." if compared else ""


def title_of(report: Report) -> str:
    """Return the question that the report answers."""
    models = report.models
    who = models[0].short if len(models) == 1 else f"{len(models)} models"
    do = "does" if len(models) == 1 else "do"
    return f"How well {do} {who} see as pictures degrade?"


def summary_of(report: Report) -> Markup:
    """Return in a line what was tested."""
    suites = [
        Markup("{} ({} {})").format(
            suite_title(part.suite),
            counted(len(part.corruptions)),
            plural(len(part.corruptions), "corruption"),
        )
        for part in report.parts
    ]
    models = listed([own.short for own in report.models[:4]])
    if len(report.models) > 4:
        models = f"{len(report.models)} models"
    text = Markup('{}; {}; {}; made <span class="whole">{}</span>')
    return text.format(Markup(", ").join(suites), models, _pictures(report), _dates(report))


def _pictures(report: Report) -> Markup:
    cells: dict[float | None, Cell] = {}
    for place, run in enumerate(report.runs):
        cell = Numbers(place, run.results).cell(count, "images", "used")
        cells.setdefault(cell.value, cell)
    joined = Markup(" and ").join(cell.__html__() for cell in cells.values())
    last = int(list(cells)[-1] or 0)
    return joined + " " + plural(last, "picture")


def _dates(report: Report) -> str:
    days = sorted({run.results.provenance.made[:10] for run in report.runs})
    known = [day for day in days if day]
    if not known:
        return "on an unknown day"
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
