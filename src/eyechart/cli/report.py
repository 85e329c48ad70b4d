"""`eyechart report`: finished runs as one page to look at, as figures, or as a model card."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.paths import check_file_to_write, folder, folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.reports.html.structure_view import View
    from eyechart.reports.series.overlap import OverlapPanel
    from eyechart.reports.series.report import Report

FORMATS = {"html": ".html", "md": ".md"}


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", parser=folder, help="Folders that eyechart evaluate wrote (--out)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            parser=folder_or_file,
            help="Where it goes; report.html or report.md, in the run's folder if it is one.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="html: a page that needs nothing beside itself; md: a model card with a"
            " model-index block. From the ending of --out, or html."
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="Also write every figure as SVG and PDF, in the layouts of the papers.",
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Show it on this machine in a browser, with all pictures of the test sets to"
            " go through, until Ctrl-C; nothing is written.",
        ),
    ] = False,
    port: Annotated[int, typer.Option(help="With --serve: the port, 0 for any free one.")] = 0,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=folder_or_file,
            help="With --serve: where the pictures are now, if not where they were.",
        ),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=CATEGORY",
            help="What kind a model is: supervised, ViT, adversarial, SWSL or CLIP; repeatable.",
        ),
    ] = None,
    overlap: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            parser=folder_or_file,
            help="Overlaps between corruptions to show as a heat map: a CSV file, or a study's"
            " folder.",
        ),
    ] = None,
    structure: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="A study of eyechart structure style, subclass or superclass to show too;"
            " repeatable; without a RUN: eyechart structure report.",
        ),
    ] = None,
) -> None:
    """Write a page on finished runs: good enough? where does it break? how sure? made how?

    Runs of the same test are put together; with runs of ImageNet-C and VCR, also how both rank the
    models.
    """
    _check_served(serve, port, images, (out, figures, format, overlap, structure))
    kind = _format(format, out)
    if kind == "md" and overlap is not None:
        raise UsageError("--overlap is for html and figures: leave it out with --format md.")
    if kind == "md" and structure:
        raise UsageError("--structure is for html: leave it out with --format md.")
    from eyechart.reports.series.overlap import clustered, read_overlap
    from eyechart.reports.series.report import load_report

    studies: Sequence[View] = ()
    if structure:
        from eyechart.reports.html.structure_view import structure_views

        studies = structure_views([Path(each) for each in structure])
    scores = overlap
    if scores is not None and scores.is_dir():
        scores = scores / "overlap.csv"
    table = None if scores is None else clustered(read_overlap(scores))
    found = load_report([Path(run) for run in runs], _categories(category or ()))
    if serve:
        from eyechart.reports.browse.server import serve_report

        serve_report(found, port, None if images is None else Path(images), _say_address)
        return
    target = _target(out, runs, kind)
    _check_target(target)
    if figures is not None:
        from eyechart.cli.shared.progress import ProgressBars
        from eyechart.reports.figures.figure_files import plan_figures, write_figures

        with ProgressBars() as bars:
            made = write_figures(found, Path(figures), table, partial(bars.begin, "figures"))
        for note in plan_figures(found, table).notes:
            print(f"Note: {note}")
    page = _write(found, target, kind, table, studies)
    print(f"Written:\n  {page}")
    if figures is not None:
        print(f"  {figures}: {len(made)} files")


def _check_served(
    serve: bool,
    port: int,
    images: Path | None,
    written: tuple[object, ...],
) -> None:
    """Refuse options of what is written with --serve, and those of --serve without it."""
    if not serve and (images is not None or port):
        raise UsageError("--images and --port are for --serve: add it, or leave them out.")
    if serve and any(option is not None for option in written):
        raise UsageError(
            "--serve writes nothing: leave out --out, --figures, --format, --overlap and"
            " --structure."
        )
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be from 0 to 65535, got {port}.")


def _format(given: str | None, out: Path | None) -> str:
    endings = {ending: name for name, ending in FORMATS.items()}
    if given is None:
        if out is None:
            return "html"
        if Path(out).suffix.lower() not in endings:
            raise UsageError(f"--out must end in .html or .md, got {out}.")
        return endings[Path(out).suffix.lower()]
    if given not in FORMATS:
        from eyechart.core.registry import unknown_name

        raise unknown_name("format", given, FORMATS)
    if out is not None and Path(out).suffix.lower() != FORMATS[given]:
        raise UsageError(
            f"--format {given} goes into a file ending in {FORMATS[given]}, got {out}."
        )
    return given


def _target(out: Path | None, runs: list[Path], kind: str) -> Path:
    if out is not None:
        return Path(out)
    name = f"report{FORMATS[kind]}"
    return Path(runs[0]) / name if len(runs) == 1 else Path(name)


def _check_target(target: Path) -> None:
    """Refuse to write where it cannot be done, or over a file that is no report."""
    from eyechart.reports.html.page import is_page
    from eyechart.reports.terminal.model_card import is_card

    if not target.parent.is_dir() and not target.parent.exists():
        raise UsageError(f"No such folder: {target.parent}.")
    check_file_to_write(target)
    if target.is_symlink() or (target.exists() and not (is_page(target) or is_card(target))):
        raise UsageError(
            f"{target} is there already and is no report of eyechart: choose another --out."
        )


def _categories(given: "list[str] | tuple[str, ...]") -> dict[str, str]:
    from eyechart.core.registry import unknown_name
    from eyechart.models.published_study import CATEGORIES

    found = {}
    for text in given:
        name, equals, category = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"--category must be MODEL=CATEGORY, such as mine=ViT, got '{text}'.")
        known = {own.lower(): own for own in CATEGORIES}
        if category.lower() not in known:
            raise unknown_name("category", category, CATEGORIES)
        found[name] = known[category.lower()]
    return found


def _write(
    found: "Report",
    target: Path,
    kind: str,
    overlap: "OverlapPanel | None",
    structure: "Sequence[View]",
) -> Path:
    try:
        if kind == "md":
            from eyechart.reports.terminal.model_card import write_card

            return write_card(found, target)
        from eyechart.reports.html.report_page import write_report

        return write_report(found, target, overlap, structure)
    except OSError as error:
        raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None


def _say_address(address: str) -> None:
    print(f"{address}\nOpen it in a browser; Ctrl-C ends it.", flush=True)
