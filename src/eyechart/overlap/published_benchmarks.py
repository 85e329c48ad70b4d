"""Balance and coverage of ImageNet-C and ImageNet-NOC as published by their authors.

The tables are stored in the package `results`; this module converts them to the records that a
study produces.
"""

from collections.abc import Sequence

from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import ALL, STANDARD
from eyechart.overlap.benchmarks import Balance, DirectTest, baseline_note
from eyechart.results.published_results import PublishedModel, PublishedTable, find_published
from eyechart.scores.baseline_tables import find_baseline

PUBLISHED = "published"
"""Name that selects the tables of the paper on ImageNet-NOC instead of a study."""

BALANCE = {"imagenet-c": "noc-table7", "imagenet-noc": "noc-table8"}
COVERAGE = {"imagenet-c": "noc-table1-imagenet-c", "imagenet-noc": "noc-table1-imagenet-noc"}
"""Maps a suite to the table with the results on that suite."""


def published_balance(suite: str) -> Balance:
    """Return a suite's balance in relative errors, as printed in Table 2 and in Table 7 or 8."""
    table = _table(BALANCE, suite)
    rows = {row.model: row for row in table.models}
    # The printed means, not the means of the printed (rounded) errors.
    means = {model: row.scores["relative_mce"] for model, row in rows.items()}
    names = tuple(rows[STANDARD].relative_ce)
    return Balance(
        names,
        {model: row.relative_ce for model, row in rows.items()},
        means,
        True,
        find_baseline(table.baseline),
        _note(table),
        {model: _clean(row) for model, row in rows.items()},
    )


def published_direct_test(by: str, of: str) -> DirectTest:
    """Return the errors on the suite `of` for a model trained on the whole suite `by` (Table 1)."""
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
    """Raise a UsageError if the printed tables lack these suites or use a different baseline."""
    for suite in suites:
        _table(BALANCE, suite)
    # Printed ratios cannot be converted to another baseline.
    usual = [_table(BALANCE, suite).baseline for suite in BALANCE]
    if baseline is not None and baseline not in usual:
        raise UsageError(
            f"The published errors are relative to AlexNet and cannot be converted to another "
            f"baseline: omit --baseline {baseline}."
        )


def _table(tables: dict[str, str], suite: str) -> PublishedTable:
    if suite not in tables:
        raise _no_table(suite)
    return find_published(tables[suite])[0]


def _no_table(suite: str) -> UsageError:
    return UsageError(
        f"The paper has tables for {' and '.join(BALANCE)}, not for {suite}: pass a study's folder"
        " or an accuracy table."
    )


def _clean(row: PublishedModel) -> float:
    # Rounding removes floating-point noise from the subtraction.
    return round(1 - row.scores["clean_accuracy"], 6)


def _note(table: PublishedTable) -> str:
    words = (f"Published: {table.source}; {table.image_title}.", table.note)
    return " ".join(filter(None, (*words, baseline_note(find_baseline(table.baseline)))))
