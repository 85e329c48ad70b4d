"""`eyechart overlap balance` and `coverage`: how benchmarks weight and cover corruptions."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.shared.derived_options import Only, derived_options, examples
from eyechart.cli.shared.output_files import (
    Latex,
    check_figure_file,
    check_latex,
    check_table,
)
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.csv_table import write_cells
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.storage.files import write_text
from eyechart.overlap.overlap_settings import MIN_OVERLAP, MatrixSettings
from eyechart.scores.baseline_names import ALEXNET, NOC_ALEXNET

if TYPE_CHECKING:
    from eyechart.overlap.benchmarks import Balance, BenchmarkCoverage, DirectTest, StudyErrors

    Covered = tuple[str, str, BenchmarkCoverage]
    Direct = tuple[str, DirectTest, Mapping[str, tuple[float, float]]]


BaselineName = Annotated[
    str | None,
    Option(
        help=f"Baseline of CE: standard (the standard model in the table), or {ALEXNET} (published"
        f" errors on ImageNet's validation set; {NOC_ALEXNET} for ImageNet-NOC).",
        group="Curves and statistics",
    ),
]


FEW = 16
"""Maximum number of corruptions for which all corruption errors are printed."""


@examples(
    "eyechart overlap balance published",
    "eyechart overlap balance eyechart-overlap --suite imagenet-c --out errors.csv",
)
@derived_options
def balance(
    accuracies: Annotated[
        Path,
        Option(
            help="A CSV file (columns trained_on, clean and one per corruption), a study folder, or"
            " published (the tables of the ImageNet-NOC paper).",
            group="Data",
            metavar="ACCURACIES",
            path="folder or file",
            is_argument=True,
        ),
    ],
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Benchmark: suite name or YAML file; repeatable; all corruptions if omitted.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = (),
    baseline: BaselineName = None,
    relative: Annotated[
        bool, Option(help="Draw relative errors (relative CE).", group="Output")
    ] = False,
    out: Annotated[
        Path | None,
        Option(
            help="Write a table of all corruption errors.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        Option(
            help="Draw the mean corruption errors, as .png, .svg or .pdf.",
            group="Output",
            metavar="FILE",
            path="folder or file",
        ),
    ] = None,
    latex: Latex = None,
) -> None:
    """Print whether a benchmark weights robustness to its corruptions equally.

    Prints the mean corruption error (mCE) of every model that was trained on one corruption; the
    closer these means are to each other, the more balanced the benchmark is.
    """
    from eyechart.overlap.benchmarks import (
        BALANCE,
        check_published,
        published_balance,
        spread_intervals,
    )
    from eyechart.reports.terminal.study_tables import (
        BALANCE_HEAD,
        balance_cells,
        balance_table,
        percent_range,
    )

    from_paper = is_published(accuracies)
    check_figure_file(figure)
    check_latex(latex)
    check_table(out, None if from_paper else accuracies)
    drawn: StudyErrors | None = None
    notes: list[str] = []
    if from_paper:
        names = suites or tuple(BALANCE)
        check_published(baseline, names)
        forms = {True: {name: published_balance(name) for name in names}}
    else:
        forms, drawn, notes = _measured_balances(accuracies, suites, baseline)
    if figure is not None and not forms.get(relative):
        wanted = "omit --relative" if relative else "add --relative"
        raise UsageError(f"There are no {'relative' if relative else 'plain'} errors: {wanted}.")
    print_notes(notes)
    balances = [named for form in forms.values() for named in form.items()]
    for name, errors in balances:
        head, rows = balance_table(errors)
        if len(errors.benchmark) > FEW:
            head, rows = head[:2], [row[:2] for row in rows]
        print_table((head, rows))
        deviation, width = f"{100 * errors.deviation:.1f}", f"{100 * errors.range:.0f}"
        if drawn is not None:
            deviation, width = (
                f"{text} ({percent_range(ends)})"
                for text, ends in zip(
                    (deviation, width), spread_intervals(drawn, errors), strict=True
                )
            )
        print(
            f"{name}, {errors.title}: population standard deviation {deviation}, range"
            f" {width}, mean {100 * errors.mean:.1f} over {len(errors.benchmark)} models."
            f" {errors.note}"
        )
    if out is not None:
        parts = [balance_cells(name, errors) for name, errors in balances]
        write_cells(out, [BALANCE_HEAD, *(row for part in parts for row in part)])
    if figure is not None:
        from eyechart.reports.figures.figure_files import write_figure
        from eyechart.reports.figures.overlap_figure import draw_balance

        caption = "Mean corruption error of every model trained on one corruption, by benchmark."
        write_figure(partial(draw_balance, forms[relative]), figure, caption)
    if latex is not None:
        from eyechart.reports.latex import balance_latex

        write_text(latex, balance_latex(balances))
    print_written((out, figure, latex))


def _measured_balances(
    accuracies: Path, suites: Sequence[str], baseline: str | None
) -> "tuple[dict[bool, dict[str, Balance]], StudyErrors | None, list[str]]":
    """Return the plain and relative errors by benchmark, their bootstrap samples, and notes."""
    from eyechart.overlap.accuracy_table import read_accuracies
    from eyechart.overlap.benchmarks import balance_of, resample_errors

    table = read_accuracies(accuracies)
    benchmarks = dict(members_of(table.corruptions, name) for name in suites)
    forms: dict[bool, dict[str, Balance]] = {False: {}, True: {}}
    notes: list[str] = []
    for relative, balances in forms.items():
        for name, members in (benchmarks or {"all corruptions": table.corruptions}).items():
            try:
                balances[name] = balance_of(table, members, relative=relative, baseline=baseline)
            except UsageError as error:
                if not relative:
                    raise
                notes.append(f"No relative errors on {name}: {error}")
    return forms, resample_errors(accuracies, table), notes


@examples(
    "eyechart overlap coverage eyechart-overlap --by first.yaml --of second.yaml",
    "eyechart overlap coverage eyechart-overlap --by mine.yaml --of imagenet-c",
)
@derived_options
def coverage(
    source: Annotated[
        Path,
        Option(
            help="Accuracy table (.csv), study folder, overlap matrix (.csv), or published (the"
            " tables of the ImageNet-NOC paper).",
            group="Data",
            metavar="ACCURACIES",
            path="folder or file",
            is_argument=True,
        ),
    ],
    by: Annotated[
        str,
        Option(
            help="First benchmark: suite name or YAML file.", group="Corruptions", metavar="SUITE"
        ),
    ],
    of: Annotated[
        str,
        Option(
            help="Second benchmark: suite name or YAML file.", group="Corruptions", metavar="SUITE"
        ),
    ],
    min_overlap: Annotated[
        float,
        Option(
            help="Overlap above which a corruption counts as covered.",
            group="Curves and statistics",
        ),
    ] = MIN_OVERLAP,
    baseline: BaselineName = None,
    latex: Latex = None,
    *,
    settings: Annotated[MatrixSettings, Only("min_gain")],
) -> None:
    """Print which corruptions of one benchmark another benchmark covers.

    A corruption is covered if its highest overlap with the other benchmark is above a threshold. If
    the table has models trained on all corruptions of a benchmark (rows all:SUITE), their errors
    are also compared with the errors of the standard model.
    """
    from eyechart.overlap.accuracy_table import ALL
    from eyechart.overlap.benchmarks import check_published, published_direct_test
    from eyechart.reports.terminal.study_tables import coverage_table, direct_table

    check_latex(latex)
    # compute everything before printing, so that an error does not follow half a result
    covers: list[Covered] = []
    tests: list[Direct]
    if is_published(source):
        check_published(baseline, (by, of))
        pairs = ((by, of), (of, by))
        tests = [(on, published_direct_test(trained_on, on), {}) for trained_on, on in pairs]
        notes = ["The paper prints overlaps as heat maps only, so coverage by overlap is omitted."]
    else:
        covers, tests, notes = _measured_coverage(source, settings, (by, of), min_overlap, baseline)
    if latex is not None and not tests:
        raise UsageError(
            f"--latex writes the errors of models trained on a whole benchmark, but the table has "
            f"no row all:{by} or all:{of}: train them with eyechart overlap run"
            " --together."
        )
    for first, second, covered in covers:
        print_table(coverage_table(covered), left=(0, 1, 3))
        uncovered = ", ".join(covered.uncovered)
        undetermined = ", ".join(covered.undetermined)
        print(
            f"{len(covered.covered)} of {len(covered.of)} corruptions of {second} overlap by more"
            f" than {covered.min_overlap:g} with a corruption of {first}"
            f"{f'; not covered: {uncovered}' if uncovered else ''}"
            f"{f'; undetermined: {undetermined}' if undetermined else ''}."
        )
    print_notes(notes)
    for on, test, intervals in tests:
        form = "relative CE" if test.relative else "CE"
        print(f"{form} on {on} in percent, baseline {test.baseline.name}")
        print_table(direct_table(test, intervals), last_apart=True)
        not_helped = f", not to {', '.join(test.not_helped)}" if test.not_helped else ""
        print(
            f"Training on all of {test.trained_on.removeprefix(ALL)} improves robustness to"
            f" {len(test.helped)} of {len(test.errors)} corruptions{not_helped}."
        )
    for note in dict.fromkeys(test.note for _, test, _ in tests):
        print(note)
    if latex is not None:
        from eyechart.reports.latex import coverage_latex

        write_text(latex, coverage_latex([(on, test) for on, test, _ in tests]))
    print_written((latex,))


def _measured_coverage(
    source: Path,
    settings: MatrixSettings,
    benchmarks: tuple[str, str],
    min_overlap: float,
    baseline: str | None,
) -> "tuple[list[Covered], list[Direct], list[str]]":
    """Return coverage by overlap, coverage by direct tests, and notes."""
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies
    from eyechart.overlap.benchmarks import (
        coverage_of,
        direct_intervals,
        direct_test,
        resample_errors,
    )
    from eyechart.overlap.matrix_file import find_matrix, is_accuracy_table

    matrix = find_matrix(source, settings.with_classes(count_classes(source)))
    one, two = (members_of(matrix.names, name) for name in benchmarks)
    pairs = [(one, two), (two, one)]
    covers = [(by[0], of[0], coverage_of(matrix, by[1], of[1], min_overlap)) for by, of in pairs]
    tests: list[Direct] = []
    notes = list(matrix.notes)
    if source.is_dir() or is_accuracy_table(source):
        table = read_accuracies(source)
        drawn = resample_errors(source, table)
        for (by, _), (of, members) in pairs:
            if by not in table.benchmarks:
                notes.append(f"No direct test of {by}: the table has no row all:{by}.")
                continue
            for relative in (False, True):
                try:
                    test = direct_test(table, by, members, relative=relative, baseline=baseline)
                except UsageError as error:
                    if not relative:
                        raise
                    notes.append(f"No relative errors on {of}: {error}")
                    continue
                # without individual predictions there is nothing to sample from
                intervals = {} if drawn is None else direct_intervals(drawn, test)
                tests.append((of, test, intervals))
    return covers, tests, notes


def is_published(source: Path) -> bool:
    """Return whether the paper's tables are requested; an existing path takes precedence."""
    from eyechart.overlap.benchmarks import PUBLISHED

    return str(source) == PUBLISHED and not source.exists()


def members_of(known: tuple[str, ...], name: str) -> tuple[str, tuple[str, ...]]:
    """Return a suite's name and its corruptions, all of which must be known."""
    from eyechart.corruptions.suites.suite import load_suite

    suite = load_suite(name)
    members = tuple(entry.name for entry in suite)
    missing = [member for member in members if member not in known]
    if missing:
        raise UsageError(
            f"All corruptions of {name} must be in the table, but {len(missing)} of"
            f" {len(members)} are not, such as {missing[0]}."
        )
    return suite.name, members
