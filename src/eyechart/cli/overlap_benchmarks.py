"""`eyechart overlap balance` and `coverage`: what a benchmark rewards, and what it speaks for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap_output import (
    LeastGain,
    check_picture,
    check_table,
    print_notes,
    print_table,
    print_written,
)
from eyechart.cli.paths import folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.overlap.balance import Balance
    from eyechart.overlap.error_intervals import Resampled
    from eyechart.overlap.scores import OverlapMatrix
    from eyechart.overlap.tables import AccuracyTable

FEW = 16
"""Corruptions up to which all corruption errors are printed."""

Accuracies = Annotated[
    Path,
    typer.Argument(
        metavar="ACCURACIES",
        parser=folder_or_file,
        help="A CSV file (trained_on, clean, a column for each corruption), or a study's folder.",
    ),
]
BaselineName = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="Whose errors are divided by: standard, the table's own model; alexnet or noc-alexnet,"
        " published for ImageNet's validation set.",
    ),
]


def balance(
    accuracies: Accuracies,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="A benchmark, by its suite or suite file; repeatable. Without it all corruptions."
        ),
    ] = None,
    baseline: BaselineName = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="Draw relative errors, not plain ones.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", parser=folder_or_file, help="Write all corruption errors."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", parser=folder_or_file, help="Draw the means as bars."),
    ] = None,
) -> None:
    """Print whether a benchmark rewards robustness to each of its corruptions alike.

    The mean corruption error (mCE) of every model that was trained on one corruption; the closer
    these means, the more balanced the benchmark.
    """
    check_table(out, accuracies)
    check_picture(picture)
    from eyechart.overlap.error_intervals import resample_errors
    from eyechart.overlap.tables import read_accuracies

    table = read_accuracies(accuracies)
    benchmarks = _benchmarks(table, suite)
    forms = {form: _balances(table, benchmarks, form, baseline) for form in (False, True)}
    drawn = resample_errors(accuracies, table)
    for found in forms.values():
        for name, own in found.items():
            _print_balance(name, own, drawn)
    if out is not None:
        from eyechart.overlap.cells import write_cells
        from eyechart.reports.overlap_tables import BALANCE_HEAD, balance_cells

        rows = [balance_cells(name, own) for each in forms.values() for name, own in each.items()]
        write_cells(out, [BALANCE_HEAD, *(row for part in rows for row in part)])
    if picture is not None:
        from eyechart.reports.overlap_plot import draw_balance

        if not forms[relative]:
            raise UsageError("There are no relative errors to draw: leave out --relative.")
        draw_balance(forms[relative], picture)
    print_written((out, picture))


def coverage(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="ACCURACIES",
            parser=folder_or_file,
            help="An accuracy table (.csv), a study's folder, or overlaps (.csv).",
        ),
    ],
    one: Annotated[
        str, typer.Option("--by", metavar="SUITE", help="A benchmark: a suite or a suite file.")
    ],
    two: Annotated[
        str, typer.Option("--of", metavar="SUITE", help="The other: a suite or a suite file.")
    ],
    least_overlap: Annotated[
        float, typer.Option(help="The overlap above which a corruption counts as covered.")
    ] = 0.3,
    least_gain: LeastGain = 0.02,
    baseline: BaselineName = None,
) -> None:
    """Print which corruptions of a benchmark another one speaks for, and the other way round.

    By the highest overlap; and, where the table has models trained on all corruptions of a
    benchmark (rows all:SUITE), by their errors beside those of the standard model.
    """
    from eyechart.overlap.error_intervals import resample_errors
    from eyechart.overlap.hits import count_classes
    from eyechart.overlap.matrix_file import find_matrix, is_accuracy_table
    from eyechart.overlap.tables import read_accuracies

    matrix = find_matrix(source, least_gain, count_classes(source))
    (first, own), (second, other) = (_members(matrix.names, name) for name in (one, two))
    _print_coverage(matrix, (first, own), (second, other), least_overlap)
    _print_coverage(matrix, (second, other), (first, own), least_overlap)
    print_notes(matrix.notes)
    if source.is_dir() or is_accuracy_table(source):
        table = read_accuracies(source)
        drawn = resample_errors(source, table)
        _print_direct(table, first, other, baseline, drawn)
        _print_direct(table, second, own, baseline, drawn)


def _members(known: tuple[str, ...], name: str) -> tuple[str, tuple[str, ...]]:
    """Return a suite's name and its corruptions, all of which must be known."""
    from eyechart.suites.suite import load_suite

    suite = load_suite(name)
    members = tuple(entry.name for entry in suite)
    missing = [each for each in members if each not in known]
    if missing:
        raise UsageError(
            f"All corruptions of {name} must be in the table, and {len(missing)} of"
            f" {len(members)} are not, such as {missing[0]}."
        )
    return suite.name, members


