"""`eyechart overlap matrix`, `compare` and `plot`: overlaps from accuracies."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options, examples, folder_or_file
from eyechart.cli.shared.output_files import FigureFile, check_figure_file, check_table
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.csv_table import write_cells
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.phrases import count_of
from eyechart.core.registry import unknown_name
from eyechart.corruptions.suites.published import PUBLISHED
from eyechart.overlap.overlap_settings import MatrixSettings

if TYPE_CHECKING:
    from eyechart.overlap.matrix import OverlapMatrix
    from eyechart.reports.series.overlap import OverlapPanel


FEW = 12
"""Maximum number of corruptions for which the whole matrix is printed."""

TESTS = "tests"
INTERVALS, FIGURE = "overlap-intervals.csv", "overlap.png"
"""Names of the files that are written into a study folder together with its matrix."""


@examples(
    "eyechart overlap matrix eyechart-overlap",
    "eyechart overlap matrix accuracies.csv --out overlap.csv --figure overlap.png",
)
@derived_options
def matrix(
    accuracies: Annotated[
        Path,
        Option(
            help="A CSV file (columns trained_on, clean and one per corruption), or a study"
            " folder.",
            group="Data",
            metavar="ACCURACIES",
            path="folder or file",
            is_argument=True,
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            help="Write the matrix.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None,
    figure: FigureFile = None,
    intervals: Annotated[
        Path | None,
        Option(
            help="With a study folder: write 95 % confidence intervals of all overlaps.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None,
    *,
    settings: MatrixSettings,
) -> None:
    """Compute the overlap matrix of corruptions from accuracies.

    The overlap of two corruptions is high if training on one improves robustness to the other.
    """
    if out is not None and out == intervals:
        raise UsageError("--out and --intervals must be different files.")
    for path in (out, intervals):
        check_table(path, accuracies)
    check_figure_file(figure)
    if intervals is not None and not (accuracies / TESTS).is_dir():
        raise UsageError(f"--intervals needs a study folder with its tests, got {accuracies}.")
    _show_overlaps(accuracies, settings, out, figure, intervals)


def show_study(folder: Path) -> None:
    """Print the overlaps of a finished study, and write them into its folder."""
    from eyechart.overlap.matrix_file import FILE

    intervals = folder / INTERVALS if (folder / TESTS).is_dir() else None
    _show_overlaps(folder, MatrixSettings(), folder / FILE, folder / FIGURE, intervals)


def _show_overlaps(
    accuracies: Path,
    settings: MatrixSettings,
    out: Path | None,
    figure: Path | None,
    intervals: Path | None,
) -> None:
    """Print the overlaps of a table or study, and write the files that are asked for."""
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies, read_hits
    from eyechart.overlap.matrix_file import write_matrix
    from eyechart.overlap.matrix_intervals import overlap_intervals
    from eyechart.reports.terminal.study_tables import interval_cells, matrix_table, nearest_table

    table = read_accuracies(accuracies)
    min_gain = settings.min_gain
    overlaps = table.matrix(min_gain, settings.classes or count_classes(accuracies))
    hits = read_hits(accuracies, table)
    sure = None
    if hits is not None:
        sure = overlap_intervals(
            hits, table.corruptions, n_bootstrap=settings.n_bootstrap, min_gain=min_gain
        )
    if len(overlaps) <= FEW:
        print_table(matrix_table(overlaps))
    print_table(nearest_table(overlaps, sure, table.seed_deviation(min_gain)), left=(0, 2))
    if sure is not None:
        seeds = f" and {sure.seeds} seeds" if sure.seeds > 1 else ""
        print(
            f"{100 * sure.level:g} % confidence intervals: {sure.n_bootstrap:,} bootstrap"
            f" replicates over {sure.n_images:,} test images{seeds}."
        )
    print_notes(overlaps.notes)
    if out is not None:
        write_matrix(overlaps, out)
    if intervals is not None and sure is not None:
        write_cells(intervals, interval_cells(sure))
    if figure is not None:
        from eyechart.reports.series.overlap import as_overlap

        draw_panel(as_overlap(overlaps), figure)
    print_written((out, intervals, figure))


@examples(
    "eyechart overlap compare first.csv second.csv",
    "eyechart overlap compare first.csv second.csv --threshold 0.5",
)
@derived_options
def compare(
    one: Annotated[
        Path,
        typer.Argument(
            metavar="ONE",
            parser=folder_or_file,
            help="Overlap matrix (.csv), accuracy table (.csv), or study folder.",
        ),
    ],
    two: Annotated[
        Path,
        typer.Argument(
            metavar="TWO",
            parser=folder_or_file,
            help="A second matrix, table or study folder to compare with the first.",
        ),
    ],
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            help="Also compare selections at this threshold; repeatable.",
            rich_help_panel="Curves and statistics",
        ),
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE",
            help="Compare only corruptions of this suite; repeatable.",
            rich_help_panel="Corruptions",
        ),
    ] = None,
    *,
    settings: Annotated[MatrixSettings, Only("min_gain")],
) -> None:
    """Compare two overlap matrices and the corruptions selected from them."""
    from eyechart.overlap.matrix_file import find_matrix
    from eyechart.overlap.matrix_intervals import compare_matrices
    from eyechart.overlap.selection import select_non_overlapping

    first, second = (matrix_among(find_matrix(path, settings), among or []) for path in (one, two))
    comparison = compare_matrices(first, second)
    low, high = comparison.interval
    print(
        f"{comparison.pairs:,} pairs among {len(comparison.corruptions)} corruptions: rank"
        f" correlation {comparison.rank:.3f} (95 % interval {low:.3f} to {high:.3f}, over"
        f" corruptions), linear {comparison.linear:.3f}, mean difference"
        f" {comparison.difference:.3f}; overlaps in the second matrix are"
        f" {abs(comparison.shift):.3f} {'higher' if comparison.shift >= 0 else 'lower'} on average."
    )
    first, second = first.only(comparison.corruptions), second.only(comparison.corruptions)
    for highest in threshold or []:
        try:
            one_set, two_set = (
                set(select_non_overlapping(matrix, highest).members) for matrix in (first, second)
            )
        except UsageError as error:
            print(f"At threshold {highest:g}: {error}")
            continue
        both = sorted(one_set & two_set)
        print(
            f"At threshold {highest:g}: {len(one_set)} corruptions are selected from the first"
            f" matrix and {len(two_set)} from the second, {len(both)} from both"
            f" ({', '.join(both) or 'none'})."
        )
    for path, matrix in ((one, first), (two, second)):
        print_notes(f"{path}: {note}" for note in matrix.notes)


def matrix_among(matrix: "OverlapMatrix", suites: Sequence[str]) -> "OverlapMatrix":
    """Return the matrix, restricted to corruptions that are in any of the suites."""
    from eyechart.corruptions.suites.suite import load_suite

    if not suites:
        return matrix
    wanted = {entry.name for name in suites for entry in load_suite(name)}
    kept = [name for name in matrix.names if name in wanted]
    if len(kept) < 2:
        raise UsageError(
            f"--among {' '.join(suites)} leaves {count_of(len(kept), 'corruption')} of the matrix:"
            " give a suite with at least 2 of them."
        )
    return matrix.only(kept)


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
    titles = list(title or [path.stem or path.name for path in matrices])
    if len(titles) != len(matrices):
        raise UsageError(
            f"--title must be given once for each matrix: {len(matrices)} matrices, got"
            f" {len(titles)}."
        )
    overlaps = [_read_panel(path) for path in matrices]
    names = _order(overlaps, order or [CLUSTER])
    drawn = [in_order(overlap, names) for overlap in overlaps]
    caption = f"Overlap scores of {len(names)} corruptions: {', '.join(titles)}."
    write_figure(partial(draw_side_by_side, drawn, titles), out, caption)
    left_out = [name for name in _common(overlaps) if name not in names]
    if left_out:
        print_notes([f"Not shown, because --order does not include them: {', '.join(left_out)}."])
    print_written([out])


def _read_panel(path: Path) -> "OverlapPanel":
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
    from eyechart.corruptions.suites.catalogue import list_corruptions
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


def draw_panel(overlap: "OverlapPanel", path: Path) -> None:
    """Write the heat map, with overlapping corruptions adjacent and selected ones highlighted."""
    from eyechart.reports.figures.figure_files import write_figure
    from eyechart.reports.figures.overlap_figure import draw_heat_map, heat_map_caption
    from eyechart.reports.series.overlap import clustered

    write_figure(partial(draw_heat_map, clustered(overlap)), path, heat_map_caption(overlap))
