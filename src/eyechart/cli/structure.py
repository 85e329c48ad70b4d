"""`eyechart structure`: build icon datasets, and report on structure studies."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.holdout import style, subclass
from eyechart.cli.shared.derived_options import examples, folder, folder_or_file
from eyechart.cli.shared.help import CommandLine
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.cli.shared.printing import print_notes
from eyechart.cli.shared.progress import ProgressBars
from eyechart.cli.shared.stop import on_interrupt
from eyechart.cli.superclass import superclass
from eyechart.core.arguments import resolved_path
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable


icons = CommandLine(help="Build icon datasets with 50 classes in several styles.")


@icons.command("build")
@examples(
    "eyechart structure icons build",
    "eyechart structure icons build --size 64 --from packages --out icons64",
)
def build(
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", parser=folder, help="Output folder."),
    ] = Path("icons"),
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            parser=folder,
            help="Folder of packages made with npm pack, instead of downloading them.",
        ),
    ] = None,
    size: Annotated[int, typer.Option(help="Width and height of each icon in px.")] = 32,
    style: Annotated[
        list[str] | None,
        typer.Option(help="Draw only this style; repeatable; all eight if omitted."),
    ] = None,
) -> None:
    """Draw icons for the 50 classes of ICONS-50 in eight styles.

    Without --from, npm downloads nine packages (27 MB) into FOLDER.npm, where the next run finds
    them. Run the same command again to resume.
    """
    from eyechart.structure.icon_builder import LICENSES, LIST, build_icons
    from eyechart.structure.npm_packages import STYLES

    if source is not None:
        if source.is_file():
            raise UsageError(
                f"{source} is a file: give --from the folder that contains the packages."
            )
        if not source.is_dir():
            raise UsageError(f"No such folder: {source}.")
    # "." and ".." have no name
    named = out if out.name not in ("", "..") else resolved_path(out)
    packages = source or named.parent / f"{named.name}.npm"
    if source is None:
        print(f"Packages are downloaded with npm into {packages}.")
    with (
        on_interrupt("Stopped: run the same command again to resume."),
        ProgressBars() as bars,
    ):
        icons_drawn, repeated, broken = build_icons(
            out,
            packages,
            side=size,
            styles=style or list(STYLES),
            is_fetched=source is None,
            progress=bars,
        )
    classes = Counter(icon.label for icon in icons_drawn)
    print(f"Written: {len(icons_drawn):,} icons of {len(classes)} classes to {out / LIST}.")
    by_style = Counter(icon.style for icon in icons_drawn)
    print("Icons by style: " + _counts(by_style.items()) + ".")
    thin = sorted(classes.items(), key=lambda item: item[1])[:5]
    print("Fewest icons by class: " + _counts(thin) + ".")
    if repeated:
        pairs = ", ".join(
            f"{count} in {first} (not {second})"
            for (first, second), count in repeated.most_common()
        )
        print(f"Drawings shared by two styles, kept in one style only: {pairs}.")
    else:
        print("No two styles share a drawing.")
    if broken:
        print(f"Skipped as broken: {', '.join(broken)}.")
    print(f"Authors and licenses: {out / LICENSES}.")


@icons.command("original")
@examples(
    "eyechart structure icons original Icons-50",
    "eyechart structure icons original Icons-50.npy --out icons50",
)
def original(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            parser=folder_or_file,
            help="The published ICONS-50: the folder with its class folders, or its .npy file.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=folder, help="Output folder.")
    ] = Path("icons50"),
) -> None:
    """Prepare the original ICONS-50 dataset for structure studies."""
    from eyechart.structure.icon_builder import LIST
    from eyechart.structure.icons50 import import_icons50

    with (
        on_interrupt("Stopped: run the same command again to resume."),
        ProgressBars() as bars,
    ):
        count = import_icons50(source, out, bars)
    print(f"Written: {count_of(count, 'icon')} to {out / LIST}.")


def _counts(by_name: "Iterable[tuple[str, int]]") -> str:
    return ", ".join(f"{name} {count:,}" for name, count in by_name)


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

    for study in studies:
        if not study.is_dir():
            raise UsageError(f"No such folder: {study}.")
    target = out or (studies[0] if len(studies) == 1 else Path()) / "structure.html"
    if target.suffix.lower() != ".html":
        raise UsageError(f"--out must end in .html, got {target}.")
    check_file_to_write(target)
    if target.exists() and not is_page(target):
        raise UsageError(f"{target} already exists and is not a report: choose another --out.")
    written = [write_structure_page(studies, target)]
    if figures is not None:
        from eyechart.reports.figures.figure_files import write_drawings
        from eyechart.reports.figures.paper_style import split_planned
        from eyechart.reports.figures.study_figures import plan_superclasses
        from eyechart.reports.series.superclass_scatter import superclass_studies

        results = superclass_studies(studies)
        if results:
            drawings, notes = split_planned(plan_superclasses(results))
            print_notes(notes)
            written += write_drawings(drawings, figures)
        else:
            print_notes(["no figures were drawn, because no study is about superclasses."])
    print(f"Written: {', '.join(map(str, written))}")


app = CommandLine(
    help="Test models on held-out styles, subclasses and superclasses.",
    commands={
        "icons": icons,
        "style": style,
        "subclass": subclass,
        "superclass": superclass,
        "report": report,
    },
)
