"""`eyechart overlap compare`: how well two overlap matrices agree."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.paths import folder_or_file
from eyechart.cli.shared.printing import print_notes
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.overlap.overlap_settings import MatrixSettings

if TYPE_CHECKING:
    from eyechart.overlap.matrix import OverlapMatrix


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
    from eyechart.overlap.matrix_comparison import compare_matrices
    from eyechart.overlap.matrix_file import find_matrix

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
        _print_selected(first, second, highest)
    for path, matrix in ((one, first), (two, second)):
        print_notes(f"{path}: {note}" for note in matrix.notes)


def _print_selected(one: "OverlapMatrix", two: "OverlapMatrix", threshold: float) -> None:
    from eyechart.overlap.selection import select_non_overlapping

    sets = []
    for matrix in (one, two):
        try:
            sets.append(set(select_non_overlapping(matrix, threshold).members))
        except UsageError as error:
            print(f"At threshold {threshold:g}: {error}")
            return
    both = sorted(sets[0] & sets[1])
    print(
        f"At threshold {threshold:g}: {len(sets[0])} corruptions are selected from the first matrix"
        f" and {len(sets[1])} from the second, {len(both)} from both ({', '.join(both) or 'none'})."
    )


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
