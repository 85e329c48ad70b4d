"""Read accuracies at each severity from a CSV file, as published by RobustBench."""

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
    """Error rates of one model in [0, 1]: by corruption and severity 1…5, and on clean images.

    `clean` is None if the table has no accuracy on clean images.
    """

    errors: Mapping[str, Mapping[int, float]]
    clean: float | None = None


def read_severity_errors(path: str | PathLike[str]) -> dict[str, SeverityErrors]:
    r"""Return the error rates of each model in a CSV file of accuracies at each severity.

    The file has the columns model, corruption, severity (1 to 5) and accuracy (in [0, 1]); a row
    with the corruption "clean" has the accuracy on clean images. RobustBench's files
    (unaggregated_results.csv) are read as well: corruptions in the first row, severities in the
    second, then one row per model.

    Args:
        path: The CSV file.

    Returns:
        Error rates by model; pass the attribute `errors` to `mean_corruption_error`.

    Raises:
        UsageError: If a column, severity or number is missing, duplicated or out of range.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import eyechart as ec
        >>> lines = [f"resnet,fog,{severity},{1 - severity / 10}" for severity in range(1, 6)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "accuracies.csv")
        ...     _ = path.write_text("\n".join(["model,corruption,severity,accuracy", *lines]))
        ...     models = ec.read_severity_errors(path)
        >>> models["resnet"].errors["fog"]
        {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5}
        >>> round(ec.corruption_error(models["resnet"].errors, {"fog": 0.6}).values["fog"], 3)
        0.5
    """
    file = Path(as_path(path, "path", "the path of a CSV file"))
    try:
        return _read(file)
    except csv.Error as error:
        raise UsageError(f"{file} must be a valid CSV file, got an error: {error}.") from None


def _read(path: Path) -> dict[str, SeverityErrors]:
    by_model: dict[str, dict[str, dict[int, float]]] = {}
    clean: dict[str, float] = {}
    for row in _rows(path):
        model, corruption = row.filled("model"), row.filled("corruption")
        # 1 − 0.9 is 0.09999999999999998 in floating point; rounding restores 0.1.
        error = round(1 - row.share("accuracy"), 12)
        by_corruption = by_model.setdefault(model, {})
        # Clean accuracy has no severity.
        if corruption == CLEAN:
            if model in clean:
                raise row.rejection(f"clean accuracy of {model} appears twice")
            clean[model] = error
            continue
        severity = _severity(row)
        if severity in by_corruption.setdefault(corruption, {}):
            raise row.rejection(f"severity {severity} of {corruption} appears twice for {model}")
        by_corruption[corruption][severity] = error
    for model, errors in by_model.items():
        _check_whole(path, model, errors)
    return {model: SeverityErrors(errors, clean.get(model)) for model, errors in by_model.items()}


def _rows(path: Path) -> Iterator[CsvRow]:
    """Yield one row per accuracy, in either of the two formats."""
    # The first column of RobustBench's table has no name.
    return _wide_rows(path) if "" in column_names(path) else read_rows(path, COLUMNS)


def _wide_rows(path: Path) -> Iterator[CsvRow]:
    """Yield the cells of RobustBench's table, which has two header rows."""
    lines = list(csv.reader(read_text(path).splitlines()))
    corruptions, severities = lines[0], lines[1] if len(lines) > 1 else []
    # Line numbers in messages count from 1, after two header lines.
    for number, line in enumerate(lines[2:], 3):
        if not line:
            continue
        # A shifted row would silently assign accuracies to the wrong corruption.
        if not len(line) == len(severities) == len(corruptions):
            raise UsageError(
                f"{path}, row {number} must have {len(corruptions)} cells, like the header "
                f"rows of corruptions and severities, got {len(line)}."
            )
        for column in range(1, len(line)):
            cells = (line[0], corruptions[column], severities[column], line[column])
            yield CsvRow(path, number, dict(zip(COLUMNS, map(str.strip, cells), strict=True)))
    if len(lines) < 3:
        raise UsageError(f"{path} has no rows.")


def _severity(row: CsvRow) -> int:
    severity = row.whole("severity")
    if severity not in SEVERITIES:
        raise row.rejection(f"severity must be in 1 to 5, got {severity}")
    return severity


def _check_whole(path: Path, model: str, errors: Mapping[str, Mapping[int, float]]) -> None:
    if not errors:
        raise UsageError(
            f"{path} must have accuracies of {model} on corrupted images, got only clean ones."
        )
    for corruption, by_severity in errors.items():
        missing = [severity for severity in SEVERITIES if severity not in by_severity]
        if missing:
            raise UsageError(
                f"{path} must have severities 1 to 5 of every corruption, but has no severity "
                f"{missing[0]} of {corruption} for {model}: add the row."
            )
