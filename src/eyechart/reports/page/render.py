"""The report as one HTML page that needs nothing beside itself and can fetch nothing."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from eyechart.core.errors import UsageError
from eyechart.core.files import atomic_file
from eyechart.core.version import __version__
from eyechart.reports.charts.build import charts_of
from eyechart.reports.charts.chart import Chart
from eyechart.reports.charts.overlap import Overlap
from eyechart.reports.page.certainty import coverage_table
from eyechart.reports.page.pictures import Key, embedded
from eyechart.reports.page.placing import Placing
from eyechart.reports.page.provenance import provenance_of
from eyechart.reports.page.ranks import rank_tables
from eyechart.reports.page.sections import part_view, summary_of, title_of
from eyechart.reports.page.strips import example_keys
from eyechart.reports.report import Report
from eyechart.reports.structure_view import View
from eyechart.reports.words import MEANINGS, SCORES, SPACES, space_title

MOST_BYTES, MOST_PICTURES = 7_900_000, 1_500_000
"""Of the page, and of the pictures in it."""

GENERATOR = '<meta name="generator" content="eyechart report '
"""What a page of ours begins with."""

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {};"
    " base-uri 'none'; form-action 'none'"
)


def render_report(
    report: Report, overlap: Overlap | None = None, structure: Sequence[View] = ()
) -> str:
    """Return the text of the page; charts, pictures and scripts are inside it.

    `overlap`: of the corruptions of a benchmark, if it is to be shown. `structure`: studies of new
    styles and new kinds.

    Pictures are made smaller where the page would be larger than can be sent about.
    """
    charts = (*charts_of(report, overlap), *(own for view in structure for own in view.charts))
    runs, keys = dict(enumerate(report.runs)), list(example_keys(report))
    images = embedded(runs, keys, MOST_PICTURES)
    text = _render(report, charts, images, structure)
    too_many = len(text.encode()) - MOST_BYTES
    if too_many > 0 and images:
        images = embedded(runs, keys, sum(map(len, images.values())) - too_many)
        text = _render(report, charts, images, structure)
    return text


def _render(
    report: Report,
    charts: tuple[Chart, ...],
    images: Mapping[Key, str],
    structure: Sequence[View],
) -> str:
    placing = Placing(charts)
    placing.take("structure")
    scripts = page_scripts()
    views = [part_view(report, place, placing, images) for place in range(len(report.parts))]
    return environment().get_template("report.html").render(
        title=title_of(report),
        summary=summary_of(report),
        report=report,
        places={shown.name: place for place, shown in enumerate(report.models)},
        views=views,
        rank_tables=list(rank_tables(report)),
        rank_charts=placing.take("ranks"),
        overlap_charts=placing.take("overlap"),
        coverage=coverage_table(report),
        coverage_charts=placing.take("coverage"),
        histograms=placing.take("histogram"),
        people_charts=placing.take("people"),
        other_charts=placing.take(),
        runs=[provenance_of(report, place) for place in range(len(report.runs))],
        meanings=[(SCORES[name], MEANINGS[name]) for name in _scores(report)],
        notes=_notes(report),
        structure=structure,
        policy=page_policy(scripts),
        css=page_css(),
        specs=page_specs(charts),
        scripts=scripts,
        generator=Markup(GENERATOR),
        version=__version__,
    )  # fmt: skip


def page_scripts() -> dict[str, Markup]:
    """Return the scripts of a page by name."""
    own = {name: _script(_template(f"{name}.js")) for name in ("theme", "report", "charts")}
    return own | {"plotly": _script(get_plotlyjs())}


def page_policy(scripts: Mapping[str, Markup]) -> str:
    """Return what a page with these scripts may do: nothing but run them."""
    return POLICY.format(" ".join(_hash(text) for text in scripts.values()))


def page_css() -> Markup:
    """Return how pages look."""
    return Markup(_template("report.css"))


def write_report(
    report: Report, path: Path, overlap: Overlap | None = None, structure: Sequence[View] = ()
) -> Path:
    """Write the page to a file and return its path."""
    text = render_report(report, overlap, structure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None
    return path


def is_report(path: Path) -> bool:
    """Return whether a file is a page that this module wrote, so that it may be written again."""
    try:
        with path.open("rb") as file:
            return GENERATOR.encode() in file.read(4096)
    except OSError:
        return False


def environment() -> Environment:
    """Return where the templates of pages are."""
    return Environment(
        loader=PackageLoader("eyechart.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> str:
    return (files("eyechart.reports") / "templates" / name).read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    """Return a script as the page holds it: with the line ends that browsers hash."""
    return Markup("\n" + text.replace("\r\n", "\n").replace("\r", "\n").strip() + "\n")


def _hash(text: str) -> str:
    """Return what the policy calls a script by."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def page_specs(charts: Sequence[Chart]) -> Markup:
    """Return the charts as JSON that can stand in a script element."""
    specs: dict[str, Any] = {chart.id: chart.spec for chart in charts}
    text = json.dumps(specs, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _scores(report: Report) -> list[str]:
    there = {name for part in report.parts for name in part.standings.scores}
    return [name for name in SCORES if name in there]


def _notes(report: Report) -> list[str]:
    """Return what a reader must know before reading the scores, each sentence once."""
    found = [*report.notes, *(note for run in report.runs for note in run.results.warnings)]
    if report.discrete is not None and report.discrete.note:
        found.append(report.discrete.note)
    return list(dict.fromkeys(map(_in_words, found)))


def _in_words(note: str) -> str:
    """Return a note with the name of its label space in words."""
    space, colon, rest = note.partition(": ")
    return f"In {space_title(space)}: {rest}" if colon and space in SPACES else note
