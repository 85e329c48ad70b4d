"""`eyechart structure report`: write an HTML report on structure studies."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write, folder, folder_or_file
from eyechart.core.errors import UsageError


@examples(
    "eyechart structure report eyechart-style",
    "eyechart structure report style subclass --out structure.html",
)
def report(
    studies: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY...",
            parser=folder,
            help="Study folders (--out of structure style, subclass or superclass).",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            parser=folder_or_file,
            help="File to write; structure.html if omitted.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=folder,
            help="Also draw accuracy on seen and unseen subclasses against ImageNet-1K accuracy,"
            " as SVG and PDF.",
        ),
    ] = None,
) -> None:
    """Write an HTML report on finished structure studies."""
    from eyechart.reports.html.page import is_page
    from eyechart.reports.html.structure_view import write_structure_page

    folders = [Path(study) for study in studies]
    for folder_of_study in folders:
        if not folder_of_study.is_dir():
            raise UsageError(f"No such folder: {folder_of_study}.")
    target = out or (folders[0] if len(folders) == 1 else Path()) / "structure.html"
    if target.suffix.lower() != ".html":
        raise UsageError(f"--out must end in .html, got {target}.")
    check_file_to_write(target)
    if target.exists() and not is_page(target):
        raise UsageError(f"{target} already exists and is not a report: choose another --out.")
    written = [write_structure_page(folders, target)]
    if figures is not None:
        written += _draw(folders, figures)
    print(f"Written: {', '.join(map(str, written))}")


def _draw(studies: list[Path], out: Path) -> list[Path]:
    """Write the figures of superclass studies, and print what could not be drawn."""
    from eyechart.reports.figures.figure_files import write_drawings
    from eyechart.reports.figures.superclass_figure import plan_superclasses
    from eyechart.reports.series.superclass_scatter import superclass_studies

    results = superclass_studies(studies)
    if not results:
        print("Note: no figures were drawn, because no study is about superclasses.")
        return []
    planned = plan_superclasses(results)
    for note in planned.notes:
        print(f"Note: {note}")
    return write_drawings(planned.drawings, out)
