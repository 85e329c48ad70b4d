"""Overlap matrices as CSV files, with names in the first row and column.

Cells of undetermined overlaps are empty.
"""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from eyechart.core.csv_table import check_width, first_duplicate, read_cells, write_cells
from eyechart.core.errors import UsageError
from eyechart.overlap.accuracy_table import TRAINED_ON, read_accuracies
from eyechart.overlap.matrix import OverlapMatrix
from eyechart.overlap.overlap_settings import MatrixSettings
from eyechart.overlap.selection import check_scores

USUAL = MatrixSettings()
FILE = "overlap.csv"
SELECTED = "selected"
"""Name of the optional last column, which contains yes or no."""


def read_matrix(path: Path) -> tuple[OverlapMatrix, tuple[str, ...]]:
    """Return the overlaps in a CSV file, and the names that it marks as selected.

    An empty cell means that the overlap is undetermined.
    """
    rows = read_cells(path, "overlapping scores")
    if len(rows) < 3:
        raise UsageError(
            f"{path} must have corruption names in its first row and first column, and at least two"
            f" corruptions, got {len(rows)} rows."
        )
    heads = rows[0][1:]
    marked = bool(heads) and heads[-1].lower() == SELECTED
    names = heads[:-1] if marked else heads
    _check_names(path, names, [row[0] for row in rows[1:]])
    scores = np.empty((len(names), len(names)))
    chosen = []
    for row_number, (name, row) in enumerate(zip(names, rows[1:], strict=True)):
        check_width(path, row, len(rows[0]))
        scores[row_number] = [_score(path, name, cell) for cell in row[1 : len(names) + 1]]
        if marked and row[-1].lower() not in ("yes", "no"):
            raise UsageError(
                f"{path} must have yes or no in its column {SELECTED}, got '{row[-1]}' for {name}."
            )
        if marked and row[-1].lower() == "yes":
            chosen.append(name)
    check_scores(scores, names, str(path))
    return OverlapMatrix(tuple(names), scores), tuple(chosen)


def write_matrix(
    matrix: OverlapMatrix, path: Path, selected: Collection[str] | None = None
) -> None:
    """Write the matrix as a file for `read_matrix`, at full precision.

    `selected`: corruptions selected for a benchmark, which are marked in an additional column.
    """
    rows = [["", *matrix.names, *([] if selected is None else [SELECTED])]]
    for name, row in zip(matrix.names, matrix.scores, strict=True):
        # Empty instead of nan, which spreadsheets treat as text.
        cells = ["" if math.isnan(score) else repr(float(score)) for score in row]
        marks = [] if selected is None else ["yes" if name in selected else "no"]
        rows.append([name, *cells, *marks])
    write_cells(path, rows)


def find_matrix(path: Path, settings: MatrixSettings = USUAL) -> OverlapMatrix:
    """Return the overlaps in a matrix file, or from an accuracy table or a run folder."""
    if path.is_dir() or is_accuracy_table(path):
        return read_accuracies(path).matrix(settings.min_gain, settings.classes)
    return read_matrix(path)[0]


def is_accuracy_table(path: Path) -> bool:
    """Return whether a file has the header of an accuracy table."""
    rows = read_cells(path, "overlapping scores")
    return bool(rows) and rows[0][0] == TRAINED_ON


def _check_names(path: Path, across: Sequence[str], down: Sequence[str]) -> None:
    if not all(across) or not all(down):
        raise UsageError(f"{path} must name every corruption in its first row and first column.")
    double = first_duplicate(across)
    if double is not None:
        raise UsageError(f"{path} must name every corruption once, got {double} twice.")
    if list(across) != list(down):
        differing = ""
        if len(across) == len(down):
            pairs = zip(across, down, strict=True)
            one, two = next(pair for pair in pairs if pair[0] != pair[1])
            differing = f", such as {one} across and {two} down"
        raise UsageError(
            f"{path} must be square, with the same names in the same order across and down; got"
            f" {len(across)} names across and {len(down)} down{differing}."
        )


def _score(path: Path, name: str, cell: str) -> float:
    """Return the overlap in a cell, or NaN if the cell is empty."""
    try:
        value = float(cell or "nan")
    except ValueError:
        # Outside the valid range, so text gets the same message as an invalid number.
        value = -1.0
    if cell and not 0 <= value < math.inf:
        raise UsageError(
            f"{path} must contain overlap scores of at least 0, or empty cells where they are "
            f"undetermined, got '{cell}' in the row of {name}."
        )
    return value
