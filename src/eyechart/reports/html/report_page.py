"""The report as one self-contained HTML page, which loads no other files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from eyechart.core.arguments import as_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import plural
from eyechart.core.storage.files import write_text
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.hidden_paths import IMAGES, PATHS, hidden_kinds, hide_paths
from eyechart.reports.html.certainty import (
    agreement_table,
    coverage_table,
    flow_tables,
    pair_table,
    similar_tables,
)
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.report_charts import Placing, charts_of
from eyechart.reports.html.embedded_images import Key, embedded
from eyechart.reports.html.example_strips import Strip, example_keys, strip_of
from eyechart.reports.html.html_table import NumberCell, Numbers, Table, TableChoice, count, counted
from eyechart.reports.html.leaderboard_tables import leaderboard, rank_tables, summary_table
from eyechart.reports.html.model_summary import ModelSummary, summarize
from eyechart.reports.html.page import is_page, render_page
from eyechart.reports.html.provenance_section import provenance_of
from eyechart.reports.html.score_tables import (
    bounds,
    breakdowns,
    condition_table,
    error_tables,
    overviews,
)
from eyechart.reports.html.structure_view import View
from eyechart.reports.html.verdict import Verdict, about_humans, verdict_on
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.report import Part, Report, make_report
from eyechart.reports.titles import (
    NO_REFERENCE,
    SPACES,
    corruption_title,
    human_source,
    listed,
    space_title,
    suite_title,
)
from eyechart.results.runs import run_of
from eyechart.results.schema import Results
from eyechart.scores.registry import LEADERBOARD, Score


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


MOST_BYTES, MAX_IMAGES = 7_900_000, 1_500_000
"""Maximum size of the page and of the images in it, in bytes."""


def render_report(
    report: Report, overlap: OverlapPanel | None = None, structure: Sequence[View] = ()
) -> str:
    """Return the text of the page with charts, images and scripts embedded.

    If given, `overlap` is shown as a heat map of corruptions. `structure` contains the
    studies of held-out styles and subclasses. Images are downsized if the page would otherwise be
    too large to share.
    """
    structure = [_hidden(view, report.hidden) for view in structure]
    charts = (*charts_of(report, overlap), *(chart for view in structure for chart in view.charts))
    runs, keys = dict(enumerate(report.runs)), list(example_keys(report))
    images = embedded(runs, keys, MAX_IMAGES)
    text = _render(report, charts, images, structure)
    # Only images can be made smaller, so they must make up for the whole excess.
    too_many = len(text.encode()) - MOST_BYTES
    if too_many > 0 and images:
        images = embedded(runs, keys, sum(map(len, images.values())) - too_many)
        text = _render(report, charts, images, structure)
    return text


def _hidden(view: View, hidden: Sequence[str]) -> View:
    """Return a study without the information that the report hides."""
    if IMAGES in hidden:
        view = replace(view, grids=())
    return hide_paths(view) if PATHS in hidden else view


def _render(
    report: Report,
    charts: tuple[Chart, ...],
    images: Mapping[Key, str],
    structure: Sequence[View],
) -> str:
    placing = Placing(charts)
    # Studies show their charts themselves; left here, they would appear again among the others.
    placing.take("structure")
    views = [part_view(report, index, placing, images) for index in range(len(report.parts))]
    return render_page(
        "report.html",
        charts,
        title=title_of(report),
        summary=summary_of(report),
        report=report,
        model_indices={model.name: index for index, model in enumerate(report.models)},
        views=views,
        rank_tables=[] if report.is_single else list(rank_tables(report)),
        rank_charts=placing.take("ranks"),
        overlap_charts=placing.take("overlap"),
        coverage=coverage_table(report),
        coverage_charts=placing.take("coverage"),
        histograms=placing.take("histogram"),
        human_charts=placing.take("humans"),
        # Last: charts that have no section above.
        other_charts=placing.take(),
        runs=[provenance_of(report, index) for index in range(len(report.runs))],
        meanings=[(score.symbol, score.meaning) for score in _shown_scores(report)],
        notes=_notes(report),
        structure=structure,
    )


def write_report(
    report: Report, path: Path, overlap: OverlapPanel | None = None, structure: Sequence[View] = ()
) -> Path:
    """Write the page to a file and return its path."""
    return write_text(path, render_report(report, overlap, structure))


def report_results(
    results: Results, path: str | os.PathLike[str], hide: str | Sequence[str] = ()
) -> Path:
    """Write a report on results in memory to a file and return its path.

    Args:
        results: The results of a run.
        path: An .html file.
        hide: What to hide, as for `--hide` of `eyechart report`: names from `HIDEABLE`.
    """
    target = Path(as_path(path, "path", "the path of an .html file"))
    if target.suffix.lower() != ".html":
        raise UsageError(f"path must end in .html, got {target}.")
    if target.exists() and not is_page(target):
        raise UsageError(
            f"{target} already exists and is not an eyechart report: choose another path."
        )
    return write_report(make_report([run_of(results)], hide=hidden_kinds(hide)), target)


def _shown_scores(report: Report) -> list[Score]:
    present = {name for part in report.parts for name in part.standings.scores}
    return [score for score in LEADERBOARD if score.name in present]


def _notes(report: Report) -> list[str]:
    """Return the notes to read before the scores, without duplicates."""
    collected = [*report.notes, *(note for run in report.runs for note in run.results.warnings)]
    if report.discrete is not None and report.discrete.note:
        collected.append(report.discrete.note)
    return list(dict.fromkeys(map(_in_words, collected)))


def _in_words(note: str) -> str:
    """Return a note with the name of its label space in words."""
    space, colon, rest = note.partition(": ")
    return f"In {space_title(space)}: {rest}" if colon and space in SPACES else note