def _benchmarks(table: "AccuracyTable", suites: list[str] | None) -> dict[str, tuple[str, ...]]:
    if not suites:
        return {"all corruptions": table.corruptions}
    return dict(_members(table.corruptions, name) for name in suites)


def _balances(
    table: "AccuracyTable",
    benchmarks: dict[str, tuple[str, ...]],
    relative: bool,
    baseline: str | None,
) -> "dict[str, Balance]":
    """Return the balance of each benchmark; relative errors are worth a note if there are none."""
    from eyechart.overlap.balance import balance_of

    found = {}
    for name, members in benchmarks.items():
        try:
            found[name] = balance_of(table, members, relative=relative, baseline=baseline)
        except UsageError as error:
            if not relative:
                raise
            print_notes([f"No relative errors on {name}: {error}"])
    return found


def _print_balance(name: str, own: "Balance", drawn: "Resampled | None") -> None:
    from eyechart.overlap.error_intervals import spread_intervals
    from eyechart.reports.overlap_tables import balance_table, percent_range

    head, rows = balance_table(own)
    if len(own.benchmark) > FEW:
        head, rows = head[:2], [row[:2] for row in rows]
    print_table((head, rows))
    deviation, width = f"{100 * own.spread.deviation:.1f}", f"{100 * own.spread.range:.0f}"
    if drawn is not None:
        sure = spread_intervals(drawn, own)
        deviation, width = (
            f"{text} ({percent_range(ends)})"
            for text, ends in zip((deviation, width), sure, strict=True)
        )
    print(
        f"{name}, {own.title}: standard deviation {deviation} (of the population), range {width},"
        f" mean {100 * own.spread.mean:.1f} over {len(own.benchmark)} models. {own.note}"
    )


def _print_coverage(
    matrix: "OverlapMatrix",
    by: tuple[str, tuple[str, ...]],
    of: tuple[str, tuple[str, ...]],
    least_overlap: float,
) -> None:
    from eyechart.overlap.coverage import coverage_of
    from eyechart.reports.overlap_tables import coverage_table

    found = coverage_of(matrix, by[1], of[1], least_overlap)
    print_table(coverage_table(found), left=(0, 1, 3))
    said = f"{len(found.covered)} of {len(found.of)} corruptions of {of[0]} overlap by more than"
    said += f" {least_overlap:g} with one of {by[0]}"
    if found.uncovered:
        said += f"; not {', '.join(found.uncovered)}"
    if found.undetermined:
        said += f"; undetermined: {', '.join(found.undetermined)}"
    print(f"{said}.")


def _print_direct(
    table: "AccuracyTable",
    by: str,
    of: tuple[str, ...],
    baseline: str | None,
    drawn: "Resampled | None",
) -> None:
    from eyechart.overlap.coverage import direct_test
    from eyechart.overlap.error_intervals import direct_intervals
    from eyechart.reports.overlap_tables import direct_table

    if by not in table.benchmarks:
        print_notes([f"No direct test of {by}: the table has no row all:{by}."])
        return
    for relative in (False, True):
        try:
            found = direct_test(table, by, of, relative=relative, baseline=baseline)
        except UsageError as error:
            if not relative:
                raise
            print_notes([f"No relative errors: {error}"])
            continue
        sure = {} if drawn is None else direct_intervals(drawn, found)
        print_table(direct_table(found, sure), last_apart=True)
        said = f"Trained on all of {by}: more robust to {len(found.helped)} of {len(of)}"
        print(said + (f"; not to {', '.join(found.not_helped)}." if found.not_helped else "."))
    print(found.note)
