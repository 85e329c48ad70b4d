"""The report as one self-contained HTML page, which loads no other files."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from eyechart.core.arguments import as_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import listed, plural
from eyechart.core.storage.files import write_text
from eyechart.pipeline.scoring.caveats import MARK, MEANING
from eyechart.reports.hidden_paths import PATHS, hidden_kinds, hide_paths
from eyechart.reports.html.certainty import (
    agreement_table,
    coverage_table,
    flow_tables,
    pair_table,
    similar_tables,
)
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.curve_charts import area_charts, curve_charts, human_charts
from eyechart.reports.html.charts.score_charts import (
    index_charts,
    main_score_charts,
    mce_charts,
    rank_charts,
    severity_charts,
)
from eyechart.reports.html.charts.testset_charts import (
    coverage_charts,
    histogram_charts,
    overlap_chart,
)
from eyechart.reports.html.example_strips import Key, embedded, strip_of
from eyechart.reports.html.html_table import counted, counted_of
from eyechart.reports.html.leaderboard_tables import (
    leaderboard,
    rank_tables,
    summarize,
    summary_table,
)
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
from eyechart.reports.html.verdict import about_humans, verdict_on
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.palette import DASHES
from eyechart.reports.series.report import Report, TestSection, make_report
from eyechart.reports.titles import (
    NO_REFERENCE,
    SPACES,
    corruption_title,
    human_source,
    space_title,
    suite_title,
    unique_names,
)
from eyechart.results.runs import run_of
from eyechart.results.schema import Results
from eyechart.scores.registry import LEADERBOARD


def charts_of(report: Report, overlap: OverlapPanel | None = None) -> tuple[Chart, ...]:
    """Return the charts of a report, including the heat map of `overlap`, with unique ids."""
    charts = list(_charts(report, overlap))
    # The names of corruptions may differ only in punctuation, which ids do not have.
    ids = unique_names((chart.id for chart in charts), "{}-{}")
    return tuple(replace(chart, id=identity) for chart, identity in zip(charts, ids, strict=True))


def _charts(report: Report, overlap: OverlapPanel | None) -> Iterator[Chart]:
    # By position among the models of all runs, so that a model has one dash pattern in every chart.
    names = dict.fromkeys(name for run in report.runs for name in run.models)
    dashes = {name: DASHES[index % len(DASHES)] for index, name in enumerate(names)}
    for index, section in enumerate(report.sections):
        yield from main_score_charts(section, index)
        yield from index_charts(section, index)
        yield from curve_charts(section, index, dashes)
        yield from area_charts(section, index)
        yield from severity_charts(section, index, dashes)
        yield from mce_charts(section, index)
        yield from histogram_charts(report, index)
        yield from coverage_charts(report, index)
    yield from human_charts(report)
    if not report.is_single:
        yield from rank_charts(report)
    if overlap is not None:
        yield overlap_chart(overlap)


def _placed(
    charts: Sequence[Chart], *kinds: str, section: int | None = None, corruption: str | None = None
) -> list[Chart]:
    """Return the charts of these kinds: accuracy before consistency, human categories first."""
    selected = [
        chart
        for chart in charts
        if chart.kind in kinds
        and (section is None or chart.section == section)
        and (corruption is None or chart.corruption == corruption)
    ]
    return sorted(selected, key=lambda chart: (chart.property, chart.space != "entry16"))


def _test_section(
    report: Report, index: int, charts: Sequence[Chart], images: Mapping[Key, str]
) -> dict[str, object]:
    """Return the content of the page for one test, as the template names it."""
    section = report.sections[index]
    return {
        "index": index,
        "title": suite_title(section.suite),
        "summaries": [summarize(report, section, model) for model in section.models],
        "summary": summary_table(report, section, index),
        "main_charts": _placed(charts, "main-score", section=index),
        "verdicts": [verdict_on(section, model) for model in section.models],
        "about_humans": about_humans(section),
        "flow": list(flow_tables(section, index)),
        "leaderboard": leaderboard(report, section, index),
        "standing_charts": _placed(charts, "human-index", "areas", section=index, corruption=""),
        "panels": [
            _panel(report, index, number, charts, images)
            for number in range(len(section.corruptions))
        ],
        "overviews": list(overviews(report, section, index)),
        "error_tables": list(error_tables(report, section, index)),
        "error_charts": _placed(charts, "mce", section=index),
        "breakdowns": list(breakdowns(section, index)),
        "pairs": pair_table(section, index),
        "agreement": agreement_table(section, index),
        "bounds": list(bounds(section, index)),
        "similar": list(similar_tables(section, index)),
    }


def _panel(
    report: Report, index: int, number: int, charts: Sequence[Chart], images: Mapping[Key, str]
) -> dict[str, object]:
    """Return the content of the page for one corruption, as the template names it."""
    section = report.sections[index]
    name = section.corruptions[number]
    trained = [model.short for model in section.models if name in model.results.marked]
    return {
        "id": f"corruption-{index}-{number}",
        "title": corruption_title(name),
        "suite": suite_title(section.suite),
        "charts": _placed(charts, "curves", section=index, corruption=name)
        + _placed(charts, "severity", section=index, corruption=name),
        "human_charts": _placed(charts, "human-index", section=index, corruption=name)
        + _placed(charts, "areas", section=index, corruption=name),
        "strip": strip_of(report, section, name, images),
        "note": f"{MARK} {listed(trained)}: {MEANING}." if trained else "",
        "humans": _human_reference(section, name),
        "conditions": condition_table(section, name, f"conditions-{index}-{number}"),
    }


def _human_reference(section: TestSection, corruption: str) -> str:
    """Return the human reference of a corruption in words."""
    compared = False
    for model in section.models:
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


def summary_of(report: Report) -> Markup:
    """Return one line that describes the test."""
    suites = [
        Markup("{} ({})").format(
            suite_title(section.suite), counted_of(len(section.corruptions), "corruption")
        )
        for section in report.sections
    ]
    counts = list(dict.fromkeys(run.results.images.used for run in report.runs))
    images = Markup(" and ").join(map(counted, counts)) + " " + plural(counts[-1], "image")
    days = sorted({run.results.run.made[:10] for run in report.runs} - {""})
    dates = " to ".join(dict.fromkeys([*days[:1], *days[-1:]])) or "on an unknown date"
    text = Markup('{}; {}; made <span class="whole">{}</span>')
    return text.format(Markup(", ").join(suites), images, dates)


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
    if PATHS in report.hidden:
        structure = [hide_paths(view) for view in structure]
    charts = (*charts_of(report, overlap), *(chart for view in structure for chart in view.charts))
    images = embedded(report, MAX_IMAGES)
    text = _render(report, charts, images, structure)
    # Only images can be made smaller, so they must make up for the whole excess.
    too_many = len(text.encode()) - MOST_BYTES
    if too_many > 0 and images:
        images = embedded(report, sum(map(len, images.values())) - too_many)
        text = _render(report, charts, images, structure)
    return text


def _render(
    report: Report,
    charts: tuple[Chart, ...],
    images: Mapping[Key, str],
    structure: Sequence[View],
) -> str:
    present = {name for section in report.sections for name in section.standings.scores}
    models = (
        f"is {report.models[0].short}" if report.is_single else f"are {len(report.models)} models"
    )
    views = [_test_section(report, index, charts, images) for index in range(len(report.sections))]
    return render_page(
        "report.html",
        charts,
        title=f"How robust {models}?",
        summary=summary_of(report),
        report=report,
        model_indices={model.name: index for index, model in enumerate(report.models)},
        views=views,
        rank_tables=[] if report.is_single else list(rank_tables(report)),
        rank_charts=_placed(charts, "ranks"),
        overlap_charts=_placed(charts, "overlap"),
        coverage=coverage_table(report),
        coverage_charts=_placed(charts, "coverage"),
        histograms=_placed(charts, "histogram"),
        human_charts=_placed(charts, "humans"),
        runs=[provenance_of(report, index) for index in range(len(report.runs))],
        meanings=[(score.symbol, score.meaning) for score in LEADERBOARD if score.name in present],
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
