"""`eyechart overlap select`: the largest benchmark without overlaps, as a list and as a suite."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.compare import matrix_among
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
    from eyechart.overlap.matrix import OverlapMatrix
    from eyechart.overlap.selection import Selection, ThresholdRange
    from eyechart.suites.suite import Suite

TIES = 5
"""Sets that are as good that are printed."""


def select(
    matrix: Annotated[
        Path,
        typer.Argument(
            metavar="MATRIX",
            parser=folder_or_file,
            help="Overlaps (.csv), an accuracy table (.csv), or a study's folder.",
        ),
    ],
    threshold: Annotated[
        float | None, typer.Option(help="The overlap that two corruptions may have, such as 0.1.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print the selection for every threshold there is.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            parser=folder_or_file,
            help="Write the selection as a suite that eyechart evaluate --suite runs.",
        ),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="With --out: suites or suite files that the corruptions come from; repeatable."
            " Without it those of the study's folder, or the published ones."
        ),
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE", help="Choose only among corruptions of this suite; repeatable."
        ),
    ] = None,
    marked: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            parser=folder_or_file,
            help="Write the matrix with a column that says which are selected.",
        ),
    ] = None,
    picture: Picture = None,
    least_gain: LeastGain = 0.02,
    classes: Classes = None,
) -> None:
    """Print the largest set of corruptions that do not overlap, and of those the least overlapping.

    Exact; sets that are as good are all printed. With --picture: the heat map with the selection
    set off, or with --all the size for every threshold.
    """
    _check_selecting(threshold, every, out, suite, marked)
    check_picture(picture)
    check_table(marked, matrix)
    from eyechart.overlap.accuracy_table import count_classes
    from eyechart.overlap.matrix_file import find_matrix, write_matrix
    from eyechart.overlap.selection import select_at_every_threshold, select_non_overlapping

    own = find_matrix(matrix, least_gain, classes or count_classes(matrix))
    own = matrix_among(own, among or [])
    suites = _suites(suite, matrix) if out is not None else []
    steps = select_at_every_threshold(own) if every else ()
    if steps:
        _print_steps(steps)
    found = None
    if threshold is not None:
        found = select_non_overlapping(own, threshold)
        _print_selection(found)
    print_notes(own.notes)
    if suites and not suite and not _has_suite(matrix):
        print_notes(["Strengths are the published ones: give --suite if others were used."])
    if found is not None and out is not None:
        _write_benchmark(found, suites, out, matrix)
    if found is not None and marked is not None:
        write_matrix(own, marked, found.members)
    if picture is not None:
        _draw_selection(own, found, steps, picture)
    print_written((out, marked, picture))


def _print_steps(steps: "Sequence[ThresholdRange[str]]") -> None:
    from eyechart.reports.terminal.overlap_tables import step_table, up

    print_table(step_table(steps), left=(5,))
    if steps[0].low > 0:
        print(f"Below {up(steps[0].low)} no two corruptions may stand together.")


def _print_selection(found: "Selection[str]") -> None:
    print(
        f"{len(found)} corruptions overlap by {found.threshold:g} or less, by"
        f" {found.mean_overlap:.4f} on average:"
    )
    print(f"  {', '.join(found.members)}")
    if found.ties:
        many = f"{len(found.ties):,}{' and more' if found.more_ties else ''}"
        print(f"As good ({many}):")
        for members in found.ties[:TIES]:
            print(f"  {', '.join(members)}")
        if len(found.ties) > TIES:
            print(f"  … and {len(found.ties) - TIES:,} more")
    if found.left_out:
        print(f"Left out, for their overlaps are undetermined: {', '.join(found.left_out)}.")


def _check_selecting(
    threshold: float | None,
    every: bool,
    out: Path | None,
    suite: list[str] | None,
    marked: Path | None,
) -> None:
    if threshold is None and not every:
        raise UsageError("Say how much corruptions may overlap, --threshold 0.1, or give --all.")
    if threshold is None and (out is not None or marked is not None):
        raise UsageError("--out and --marked write one selection: say which by --threshold.")
    if out is not None and any(Path(name).resolve() == out.resolve() for name in suite or ()):
        raise UsageError(f"--out would overwrite {out}, from which --suite reads: name another.")
    if suite and out is None:
        raise UsageError("--suite is where --out takes its corruptions from: give --out too.")
    if out is not None:
        from eyechart.suites.suite_file import check_suite_path

        check_suite_path(out)


def _has_suite(matrix: Path) -> bool:
    from eyechart.overlap.study_run import SUITE

    return (matrix / SUITE).is_file()


def _suites(given: list[str] | None, matrix: Path) -> "list[Suite]":
    """Return where corruptions come from: as given, the study's own, or the published ones."""
    from eyechart.overlap.study_run import SUITE
    from eyechart.suites.published import PUBLISHED
    from eyechart.suites.suite import load_suite

    if not given and _has_suite(matrix):
        return [load_suite(str(matrix / SUITE))]
    return [load_suite(name) for name in given or PUBLISHED]


def _write_benchmark(
    found: "Selection[str]", suites: "list[Suite]", out: Path, source: Path
) -> None:
    from eyechart.core.registry import unknown_name
    from eyechart.suites.suite_file import choose_entries, write_suite

    known = {entry.name for suite in suites for entry in suite}
    for name in found.members:
        # the same word in another suite is another corruption
        if name not in known:
            raise unknown_name("corruption in these suites:", name, known)

    suite = choose_entries(
        suites,
        found.members,
        out.stem,
        f"{len(found)} corruptions that overlap by {found.threshold:g} or less",
        f"Selected from {source.name} by eyechart overlap select --threshold"
        f" {found.threshold:g}; mean overlap {found.mean_overlap:.4f}.",
    )
    write_suite(suite, out)


def _draw_selection(
    own: "OverlapMatrix",
    found: "Selection[str] | None",
    steps: "Sequence[ThresholdRange[str]]",
    picture: Path,
) -> None:
    from eyechart.reports.figures.overlap_plot import draw_overlap, draw_sizes
    from eyechart.reports.series.overlap import as_overlap

    if steps:
        draw_sizes(steps, picture, None if found is None else found.threshold)
    elif found is not None:
        draw_overlap(as_overlap(own, found.members, found.threshold), picture)
