"""`eyechart overlap matrix`: overlaps from accuracies, with intervals where a study has them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.output import (
    Classes,
    LeastGain,
    Picture,
    check_picture,
    check_table,
    print_notes,
    print_table,
    print_written,
)
from eyechart.cli.shared.paths import folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.curves.bins import Numbers
    from eyechart.overlap.matrix import OverlapMatrix
    from eyechart.overlap.matrix_intervals import OverlapIntervals

FEW = 12
"""Corruptions up to which all scores are printed."""

TESTS = "tests"
INTERVALS, PICTURE = "overlap-intervals.csv", "overlap.png"
"""What a study's folder holds beside its matrix."""


def matrix(
    accuracies: Annotated[
        Path,
        typer.Argument(
            metavar="ACCURACIES",
            parser=folder_or_file,
            help="A CSV file (trained_on, clean, a column for each corruption), or a study's"
            " folder.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", parser=folder_or_file, help="Where the matrix is written."
        ),
    ] = None,
    picture: Picture = None,
    intervals: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            parser=folder_or_file,
            help="With a study's folder: write 95 % intervals of all scores.",
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(help="For intervals: resampled sets.")] = 1000,
    least_gain: LeastGain = 0.02,
    classes: Classes = None,
) -> None:
    """Print how much corruptions overlap: does training on one help against the other?"""
    if out is not None and out == intervals:
        raise UsageError("--out and --intervals are two tables: give each a name of its own.")
    for path in (out, intervals):
        check_table(path, accuracies)
    check_picture(picture)
    if intervals is not None and not (accuracies / TESTS).is_dir():
        raise UsageError(
            "--intervals resamples test pictures: give the folder of a study with its tests, not"
            f" {accuracies}."
        )
    _make(accuracies, out, picture, intervals, replicates, least_gain, classes)


def show_study(folder: Path) -> None:
    """Print the overlaps of a finished study, and write them into its folder."""
    from eyechart.overlap.matrix_file import FILE

    sure = folder / INTERVALS if (folder / TESTS).is_dir() else None
    _make(folder, folder / FILE, folder / PICTURE, sure)


def _make(
    source: Path,
    out: Path | None,
    picture: Path | None,
    intervals: Path | None,
    replicates: int = 1000,
    least_gain: float = 0.02,
    classes: int | None = None,
) -> None:
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies, read_hits
    from eyechart.overlap.matrix_intervals import overlap_intervals

    table = read_accuracies(source)
    own = table.matrix(least_gain, classes or count_classes(source))
    hits = read_hits(source, table)
    sure = None
    if hits is not None:
        sure = overlap_intervals(
            hits, table.corruptions, replicates=replicates, least_gain=least_gain
        )
    _print_matrix(own, sure, table.seed_deviation(least_gain))
    if out is not None:
        from eyechart.overlap.matrix_file import write_matrix

        write_matrix(own, out)
    if intervals is not None and sure is not None:
        from eyechart.core.csv_table import write_cells
        from eyechart.reports.terminal.overlap_tables import interval_cells

        write_cells(intervals, interval_cells(sure))
    if picture is not None:
        from eyechart.reports.figures.overlap_plot import draw_overlap
        from eyechart.reports.series.overlap import as_overlap

        draw_overlap(as_overlap(own), picture)
    print_written((out, intervals, picture))


def _print_matrix(
    own: "OverlapMatrix", sure: "OverlapIntervals | None", seed_deviation: "Numbers | None"
) -> None:
    from eyechart.reports.terminal.overlap_tables import matrix_table, nearest_table

    if len(own) <= FEW:
        print_table(matrix_table(own))
    print_table(nearest_table(own, sure, seed_deviation), left=(0, 2))
    if sure is not None:
        seeds = f" and {sure.seeds} seeds" if sure.seeds > 1 else ""
        print(
            f"{100 * sure.level:g} % intervals: {sure.replicates:,} times {sure.pictures:,} test"
            f" pictures{seeds} drawn with replacement."
        )
    print_notes(own.notes)
