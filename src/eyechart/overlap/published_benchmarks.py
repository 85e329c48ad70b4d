"""Balance and coverage of ImageNet-C and ImageNet-NOC as printed by their authors.

The tables are data of `results`; here they are converted to the form of a study's table.
"""

from collections.abc import Sequence

from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import ALL, STANDARD
from eyechart.overlap.balance import Balance, baseline_note, spread_of
from eyechart.overlap.benchmark_coverage import DirectTest
from eyechart.results.published_results import PublishedModel, PublishedTable, find_published
from eyechart.scores.baseline_tables import find_baseline

PUBLISHED = "published"
"""Name in place of a study in commands: the tables of the paper on ImageNet-NOC."""

BALANCE = {"imagenet-c": "noc-table7", "imagenet-noc": "noc-table8"}
COVERAGE = {"imagenet-c": "noc-table1-imagenet-c", "imagenet-noc": "noc-table1-imagenet-noc"}
"""Table with the results on a suite."""


def published_balance(suite: str) -> Balance:
    """Return the balance of a suite as printed in Tables 2 and 7, or 2 and 8; relative errors."""
    table = _table(BALANCE, suite)
    rows = {row.model: row for row in table.models}
    # The printed means, not the means of the printed (rounded) errors.
    means = {model: row.scores["relative_mce"] for model, row in rows.items()}
    names = tuple(rows[STANDARD].relative_ce)
    return Balance(
        names,
        {model: row.relative_ce for model, row in rows.items()},
        means,
        spread_of([means[name] for name in names]),
        True,
        find_baseline(table.baseline),
        _note(table),
        {model: _clean(row) for model, row in rows.items()},
    )


def published_direct_test(by: str, of: str) -> DirectTest:
    """Return the errors on a suite of the model trained on all of the other (Table 1)."""
    table = _table(COVERAGE, of)
    if by not in COVERAGE or by == of:
        raise _no_table(by if by not in COVERAGE else f"{by} on itself")
    trained, standard = table.model(ALL + by), table.model(STANDARD)
    return DirectTest(
        ALL + by,
        trained.relative_ce,
        standard.relative_ce,
        True,
        find_baseline(table.baseline),
        _note(table),
        (_clean(trained), _clean(standard)),
        (trained.scores["relative_mce"], standard.scores["relative_mce"]),
    )


def check_published(baseline: str | None, suites: Sequence[str]) -> None:
    """Raise a UsageError if the printed tables are of other suites or another baseline."""
    for suite in suites:
        _table(BALANCE, suite)
    # Printed ratios cannot be converted to another baseline.
    usual = [_table(BALANCE, suite).baseline for suite in BALANCE]
    if baseline is not None and baseline not in usual:
        raise UsageError(
            f"The published errors are relative to AlexNet's and cannot be divided by others: omit "
            f"--baseline {baseline}."
        )


def _table(tables: dict[str, str], suite: str) -> PublishedTable:
    if suite not in tables:
        raise _no_table(suite)
    return find_published(tables[suite])[0]


def _no_table(suite: str) -> UsageError:
    return UsageError(
        f"The paper has tables of {' and '.join(BALANCE)}, not of {suite}: give a study's folder or"
        " an accuracy table."
    )


def _clean(row: PublishedModel) -> float:
    # Rounding removes floating-point noise of the subtraction.
    return round(1 - row.scores["clean_accuracy"], 6)


def _note(table: PublishedTable) -> str:
    words = (f"Published: {table.source}; {table.image_title}.", table.note)
    return " ".join(filter(None, (*words, baseline_note(find_baseline(table.baseline)))))
