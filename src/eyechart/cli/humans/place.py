"""`eyechart humans place`: measure the Δv of published experimental conditions on your images."""

from pathlib import Path
from typing import Annotated

import typer

from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import check_file_to_write, folder_or_file
from eyechart.core.phrases import count_of


@examples(
    "eyechart humans place photos --out placement.csv",
    "eyechart humans place photos/cat photos/dog --out placement.csv",
)
def place_conditions(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES…", parser=folder_or_file, help="Image files or folders."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE.csv", parser=folder_or_file, help="File to write.")
    ],
) -> None:
    """Measure the visual change of published experimental conditions on your images."""
    from eyechart.humans.placement import LEVELS, measure_placements, write_placements

    check_file_to_write(out)
    placements, count = measure_placements(images)
    write_placements(out, placements, count)
    for name, placement in placements.items():
        middles = (f"{changes[len(LEVELS) // 2]:.2f}" for changes in placement.quantiles.values())
        print(f"{name}: median Δv {', '.join(middles)}")
    print(f"{out}: quantiles of Δv over {count_of(count, 'image')}.")
