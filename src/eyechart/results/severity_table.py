"""Accuracies at each severity in a CSV file, as RobustBench publishes them, read as errors."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from eyechart.core.arguments import as_path
from eyechart.core.csv_table import CsvRow, column_names, read_rows, read_text
from eyechart.core.errors import UsageError
from eyechart.images.published_source import SEVERITIES

COLUMNS = ("model", "corruption", "severity", "accuracy")
CLEAN = "clean"


@dataclass(frozen=True)
class SeverityErrors:
    """Errors of one model, as shares: by corruption and severity 1…5, and on clean images.

    `clean`: None if the table does not say.
    """

    errors: Mapping[str, Mapping[int, float]]
    clean: float | None = None


def read_severity_errors(path: str | PathLike[str]) -> dict[str, SeverityErrors]:
    """Return the errors of each model in a CSV file of accuracies at each severity.

    Either the columns model, corruption, severity (1 to 5) and accuracy (a share); a row whose
    corruption is "clean" has the accuracy on clean images. Or RobustBench's own files
    (unaggregated_results.csv): corruptions in the first row, severities in the second, then a row
    for each model. What comes back for each model is what `mean_corruption_error` takes:

        >>> import eyechart as ec
        >>> for model, own in ec.read_severity_errors("accuracies.csv").items():  # doctest: +SKIP
        ...     mce = ec.mean_corruption_error(own.errors, "robustbench-alexnet")
        ...     print(model, round(100 * mce.value, 2))

    Raises:
        UsageError: a column, a severity or a number is missing, there twice, or no share.
    """
    file = Path(as_path(path, "path", "the path of a CSV file"))
    try:
        return _read(file)
    except csv.Error as error:
        raise UsageError(f"{file} must be a CSV file, got one with an error: {error}.") from None


def _read(path: Path) -> dict[str, SeverityErrors]:
    by_model: dict[str, dict[str, dict[int, float]]] = {}
    clean: dict[str, float] = {}
    for row in _rows(path):
        model, corruption = row.filled("model"), row.filled("corruption")
        # 1 − 0.9 is 0.1, and not the 0.09999999999999998 that the machine makes of it
        error = round(1 - row.share("accuracy"), 12)
        by_corruption = by_model.setdefault(model, {})
        if corruption == CLEAN:
            if model in clean:
                raise row.refusal(f"clean accuracy of {model} is there twice")
            clean[model] = error
            continue
        severity = _severity(row)
        if severity in by_corruption.setdefault(corruption, {}):
            raise row.refusal(f"severity {severity} of {corruption} is there twice for {model}")
        by_corruption[corruption][severity] = error
    for model, errors in by_model.items():
        _check_whole(path, model, errors)
    return {model: SeverityErrors(errors, clean.get(model)) for model, errors in by_model.items()}


def _rows(path: Path) -> Iterator[CsvRow]:
    """Yield a row for each accuracy, whichever of the two formats a file has."""
    # RobustBench's own table has no name for its first column
    return _wide_rows(path) if "" in column_names(path) else read_rows(path, COLUMNS)


def _wide_rows(path: Path) -> Iterator[CsvRow]:
    """Yield the cells of RobustBench's own table, whose head is two rows."""
    lines = list(csv.reader(read_text(path).splitlines()))
    corruptions, severities = lines[0], lines[1] if len(lines) > 1 else []
    for number, line in enumerate(lines[2:], 3):
        if not line:
            continue
        if not len(line) == len(severities) == len(corruptions):
            raise UsageError(
                f"{path}, row {number} must have {len(corruptions)} cells, as the rows of"
                f" corruptions and of severities, got {len(line)}."
            )
        for column in range(1, len(line)):
            cells = (line[0], corruptions[column], severities[column], line[column])
            yield CsvRow(path, number, dict(zip(COLUMNS, map(str.strip, cells), strict=True)))
    if len(lines) < 3:
        raise UsageError(f"{path} has no rows.")


def _severity(row: CsvRow) -> int:
    severity = row.whole("severity")
    if severity not in SEVERITIES:
        raise row.refusal(f"severity must be in 1 to 5, got {severity}")
    return severity


def _check_whole(path: Path, model: str, errors: Mapping[str, Mapping[int, float]]) -> None:
    if not errors:
        raise UsageError(f"{path} must have corrupted accuracies of {model}, got clean ones only.")
    for corruption, by_severity in errors.items():
        missing = [severity for severity in SEVERITIES if severity not in by_severity]
        if missing:
            raise UsageError(
                f"{path} must have severities 1 to 5 of every corruption, and has no severity"
                f" {missing[0]} of {corruption} for {model}: add the row."
            )
