"""`eyechart overlap plot`: heat maps of overlap matrices, side by side."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.output import check_figure_file
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.printing import print_notes, print_written
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.reports.series.overlap import OverlapPanel

CLUSTER, GIVEN = "cluster", "given"
MOST = 4
"""Maximum number of heat maps side by side."""


@examples(
    "eyechart overlap plot overlap.csv --out overlap.png",
    "eyechart overlap plot first.csv second.csv --out both.pdf",
)
def plot(
    matrices: Annotated[
        list[Path],
        typer.Argument(
            metavar="MATRIX...",
            parser=folder_or_file,
            help="Overlap matrices (.csv), accuracy tables or study folders; at most four.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            parser=folder_or_file,
            help="Figure to write: .svg, .pdf or .png.",
        ),
    ],
    order: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Order of the corruptions: cluster (overlapping ones side by side), given (as in"
            " the file), or the suites and corruptions to show; repeatable.",
        ),
    ] = None,
    title: Annotated[
        list[str] | None,
        typer.Option(help="Title of each heat map; file names if omitted; repeatable."),
    ] = None,
) -> None:
    """Draw overlap matrices as heat maps, side by side."""
    from eyechart.reports.figures.figure_files import write_figure
    from eyechart.reports.figures.overlap_figure import draw_side_by_side
    from eyechart.reports.series.overlap import in_order

    check_figure_file(out)
    if len(matrices) > MOST:
        raise UsageError(f"At most {MOST} matrices fit side by side, got {len(matrices)}.")
    titles = list(title or [path.stem or path.name for path in map(Path, matrices)])
    if len(titles) != len(matrices):
        raise UsageError(
            f"--title must be given once for each matrix: {len(matrices)} matrices, got"
            f" {len(titles)}."
        )
    overlaps = [_read(Path(path)) for path in matrices]
    names = _order(overlaps, order or [CLUSTER])
    drawn = [in_order(overlap, names) for overlap in overlaps]
    caption = f"Overlap scores of {len(names)} corruptions: {', '.join(titles)}."
    write_figure(partial(draw_side_by_side, drawn, titles), out, caption)
    left_out = [name for name in _common(overlaps) if name not in names]
    if left_out:
        print_notes([f"Not shown, because --order does not include them: {', '.join(left_out)}."])
    print_written([out])


def _read(path: Path) -> "OverlapPanel":
    from eyechart.overlap.matrix_file import FILE, find_matrix, is_accuracy_table
    from eyechart.reports.series.overlap import as_overlap, read_overlap

    stored = path / FILE if (path / FILE).is_file() else path
    if stored.is_file() and not is_accuracy_table(stored):
        return read_overlap(stored)
    return as_overlap(find_matrix(path))


def _common(overlaps: "Sequence[OverlapPanel]") -> list[str]:
    """Return the corruptions that all matrices share, in the order of the first matrix."""
    return [
        name for name in overlaps[0].names if all(name in overlap.names for overlap in overlaps)
    ]


def _order(overlaps: "Sequence[OverlapPanel]", asked: Sequence[str]) -> list[str]:
    """Return the corruptions to show, each once, in the requested order."""
    from eyechart.core.registry import unknown_name
    from eyechart.corruptions.suites.catalogue import list_corruptions
    from eyechart.corruptions.suites.published import PUBLISHED
    from eyechart.reports.series.overlap import clustered, in_order

    common = _common(overlaps)
    if len(common) < 2:
        raise UsageError("The matrices must have at least 2 corruptions in common.")
    if {CLUSTER, GIVEN} & set(asked):
        if len(asked) > 1:
            raise UsageError(
                f"--order {CLUSTER} or {GIVEN} must be the only value, got {', '.join(asked)}."
            )
        first = in_order(overlaps[0], common)
        return common if asked[0] == GIVEN else list(clustered(first).names)
    names: list[str] = []
    for name in asked:
        if name in common:
            names.append(name)
        elif name in PUBLISHED or Path(name).suffix in (".yaml", ".yml"):
            names += [member for member in list_corruptions(name) if member in common]
        else:
            known = (CLUSTER, GIVEN, *PUBLISHED, *common)
            raise unknown_name("order", name, known)
    if len(set(names)) < 2:
        raise UsageError(f"--order {' '.join(asked)} leaves fewer than 2 corruptions to show.")
    return list(dict.fromkeys(names))
