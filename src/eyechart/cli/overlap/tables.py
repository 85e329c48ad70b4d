"""`eyechart overlap matrix`: overlaps from accuracies, with confidence intervals for studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.output import FigureFile, check_figure_file, check_table, draw_panel
from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.overlap.overlap_settings import MatrixSettings

if TYPE_CHECKING:
    from eyechart.core.arrays import FloatArray
    from eyechart.overlap.matrix import OverlapMatrix
    from eyechart.overlap.matrix_intervals import OverlapIntervals

FEW = 12
"""Maximum number of corruptions for which the whole matrix is printed."""

TESTS = "tests"
INTERVALS, FIGURE = "overlap-intervals.csv", "overlap.png"
"""Names of the files that are written into a study folder together with its matrix."""


@dataclass(frozen=True, kw_only=True)
class MatrixFiles:
    """Settings of `eyechart overlap matrix`: accuracies and output files."""

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
    ]
    out: Annotated[
        Path | None,
        Option(
            help="Write the matrix.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None
    figure: FigureFile = None
    intervals: Annotated[
        Path | None,
        Option(
            help="With a study folder: write 95 % confidence intervals of all overlaps.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None

    def check(self) -> None:
        """Raise a UsageError unless all files can be written."""
        if self.out is not None and self.out == self.intervals:
            raise UsageError("--out and --intervals must be different files.")
        for path in (self.out, self.intervals):
            check_table(path, self.accuracies)
        check_figure_file(self.figure)
        if self.intervals is not None and not (self.accuracies / TESTS).is_dir():
            raise UsageError(
                f"--intervals needs a study folder with its tests, got {self.accuracies}."
            )


@examples(
    "eyechart overlap matrix eyechart-overlap",
    "eyechart overlap matrix accuracies.csv --out overlap.csv --figure overlap.png",
)
@derived_options
def matrix(files: MatrixFiles, settings: MatrixSettings) -> None:
    """Compute the overlap matrix of corruptions from accuracies.

    The overlap of two corruptions is high if training on one improves robustness to the other.
    """
    files.check()
    _make(files, settings)


def show_study(folder: Path) -> None:
    """Print the overlaps of a finished study, and write them into its folder."""
    from eyechart.overlap.matrix_file import FILE

    files = MatrixFiles(
        accuracies=folder,
        out=folder / FILE,
        figure=folder / FIGURE,
        intervals=folder / INTERVALS if (folder / TESTS).is_dir() else None,
    )
    _make(files, MatrixSettings())


def _make(files: MatrixFiles, settings: MatrixSettings) -> None:
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies, read_hits
    from eyechart.overlap.matrix_intervals import overlap_intervals

    table = read_accuracies(files.accuracies)
    min_gain = settings.min_gain
    overlaps = table.matrix(min_gain, settings.classes or count_classes(files.accuracies))
    hits = read_hits(files.accuracies, table)
    sure = None
    if hits is not None:
        sure = overlap_intervals(
            hits, table.corruptions, n_bootstrap=settings.n_bootstrap, min_gain=min_gain
        )
    _print_matrix(overlaps, sure, table.seed_deviation(min_gain))
    if files.out is not None:
        from eyechart.overlap.matrix_file import write_matrix

        write_matrix(overlaps, files.out)
    if files.intervals is not None and sure is not None:
        from eyechart.core.csv_table import write_cells
        from eyechart.reports.terminal.overlap_tables import interval_cells

        write_cells(files.intervals, interval_cells(sure))
    if files.figure is not None:
        from eyechart.reports.series.overlap import as_overlap

        draw_panel(as_overlap(overlaps), files.figure)
    print_written((files.out, files.intervals, files.figure))


def _print_matrix(
    overlaps: "OverlapMatrix", sure: "OverlapIntervals | None", seed_deviation: "FloatArray | None"
) -> None:
    from eyechart.reports.terminal.overlap_tables import matrix_table, nearest_table

    if len(overlaps) <= FEW:
        print_table(matrix_table(overlaps))
    print_table(nearest_table(overlaps, sure, seed_deviation), left=(0, 2))
    if sure is not None:
        seeds = f" and {sure.seeds} seeds" if sure.seeds > 1 else ""
        print(
            f"{100 * sure.level:g} % confidence intervals: {sure.n_bootstrap:,} bootstrap"
            " replicates"
            f" over {sure.n_images:,} test images{seeds}."
        )
    print_notes(overlaps.notes)
