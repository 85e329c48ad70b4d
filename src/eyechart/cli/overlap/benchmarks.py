"""`eyechart overlap balance` and `coverage`: what a benchmark rewards, and what it speaks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eyechart.cli.overlap.output import (
    Latex,
    LeastGain,
    check_latex,
    check_picture,
    check_table,
    print_notes,
    print_table,
    print_written,
    write_latex,
)
from eyechart.cli.shared.paths import folder_or_file
from eyechart.core.errors import UsageError

if TYPE_CHECKING:
    from eyechart.overlap.accuracy_table import AccuracyTable
    from eyechart.overlap.balance import Balance
    from eyechart.overlap.benchmark_coverage import BenchmarkCoverage, DirectTest
    from eyechart.overlap.error_intervals import StudyErrors

    Covered = tuple[str, str, BenchmarkCoverage]
    Direct = tuple[str, DirectTest, Mapping[str, tuple[float, float]]]

FEW = 16
"""Corruptions up to which all corruption errors are printed."""

Accuracies = Annotated[
    Path,
    typer.Argument(
        metavar="ACCURACIES",
        parser=folder_or_file,
        help="A CSV file (trained_on, clean, a column for each corruption), a study's folder, or"
        " published: the tables of the paper on ImageNet-NOC.",
    ),
]
BaselineName = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="Whose errors are divided by: standard, the table's own model; or alexnet, published"
        " for ImageNet's validation set, looked up by suite (noc-alexnet for ImageNet-NOC).",
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
    latex: Latex = None,
) -> None:
    """Print whether a benchmark rewards robustness to each of its corruptions alike.

    The mean corruption error (mCE) of every model that was trained on one corruption; the closer
    these means, the more balanced the benchmark.
    """
    check_picture(picture)
    check_latex(latex)
    drawn: StudyErrors | None = None
    notes: list[str] = []
    if _is_published(accuracies):
        check_table(out, None)
        forms = _published_balances(suite, baseline)
    else:
        check_table(out, accuracies)
        forms, drawn, notes = _measured_balances(accuracies, suite, baseline)
    if picture is not None and not forms.get(relative):
        wanted = "leave out --relative" if relative else "add --relative"
        raise UsageError(f"There are no {'relative' if relative else 'plain'} errors: {wanted}.")
    print_notes(notes)
    balances = [each for form in forms.values() for each in form.items()]
    for name, own in balances:
        _print_balance(name, own, drawn)
    if out is not None:
        from eyechart.core.csv_table import write_cells
        from eyechart.reports.terminal.overlap_tables import BALANCE_HEAD, balance_cells

        rows = [balance_cells(name, own) for name, own in balances]
        write_cells(out, [BALANCE_HEAD, *(row for part in rows for row in part)])
    if picture is not None:
        from eyechart.reports.figures.overlap_plot import draw_balance

        draw_balance(forms[relative], picture)
    if latex is not None:
        from eyechart.reports.figures.overlap_latex import balance_latex

        write_latex(latex, balance_latex(balances))
    print_written((out, picture, latex))


def _is_published(source: Path) -> bool:
    """Whether the paper's tables are asked for; a file or folder of that name is the user's."""
    from eyechart.overlap.published_benchmarks import PUBLISHED

    return str(source) == PUBLISHED and not source.exists()


def _published_balances(
    suites: list[str] | None, baseline: str | None
) -> "dict[bool, dict[str, Balance]]":
    from eyechart.overlap.published_benchmarks import BALANCE, check_published, published_balance

    names = suites or list(BALANCE)
    check_published(baseline, names)
    return {True: {name: published_balance(name) for name in names}}


def _measured_balances(
    accuracies: Path, suites: list[str] | None, baseline: str | None
) -> "tuple[dict[bool, dict[str, Balance]], StudyErrors | None, list[str]]":
    """Return plain and relative balances, the resampled errors, and what a reader must know."""
    from eyechart.overlap.accuracy_table import read_accuracies
    from eyechart.overlap.error_intervals import resample_errors

    table = read_accuracies(accuracies)
    benchmarks = _benchmarks(table, suites)
    notes: list[str] = []
    forms = {form: _balances(table, benchmarks, form, baseline, notes) for form in (False, True)}
    return forms, resample_errors(accuracies, table), notes


def coverage(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="ACCURACIES",
            parser=folder_or_file,
            help="An accuracy table (.csv), a study's folder, overlaps (.csv), or published: the"
            " tables of the paper on ImageNet-NOC.",
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
    latex: Latex = None,
) -> None:
    """Print which corruptions of a benchmark another one speaks for, and the other way round.

    By the highest overlap; and, where the table has models trained on all corruptions of a
    benchmark (rows all:SUITE), by their errors beside those of the standard model.
    """
    check_latex(latex)
    # all is computed before anything is printed: a refusal must not come behind half a result
    covers: list[Covered] = []
    if _is_published(source):
        tests, notes = _published_tests(one, two, baseline), [NO_OVERLAPS]
    else:
        covers, tests, notes = _measured_coverage(
            source, (one, two), (least_overlap, least_gain), baseline
        )
    if latex is not None and not tests:
        raise UsageError(
            "--latex writes the errors of models trained on a whole benchmark, and the table has no"
            f" row all:{one} or all:{two}: train them with eyechart overlap run --together."
        )
    for cover in covers:
        _print_coverage(*cover)
    print_notes(notes)
    for on, test, intervals in tests:
        _print_direct(on, test, intervals)
    for note in dict.fromkeys(test.note for _, test, _ in tests):
        print(note)
    if latex is not None:
        from eyechart.reports.figures.overlap_latex import coverage_latex

        write_latex(latex, coverage_latex([(on, test) for on, test, _ in tests]))
    print_written((latex,))


NO_OVERLAPS = "The paper prints overlaps as heat maps only, so coverage by overlap is left out."


def _published_tests(one: str, two: str, baseline: str | None) -> "list[Direct]":
    from eyechart.overlap.published_benchmarks import check_published, published_direct_test

    check_published(baseline, (one, two))
    return [(of, published_direct_test(by, of), {}) for by, of in ((one, two), (two, one))]


def _measured_coverage(
    source: Path, suites: tuple[str, str], least: tuple[float, float], baseline: str | None
) -> "tuple[list[Covered], list[Direct], list[str]]":
    """Return what overlaps say, what direct tests say, and what a reader must know."""
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies
    from eyechart.overlap.benchmark_coverage import coverage_of
    from eyechart.overlap.error_intervals import resample_errors
    from eyechart.overlap.matrix_file import find_matrix, is_accuracy_table

    least_overlap, least_gain = least
    matrix = find_matrix(source, least_gain, count_classes(source))
    both = [_members(matrix.names, name) for name in suites]
    pairs = [(both[0], both[1]), (both[1], both[0])]
    covers = [(by[0], of[0], coverage_of(matrix, by[1], of[1], least_overlap)) for by, of in pairs]
    tests: list[Direct] = []
    notes = list(matrix.notes)
    if source.is_dir() or is_accuracy_table(source):
        table = read_accuracies(source)
        drawn = resample_errors(source, table)
        for by, of in pairs:
            tests += _direct_tests(table, by[0], of, baseline, drawn, notes)
    return covers, tests, notes


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
    notes: list[str],
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
            notes.append(f"No relative errors on {name}: {error}")
    return found


def _print_balance(name: str, own: "Balance", drawn: "StudyErrors | None") -> None:
    from eyechart.overlap.error_intervals import spread_intervals
    from eyechart.reports.terminal.overlap_tables import balance_table, percent_range

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


def _print_coverage(by: str, of: str, found: "BenchmarkCoverage") -> None:
    from eyechart.reports.terminal.overlap_tables import coverage_table

    print_table(coverage_table(found), left=(0, 1, 3))
    said = f"{len(found.covered)} of {len(found.of)} corruptions of {of} overlap by more than"
    said += f" {found.least_overlap:g} with one of {by}"
    if found.uncovered:
        said += f"; not {', '.join(found.uncovered)}"
    if found.undetermined:
        said += f"; undetermined: {', '.join(found.undetermined)}"
    print(f"{said}.")


def _direct_tests(
    table: "AccuracyTable",
    by: str,
    of: tuple[str, tuple[str, ...]],
    baseline: str | None,
    drawn: "StudyErrors | None",
    notes: list[str],
) -> "list[Direct]":
    from eyechart.overlap.benchmark_coverage import direct_test
    from eyechart.overlap.error_intervals import direct_intervals

    if by not in table.benchmarks:
        notes.append(f"No direct test of {by}: the table has no row all:{by}.")
        return []
    found: list[Direct] = []
    for relative in (False, True):
        try:
            test = direct_test(table, by, of[1], relative=relative, baseline=baseline)
        except UsageError as error:
            if not relative:
                raise
            notes.append(f"No relative errors on {of[0]}: {error}")
            continue
        found.append((of[0], test, {} if drawn is None else direct_intervals(drawn, test)))
    return found


def _print_direct(
    of: str, test: "DirectTest", intervals: "Mapping[str, tuple[float, float]]"
) -> None:
    from eyechart.overlap.accuracy_table import ALL
    from eyechart.reports.terminal.overlap_tables import direct_table

    form = "relative CE" if test.relative else "CE"
    print(f"{form} on {of} in percent, baseline {test.baseline.name}")
    print_table(direct_table(test, intervals), last_apart=True)
    by = test.trained_on.removeprefix(ALL)
    said = f"Trained on all of {by}: more robust to {len(test.helped)} of {len(test.errors)}"
    print(said + (f"; not to {', '.join(test.not_helped)}." if test.not_helped else "."))
