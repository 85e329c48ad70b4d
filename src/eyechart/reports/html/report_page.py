"""The report as one self-contained HTML page, which loads no other files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eyechart.core.arguments import as_path
from eyechart.core.errors import UsageError
from eyechart.core.storage.files import write_text
from eyechart.reports.hiding import IMAGES, PATHS, hidden_kinds, hide_paths
from eyechart.reports.html.certainty import coverage_table
from eyechart.reports.html.charts.chart import Chart
from eyechart.reports.html.charts.report_charts import Placing, charts_of
from eyechart.reports.html.embedded_images import Key, embedded
from eyechart.reports.html.example_strips import example_keys
from eyechart.reports.html.page import is_page, render_page
from eyechart.reports.html.provenance_section import provenance_of
from eyechart.reports.html.rank_tables import rank_tables
from eyechart.reports.html.sections import part_view, summary_of, title_of
from eyechart.reports.html.structure_view import View
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.report import Report, make_report
from eyechart.reports.words import SPACES, space_title
from eyechart.results.runs import run_of
from eyechart.results.schema import Results
from eyechart.scores.registry import LEADERBOARD, Score

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
        meanings=[(score.symbol, score.meaning) for score in _scores(report)],
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


def _scores(report: Report) -> list[Score]:
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
