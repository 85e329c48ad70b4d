"""`eyechart gallery`: one picture under every corruption of a suite, as a picture or a page."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.paths import check_file_to_write
from eyechart.core.errors import UsageError

SUFFIXES = (".png", ".html")


def gallery(
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="A picture file.")],
    suite: Annotated[
        str, typer.Option(help="A suite's name, or a YAML file of one's own.")
    ] = "vcr",
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help="gallery.png or gallery.html; can be repeated."),
    ] = None,
    columns: Annotated[int, typer.Option(help="How many strengths to show.")] = 5,
    size: Annotated[int, typer.Option(help="Side of each picture in pixels.")] = 224,
    seed: Annotated[int, typer.Option(help="Another seed gives other random parts.")] = 0,
) -> None:
    """Make a labelled contact sheet, corruption by strength: a picture (.png) or a page (.html)."""
    from eyechart.core.files import atomic_file
    from eyechart.core.randomness import check_seed
    from eyechart.images.identity import file_digest
    from eyechart.images.image_files import read_picture, write_picture
    from eyechart.reports.figures.gallery_sheet import draw_sheet
    from eyechart.reports.html.gallery_page import render_page
    from eyechart.reports.series.gallery import make_gallery
    from eyechart.suites.suite import load_suite

    targets = out or [Path("gallery.png")]
    _check(picture, targets)
    check_seed(seed)
    shown = make_gallery(
        read_picture(picture),
        load_suite(suite),
        name=picture.name,
        key=file_digest(picture),
        columns=columns,
        size=size,
        seed=seed,
    )
    for target in targets:
        try:
            if target.suffix.lower() == ".png":
                write_picture(draw_sheet(shown), target)
            else:
                with atomic_file(target) as temporary:
                    # Names of files and suites may hold what is no text.
                    temporary.write_text(render_page(shown), encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
        print(target)


def _check(picture: Path, targets: list[Path]) -> None:
    if picture.is_dir():
        raise UsageError(f"Give one picture, got the folder {picture}.")
    for target in targets:
        if target.suffix.lower() not in SUFFIXES:
            raise UsageError(f"--out must end in .png or .html, got {target}.")
        check_file_to_write(target)
        if target.exists() and picture.exists() and target.samefile(picture):
            raise UsageError(f"{target} is the picture itself: choose another file for --out.")
