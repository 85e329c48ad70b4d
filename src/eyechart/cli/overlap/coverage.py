"""`eyechart overlap coverage`: which corruptions of a benchmark another benchmark covers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.output import (
    BaselineName,
    Latex,
    check_latex,
    is_published,
    members_of,
    write_latex,
)
from eyechart.cli.shared.derived_options import Only, derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.overlap.overlap_settings import MIN_OVERLAP, MatrixSettings

if TYPE_CHECKING:
    from eyechart.overlap.accuracy_table import AccuracyTable
    from eyechart.overlap.benchmark_coverage import BenchmarkCoverage, DirectTest
    from eyechart.overlap.error_intervals import StudyErrors

    Covered = tuple[str, str, BenchmarkCoverage]
    Direct = tuple[str, DirectTest, Mapping[str, tuple[float, float]]]
    Benchmark = tuple[str, tuple[str, ...]]

NO_OVERLAPS = "The paper prints overlaps as heat maps only, so coverage by overlap is omitted."


@dataclass(frozen=True, kw_only=True)
class CoverageSettings:
    """Settings of `eyechart overlap coverage`: two benchmarks, data and output files."""

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
    ]
    by: Annotated[
        str,
        Option(
            help="First benchmark: suite name or YAML file.", group="Corruptions", metavar="SUITE"
        ),
    ]
    of: Annotated[
        str,
        Option(
            help="Second benchmark: suite name or YAML file.", group="Corruptions", metavar="SUITE"
        ),
    ]
    min_overlap: Annotated[
        float,
        Option(
            help="Overlap above which a corruption counts as covered.",
            group="Curves and statistics",
        ),
    ] = MIN_OVERLAP
    baseline: BaselineName = None
    latex: Latex = None


@examples(
    "eyechart overlap coverage eyechart-overlap --by first.yaml --of second.yaml",
    "eyechart overlap coverage eyechart-overlap --by mine.yaml --of imagenet-c",
)
@derived_options
def coverage(
    settings: CoverageSettings, matrix_settings: Annotated[MatrixSettings, Only("min_gain")]
) -> None:
    """Print which corruptions of one benchmark another benchmark covers.

    A corruption is covered if its highest overlap with the other benchmark is above a threshold. If
    the table has models trained on all corruptions of a benchmark (rows all:SUITE), their errors
    are also compared with the errors of the standard model.
    """
    check_latex(settings.latex)
    # compute everything before printing, so that an error does not follow half a result
    covers: list[Covered] = []
    if is_published(settings.source):
        tests, notes = _published_tests(settings), [NO_OVERLAPS]
    else:
        covers, tests, notes = _measured_coverage(settings, matrix_settings)
    if settings.latex is not None and not tests:
        raise UsageError(
            f"--latex writes the errors of models trained on a whole benchmark, but the table has "
            f"no row all:{settings.by} or all:{settings.of}: train them with eyechart overlap run"
            " --together."
        )
    for cover in covers:
        _print_coverage(*cover)
    print_notes(notes)
    for on, test, intervals in tests:
        _print_direct(on, test, intervals)
    for note in dict.fromkeys(test.note for _, test, _ in tests):
        print(note)
    if settings.latex is not None:
        from eyechart.reports.latex.overlap_latex import coverage_latex

        write_latex(settings.latex, coverage_latex([(on, test) for on, test, _ in tests]))
    print_written((settings.latex,))


def _published_tests(settings: CoverageSettings) -> "list[Direct]":
    from eyechart.overlap.published_benchmarks import check_published, published_direct_test

    one, two = settings.by, settings.of
    check_published(settings.baseline, (one, two))
    return [(of, published_direct_test(by, of), {}) for by, of in ((one, two), (two, one))]


def _measured_coverage(
    settings: CoverageSettings, matrix_settings: MatrixSettings
) -> "tuple[list[Covered], list[Direct], list[str]]":
    """Return coverage by overlap, coverage by direct tests, and notes."""
    from eyechart.overlap.accuracy_table import count_classes, read_accuracies
    from eyechart.overlap.benchmark_coverage import coverage_of
    from eyechart.overlap.error_intervals import resample_errors
    from eyechart.overlap.matrix_file import find_matrix, is_accuracy_table

    source = settings.source
    matrix = find_matrix(source, matrix_settings.with_classes(count_classes(source)))
    one, two = (members_of(matrix.names, name) for name in (settings.by, settings.of))
    pairs = [(one, two), (two, one)]
    covers = [
        (by[0], of[0], coverage_of(matrix, by[1], of[1], settings.min_overlap)) for by, of in pairs
    ]
    tests: list[Direct] = []
    notes = list(matrix.notes)
    if source.is_dir() or is_accuracy_table(source):
        table = read_accuracies(source)
        study = _Study(table, resample_errors(source, table), settings.baseline)
        for by, of in pairs:
            direct_tests, reasons = study.direct_tests(by[0], of)
            tests += direct_tests
            notes += reasons
    return covers, tests, notes


@dataclass(frozen=True, eq=False)
class _Study:
    """A study's accuracies and bootstrap errors, and the baseline of its corruption errors.

    `drawn` is None if there are no individual predictions to sample from.
    """

    table: "AccuracyTable"
    drawn: "StudyErrors | None"
    baseline: str | None

    def direct_tests(self, by: str, of: "Benchmark") -> "tuple[list[Direct], list[str]]":
        """Return tests of the model trained on benchmark `by`, and reasons for missing tests."""
        from eyechart.overlap.benchmark_coverage import direct_test
        from eyechart.overlap.error_intervals import direct_intervals

        if by not in self.table.benchmarks:
            return [], [f"No direct test of {by}: the table has no row all:{by}."]
        name, members = of
        tests: list[Direct] = []
        reasons = []
        for relative in (False, True):
            try:
                test = direct_test(
                    self.table, by, members, relative=relative, baseline=self.baseline
                )
            except UsageError as error:
                if not relative:
                    raise
                reasons.append(f"No relative errors on {name}: {error}")
                continue
            intervals = {} if self.drawn is None else direct_intervals(self.drawn, test)
            tests.append((name, test, intervals))
        return tests, reasons


def _print_coverage(by: str, of: str, covered: "BenchmarkCoverage") -> None:
    from eyechart.reports.terminal.overlap_tables import coverage_table

    print_table(coverage_table(covered), left=(0, 1, 3))
    sentence = (
        f"{len(covered.covered)} of {len(covered.of)} corruptions of {of} overlap by more than"
    )
    sentence += f" {covered.min_overlap:g} with a corruption of {by}"
    if covered.uncovered:
        sentence += f"; not covered: {', '.join(covered.uncovered)}"
    if covered.undetermined:
        sentence += f"; undetermined: {', '.join(covered.undetermined)}"
    print(f"{sentence}.")


def _print_direct(
    of: str, test: "DirectTest", intervals: "Mapping[str, tuple[float, float]]"
) -> None:
    from eyechart.overlap.accuracy_table import ALL
    from eyechart.reports.terminal.overlap_tables import direct_table

    form = "relative CE" if test.relative else "CE"
    print(f"{form} on {of} in percent, baseline {test.baseline.name}")
    print_table(direct_table(test, intervals), last_apart=True)
    by = test.trained_on.removeprefix(ALL)
    sentence = (
        f"Training on all of {by} improves robustness to {len(test.helped)} of"
        f" {len(test.errors)} corruptions"
    )
    print(sentence + (f", not to {', '.join(test.not_helped)}." if test.not_helped else "."))
