"""Write figures for papers to a folder as SVG and PDF, and tables as LaTeX.

Text in the SVG is converted to outlines and fonts in the PDF are embedded, so that both look the
same everywhere. The same report gives the same bytes.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eyechart.core.errors import UsageError
from eyechart.core.progress import Advance, no_advance
from eyechart.core.storage.files import atomic_file, remove_leftovers
from eyechart.reports.figures.curve_figures import plan_areas, plan_curves, plan_humans
from eyechart.reports.figures.error_figure import plan_error_bars, plan_error_tables, plan_errors
from eyechart.reports.figures.overlap_figure import plan_overlap
from eyechart.reports.figures.paper_style import (
    Drawing,
    drawable,
    file_stems,
    paper_style,
    split_planned,
)
from eyechart.reports.figures.score_figures import plan_human_index, plan_main_scores, plan_ranks
from eyechart.reports.figures.testset_figures import plan_examples, plan_visual_change
from eyechart.reports.latex import MADE_BY
from eyechart.reports.series.overlap import OverlapPanel
from eyechart.reports.series.report import Report

CREATOR = "eyechart"
SINGLE = (".svg", ".pdf", ".png")
"""Formats of a single figure."""

DOTS = 220
"""Resolution of PNG files, in dots per inch."""

MARKS = {
    ".svg": rf"<dc:creator>\s*<cc:Agent>\s*<dc:title>{CREATOR}</dc:title>",
    ".pdf": rf"/Creator \({CREATOR}\)",
    ".png": rf"tEXtSoftware\x00{CREATOR}",
    ".tex": rf"\A{re.escape(MADE_BY)}",
}
"""Patterns that identify a file written by eyechart."""


def plan_figures(
    report: Report, overlap: OverlapPanel | None = None
) -> tuple[list[Drawing], list[str]]:
    """Return all drawings of a report, and a sentence for each missing drawing."""
    return split_planned(
        chain(
            plan_main_scores(report),
            plan_curves(report),
            plan_human_index(report),
            plan_areas(report),
            plan_visual_change(report),
            plan_ranks(report),
            plan_humans(report),
            plan_errors(report),
            plan_error_bars(report),
            plan_error_tables(report),
            plan_overlap(overlap),
            plan_examples(report),
        )
    )


def write_drawings(
    drawings: Sequence[Drawing],
    folder: Path,
    begin: Callable[[int], Advance] = lambda n_drawings: no_advance,
) -> list[Path]:
    """Write every figure as SVG and PDF and every table as LaTeX, and return the paths.

    `begin` receives the number of drawings and returns a function to call after each drawing.

    Raises:
        UsageError: If the folder has a file with the same name that eyechart did not write; nothing
            is written then.
    """
    targets = [
        [folder / f"{stem}{ending}" for ending in drawing.endings]
        for drawing, stem in zip(drawings, file_stems(drawings), strict=True)
    ]
    # Check all targets before the first one is written.
    _check(folder, [path for paths in targets for path in paths])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers([folder])
        step = begin(len(drawings))
        for drawing, paths in zip(drawings, targets, strict=True):
            _write(drawing, paths)
            step(1, "")
    except OSError as error:
        raise UsageError(f"Cannot write into {folder}: {error.strerror or error}.") from None
    return [path for paths in targets for path in paths]


def check_figure(path: Path) -> None:
    """Raise a UsageError unless a path is an SVG, PDF or PNG file that eyechart may write."""
    if path.suffix.lower() not in SINGLE:
        raise UsageError(
            f"A figure file must end in {', '.join(SINGLE[:-1])} or {SINGLE[-1]}, got"
            f" '{path.name}'."
        )
    _check(path.parent, [path])


def write_figure(make: Callable[[], Figure], path: Path, caption: str) -> None:
    """Write one figure in the format given by the file's suffix; see `check_figure`."""
    check_figure(path)
    _write(Drawing((path.stem,), caption, make, (path.suffix,)), [path])


def is_ours(path: Path) -> bool:
    """Return whether a file is a figure or a table that `write_drawings` wrote."""
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        return False
    return re.search(MARKS[path.suffix.lower()].encode(), content) is not None


def _check(folder: Path, targets: Sequence[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: give a folder for the figures.")
    for path in targets:
        # `exists` is False for a broken symbolic link, which writing would replace.
        if (path.exists() or path.is_symlink()) and not is_ours(path):
            raise UsageError(
                f"{path} already exists and was not written by eyechart: choose another folder or"
                " name."
            )


def _write(drawing: Drawing, paths: Sequence[Path]) -> None:
    with paper_style():
        content = drawing.make()
        for path in paths:
            with atomic_file(path) as temporary:
                if isinstance(content, Figure):
                    save(content, temporary, path.suffix.lower().removeprefix("."), drawing.caption)
                else:
                    temporary.write_text(content, encoding="utf-8", newline="\n")


def save(figure: Figure, path: Path, kind: str, caption: str) -> None:
    """Write a figure as "svg", "pdf" or "png" in `paper_style`, with its caption and no date."""
    # `drawable` escapes "$" for math text, which metadata do not have.
    words = drawable(caption, 400).replace(r"\$", "$")
    FigureCanvasAgg(figure)
    if kind == "png":
        # PNG text is Latin-1, which lacks Δ.
        title = words.encode("latin-1", "replace").decode("latin-1")
        figure.savefig(path, format=kind, dpi=DOTS, metadata={"Title": title, "Software": CREATOR})
        return
    metadata: dict[str, str | None] = {"Title": words, "Creator": CREATOR}
    # Without a date the same report gives the same bytes.
    metadata["Date" if kind == "svg" else "CreationDate"] = None
    figure.savefig(path, format=kind, metadata=metadata)
