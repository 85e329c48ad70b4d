"""`eyechart overlap balance`: whether a benchmark weights its corruptions equally."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eyechart.cli.overlap.output import (
    BaselineName,
    Latex,
    check_figure_file,
    check_latex,
    check_table,
    is_published,
    members_of,
    write_latex,
)
from eyechart.cli.shared.derived_options import derived_options
from eyechart.cli.shared.help import examples
from eyechart.cli.shared.printing import print_notes, print_table, print_written
from eyechart.core.errors import UsageError
from eyechart.core.options import Option

if TYPE_CHECKING:
    from eyechart.overlap.accuracy_table import AccuracyTable
    from eyechart.overlap.balance import Balance
    from eyechart.overlap.error_intervals import StudyErrors

FEW = 16
"""Maximum number of corruptions for which all corruption errors are printed."""


@dataclass(frozen=True, kw_only=True)
class BalanceSettings:
    """Settings of `eyechart overlap balance`: accuracies, benchmarks, baseline, output files."""

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
    ]
    suites: Annotated[
        tuple[str, ...],
        Option(
            help="Benchmark: suite name or YAML file; repeatable; all corruptions if omitted.",
            group="Corruptions",
            flags=("--suite",),
        ),
    ] = ()
    baseline: BaselineName = None
    relative: Annotated[
        bool, Option(help="Draw relative errors (relative CE).", group="Output")
    ] = False
    out: Annotated[
        Path | None,
        Option(
            help="Write a table of all corruption errors.",
            group="Output",
            metavar="FILE.csv",
            path="folder or file",
        ),
    ] = None
    figure: Annotated[
        Path | None,
        Option(
            help="Draw the mean corruption errors, as .png, .svg or .pdf.",
            group="Output",
            metavar="FILE",
            path="folder or file",
        ),
    ] = None
    latex: Latex = None

    @property
    def is_published(self) -> bool:
        """Whether the tables of the paper are requested."""
        return is_published(self.accuracies)

    def check(self) -> None:
        """Raise a UsageError unless all files can be written."""
        check_figure_file(self.figure)
        check_latex(self.latex)
        check_table(self.out, None if self.is_published else self.accuracies)


@examples(
    "eyechart overlap balance published",
    "eyechart overlap balance eyechart-overlap --suite imagenet-c --out errors.csv",
)
@derived_options
def balance(settings: BalanceSettings) -> None:
    """Print whether a benchmark weights robustness to its corruptions equally.

    Prints the mean corruption error (mCE) of every model that was trained on one corruption; the
    closer these means are to each other, the more balanced the benchmark is.
    """
    settings.check()
    drawn: StudyErrors | None = None
    notes: list[str] = []
    if settings.is_published:
        forms = _published_balances(settings)
    else:
        forms, drawn, notes = _measured_balances(settings)
    relative = settings.relative
    if settings.figure is not None and not forms.get(relative):
        wanted = "omit --relative" if relative else "add --relative"
        raise UsageError(f"There are no {'relative' if relative else 'plain'} errors: {wanted}.")
    print_notes(notes)
    balances = [named for form in forms.values() for named in form.items()]
    for name, errors in balances:
        _print_balance(name, errors, drawn)
    if settings.out is not None:
        from eyechart.core.csv_table import write_cells
        from eyechart.reports.terminal.overlap_tables import BALANCE_HEAD, balance_cells

        rows = [balance_cells(name, errors) for name, errors in balances]
        write_cells(settings.out, [BALANCE_HEAD, *(row for part in rows for row in part)])
    if settings.figure is not None:
        from eyechart.reports.figures.figure_files import write_figure
        from eyechart.reports.figures.overlap_figure import draw_balance

        caption = "Mean corruption error of every model trained on one corruption, by benchmark."
        write_figure(partial(draw_balance, forms[relative]), settings.figure, caption)
    if settings.latex is not None:
        from eyechart.reports.latex.overlap_latex import balance_latex

        write_latex(settings.latex, balance_latex(balances))
    print_written((settings.out, settings.figure, settings.latex))


def _published_balances(settings: BalanceSettings) -> "dict[bool, dict[str, Balance]]":
    from eyechart.overlap.published_benchmarks import BALANCE, check_published, published_balance

    names = settings.suites or tuple(BALANCE)
    check_published(settings.baseline, names)
    return {True: {name: published_balance(name) for name in names}}


def _measured_balances(
    settings: BalanceSettings,
) -> "tuple[dict[bool, dict[str, Balance]], StudyErrors | None, list[str]]":
    """Return the plain and relative errors by benchmark, their bootstrap samples, and notes."""
    from eyechart.overlap.accuracy_table import read_accuracies
    from eyechart.overlap.error_intervals import resample_errors

    table = read_accuracies(settings.accuracies)
    benchmarks = _benchmarks(table, settings.suites)
    notes: list[str] = []
    forms = {
        relative: _balances(table, benchmarks, relative, settings.baseline, notes)
        for relative in (False, True)
    }
    return forms, resample_errors(settings.accuracies, table), notes


def _benchmarks(table: "AccuracyTable", suites: Sequence[str]) -> dict[str, tuple[str, ...]]:
    if not suites:
        return {"all corruptions": table.corruptions}
    return dict(members_of(table.corruptions, name) for name in suites)


def _balances(
    table: "AccuracyTable",
    benchmarks: dict[str, tuple[str, ...]],
    relative: bool,
    baseline: str | None,
    notes: list[str],
) -> "dict[str, Balance]":
    """Return the balance of each benchmark; add a note if there are no relative errors."""
    from eyechart.overlap.balance import balance_of

    balances = {}
    for name, members in benchmarks.items():
        try:
            balances[name] = balance_of(table, members, relative=relative, baseline=baseline)
        except UsageError as error:
            if not relative:
                raise
            notes.append(f"No relative errors on {name}: {error}")
    return balances


def _print_balance(name: str, errors: "Balance", drawn: "StudyErrors | None") -> None:
    from eyechart.overlap.error_intervals import spread_intervals
    from eyechart.reports.terminal.overlap_tables import balance_table, percent_range

    head, rows = balance_table(errors)
    if len(errors.benchmark) > FEW:
        head, rows = head[:2], [row[:2] for row in rows]
    print_table((head, rows))
    deviation, width = f"{100 * errors.spread.deviation:.1f}", f"{100 * errors.spread.range:.0f}"
    if drawn is not None:
        sure = spread_intervals(drawn, errors)
        deviation, width = (
            f"{text} ({percent_range(ends)})"
            for text, ends in zip((deviation, width), sure, strict=True)
        )
    print(
        f"{name}, {errors.title}: population standard deviation {deviation}, range"
        f" {width}, mean {100 * errors.spread.mean:.1f} over {len(errors.benchmark)} models."
        f" {errors.note}"
    )
