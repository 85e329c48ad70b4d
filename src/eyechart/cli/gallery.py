"""`eyechart gallery`: one image under every corruption of a suite, as a PNG or an HTML page."""

from pathlib import Path
from typing import Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.output_files import check_file_to_write
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.storage.files import atomic_file
from eyechart.testsets.testset_settings import SUITE
from eyechart.visual_change.registry import MeasureSettings


@examples(
    "eyechart gallery cat.png",
    "eyechart gallery cat.png --delta-v 0.2 --delta-v 0.5 --out gallery.html",
)
@derived_options
def gallery(
    image: Annotated[
        Path, Option(help="An image file.", group="Data", metavar="IMAGE", is_argument=True)
    ],
    suite: Annotated[str, Option(help="Suite name or YAML file.", group="Corruptions")] = SUITE,
    columns: Annotated[
        int, Option(help="Number of severities, without --delta-v.", group="Corruptions")
    ] = 5,
    delta_v: Annotated[
        tuple[float, ...],
        Option(
            help="Show every corruption at this visual change Δv, as near as it gets; repeatable.",
            group="Corruptions",
        ),
    ] = (),
    size: Annotated[int, Option(help="Side of each image in pixels.", group="Output")] = 224,
    seed: Annotated[int, Option(help="Random seed.", group="Compute")] = 0,
    out: Annotated[
        tuple[Path, ...],
        Option(
            help="A .png or .html file; repeatable.",
            group="Output",
            flags=("--out", "-o"),
        ),
    ] = (Path("gallery.png"),),
    *,
    measure: Annotated[MeasureSettings, Only("ruler")],
) -> None:
    """Draw an image under every corruption, as .png or .html."""
    from eyechart.core.randomness import check_seed
    from eyechart.corruptions.suites.suite import load_suite
    from eyechart.images.identity import file_digest
    from eyechart.images.image_files import read_image, write_image
    from eyechart.reports.figures.image_sheets import draw_sheet
    from eyechart.reports.html.page import render_gallery
    from eyechart.reports.series.gallery import make_gallery

    if image.is_dir():
        raise UsageError(f"Give one image file, got the folder {image}.")
    for target in out:
        if target.suffix.lower() not in (".png", ".html"):
            raise UsageError(f"--out must end in .png or .html, got {target}.")
        check_file_to_write(target)
        if target.exists() and image.exists() and target.samefile(image):
            raise UsageError(f"{target} is the image itself: choose another file for --out.")
    check_seed(seed)
    sheet = make_gallery(
        read_image(image),
        load_suite(suite),
        name=image.name,
        key=file_digest(image),
        columns=columns,
        size=size,
        seed=seed,
        ruler=measure.ruler,
        delta_v=delta_v,
    )
    for target in out:
        try:
            if target.suffix.lower() == ".png":
                write_image(draw_sheet(sheet), target)
            else:
                with atomic_file(target) as temporary:
                    # names of files and suites may contain characters that UTF-8 cannot encode
                    temporary.write_text(render_gallery(sheet), encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"Cannot write {target}: {error.strerror or error}.") from None
        print(target)
