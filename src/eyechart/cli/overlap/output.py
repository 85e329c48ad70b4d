"""Code shared by the overlap commands: options and checks of output files."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.paths import check_file_to_write
from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.scores.baseline_names import ALEXNET, NOC_ALEXNET

if TYPE_CHECKING:
    from eyechart.reports.series.overlap import OverlapPanel

FigureFile = Annotated[
    Path | None,
    Option(
        help="Also draw the result, as .png, .svg or .pdf.",
        group="Output",
        metavar="FILE",
        path="folder or file",
    ),
]
Latex = Annotated[
    Path | None,
    Option(
        help="Also write LaTeX tables.",
        group="Output",
        metavar="FILE.tex",
        path="folder or file",
    ),
]

BaselineName = Annotated[
    str | None,
    Option(
        help=f"Baseline of CE: standard (the standard model in the table), or {ALEXNET} (published"
        f" errors on ImageNet's validation set; {NOC_ALEXNET} for ImageNet-NOC).",
        group="Curves and statistics",
    ),
]

OURS = (",", "one,two,", "benchmark,form,")
"""The first characters of every CSV file that an overlap command writes."""


def check_figure_file(path: Path | None) -> None:
    """Raise a UsageError unless a figure can be written at this path."""
    if path is None:
        return
    from eyechart.reports.figures.figure_files import check_figure

    check_file_to_write(path)
    check_figure(path)


def draw_panel(overlap: "OverlapPanel", path: Path) -> None:
    """Write the heat map, with overlapping corruptions adjacent and selected ones highlighted."""
    from eyechart.reports.figures.figure_files import write_figure
    from eyechart.reports.figures.overlap_figure import draw_heat_map, heat_map_caption
    from eyechart.reports.series.overlap import clustered

    write_figure(partial(draw_heat_map, clustered(overlap)), path, heat_map_caption(overlap))


def check_table(path: Path | None, source: Path | None) -> None:
    """Raise a UsageError unless a CSV file can be written at this path."""
    if path is None:
        return
    check_file_to_write(path)
    if path.suffix.lower() != ".csv":
        raise UsageError(f"The name of a table must end in .csv, got '{path.suffix}'.")
    if not path.exists():
        return
    # any file may be at this path, also one that is not text
    with regular_file(path).open(encoding="utf-8", errors="replace") as file:
        ours = file.readline().startswith(OURS)
    if (source is not None and path.samefile(source)) or not ours:
        raise UsageError(
            f"{path} already exists and would be overwritten: choose another name, or delete it."
        )


def check_latex(path: Path | None) -> None:
    """Raise a UsageError unless a LaTeX file can be written at this path."""
    if path is None:
        return
    from eyechart.reports.latex.tex_tables import MADE_BY

    check_file_to_write(path)
    if path.suffix.lower() != ".tex":
        raise UsageError(f"--latex must end in .tex, got '{path.name}': give another name.")
    if not path.exists():
        return
    with regular_file(path).open(encoding="utf-8", errors="replace") as file:
        is_ours = file.readline().startswith(MADE_BY)
    if not is_ours:
        raise UsageError(
            f"{path} already exists and was not written by eyechart: choose another file."
        )


def write_latex(path: Path, text: str) -> None:
    """Write a LaTeX file atomically."""
    from eyechart.core.storage.files import atomic_file

    try:
        with atomic_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror or error}.") from None


def is_published(source: Path) -> bool:
    """Return whether the paper's tables are requested; an existing path takes precedence."""
    from eyechart.overlap.published_benchmarks import PUBLISHED

    return str(source) == PUBLISHED and not source.exists()


def members_of(known: tuple[str, ...], name: str) -> tuple[str, tuple[str, ...]]:
    """Return a suite's name and its corruptions, all of which must be known."""
    from eyechart.corruptions.suites.suite import load_suite

    suite = load_suite(name)
    members = tuple(entry.name for entry in suite)
    missing = [member for member in members if member not in known]
    if missing:
        raise UsageError(
            f"All corruptions of {name} must be in the table, but {len(missing)} of"
            f" {len(members)} are not, such as {missing[0]}."
        )
    return suite.name, members
