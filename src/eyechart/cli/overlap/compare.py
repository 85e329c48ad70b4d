"""`eyechart overlap compare`: do two networks, or two ways of training, find the same overlaps?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.output import LeastGain, print_notes
from eyechart.cli.shared.paths import folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.overlap.matrix import OverlapMatrix


def compare(
    one: Annotated[
        Path,
        typer.Argument(
            metavar="ONE",
            parser=folder_or_file,
            help="Overlaps (.csv), an accuracy table (.csv), or a study's folder.",
        ),
    ],
    two: Annotated[
        Path, typer.Argument(metavar="TWO", parser=folder_or_file, help="The same of another.")
    ],
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="Also compare what is selected at this threshold; repeatable."),
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option(metavar="SUITE", help="Only corruptions of this suite; repeatable."),
    ] = None,
    least_gain: LeastGain = 0.02,
) -> None:
    """Print how alike two overlap matrices are, and whether they select the same corruptions."""
    from eyechart.overlap.matrix_comparison import compare_matrices
    from eyechart.overlap.matrix_file import find_matrix

    first, second = (
        matrix_among(find_matrix(path, least_gain), among or []) for path in (one, two)
    )
    found = compare_matrices(first, second)
    low, high = found.interval
    print(
        f"{found.pairs:,} pairs among {len(found.corruptions)} corruptions: rank correlation"
        f" {found.rank:.3f} (95 % interval {low:.3f} to {high:.3f}, over corruptions), linear"
        f" {found.linear:.3f}, mean difference {found.difference:.3f}, the second"
        f" {abs(found.shift):.3f} {'higher' if found.shift >= 0 else 'lower'} on average."
    )
    first, second = first.only(found.corruptions), second.only(found.corruptions)
    for each in threshold or []:
        _print_selected(first, second, each)
    for path, matrix in ((one, first), (two, second)):
        print_notes(f"{path}: {note}" for note in matrix.notes)


def _print_selected(one: "OverlapMatrix", two: "OverlapMatrix", threshold: float) -> None:
    from eyechart.overlap.selection import select_non_overlapping

    sets = []
    for matrix in (one, two):
        try:
            sets.append(set(select_non_overlapping(matrix, threshold).members))
        except UsageError as error:
            print(f"At {threshold:g}: {error}")
            return
    both = sorted(sets[0] & sets[1])
    print(
        f"At {threshold:g}: {len(sets[0])} and {len(sets[1])} are selected, {len(both)} by both"
        f" ({', '.join(both) or 'none'})."
    )


def matrix_among(matrix: "OverlapMatrix", suites: list[str]) -> "OverlapMatrix":
    """Return the matrix of those corruptions alone that are in any of the suites."""
    from eyechart.suites.suite import load_suite

    if not suites:
        return matrix
    wanted = {entry.name for name in suites for entry in load_suite(name)}
    kept = [name for name in matrix.names if name in wanted]
    if len(kept) < 2:
        raise UsageError(
            f"--among {' '.join(suites)} leaves {len(kept)} corruptions of the matrix: name a suite"
            " of which it has more."
        )
    return matrix.only(kept)
