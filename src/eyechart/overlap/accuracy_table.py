"""Tables of accuracy under every corruption, for models that were each trained on one corruption.

Tables written by a study and tables supplied by users have the same format. This module also reads
the individual predictions in a study folder, `tests/SEED/NAME.parquet` with one column per model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.core.csv_table import check_width, first_duplicate, read_cells, write_cells
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.core.storage.parts import file_name, read_parquet
from eyechart.core.storage.run_folder import RECORD, read_settings
from eyechart.overlap.matrix import (
    Hits,
    OverlapMatrix,
    clean_notes,
    overlap_matrix,
    overlap_scores,
    robustness_scores,
)
from eyechart.overlap.overlap_settings import MIN_GAIN

FILE = "accuracies.csv"
HITS_FOLDER = "tests"
TRAINED_ON, SEED, CLEAN = "trained_on", "seed", "clean"
STANDARD = "standard"
"""Name of the model trained on clean images only."""

ALL = "all:"
"""Prefix of a benchmark's name that denotes the model trained on all its corruptions."""


@dataclass(frozen=True, eq=False)
class AccuracyTable:
    """A table of accuracies in [0, 1], indexed as `values[seed, model, test]`.

    Attributes:
        corruptions: Names of the corruptions.
        models: Names of the models: "standard", then `corruptions`, then "all:BENCHMARK" names.
        values: Accuracies; the first test is on clean images, the others are on the corruptions.
        seeds: Names of the repetitions; a single empty name if the table has no seeds.
    """

    corruptions: tuple[str, ...]
    models: tuple[str, ...]
    values: FloatArray
    seeds: tuple[str, ...] = ("",)

    @property
    def tests(self) -> tuple[str, ...]:
        """Names of the tests: "clean", then the corruptions."""
        return (CLEAN, *self.corruptions)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Benchmarks for which a model was trained on all corruptions."""
        return tuple(name.removeprefix(ALL) for name in self.models[1 + len(self.corruptions) :])

    def of(self, model: str) -> FloatArray:
        """Return a model's accuracies, averaged over seeds: clean, then each corruption."""
        if model not in self.models:
            raise unknown_name("model in the table:", model, self.models)
        accuracies: FloatArray = self.values[:, self.models.index(model)].mean(axis=0)
        return accuracies

    def place(self, corruption: str) -> int:
        """Return the index of a corruption among the tests."""
        if corruption not in self.corruptions:
            raise unknown_name("corruption in the table:", corruption, self.corruptions)
        return 1 + self.corruptions.index(corruption)

    def robustness(self) -> FloatArray:
        """Return R = A_c / A_clean of the standard model and of the models trained on a corruption.

        The shape is (seeds, 1 + n, n).
        """
        single = self.values[:, : 1 + len(self.corruptions)]
        return robustness_scores(single[..., 1:], single[..., 0])

    def seed_deviation(self, min_gain: float = MIN_GAIN) -> FloatArray | None:
        """Return the standard deviation of each overlap over seeds; None if there is only one seed.

        It is the sample standard deviation, and NaN if the overlap is undetermined for any seed.
        """
        if len(self.seeds) < 2:
            return None
        deviation: FloatArray = overlap_scores(self.robustness(), min_gain).std(axis=0, ddof=1)
        return deviation

    def matrix(self, min_gain: float = MIN_GAIN, classes: int | None = None) -> OverlapMatrix:
        """Return the overlaps, computed from robustness averaged over seeds, with notes."""
        matrix = overlap_matrix(self.robustness().mean(axis=0), self.corruptions, min_gain)
        single = 1 + len(self.corruptions)
        # Models trained on whole benchmarks are not part of the matrix.
        clean = self.values[:, :single, 0].mean(axis=0)
        notes = clean_notes(self.models[:single], clean, classes) + matrix.notes
        return OverlapMatrix(matrix.names, matrix.scores, matrix.gains, matrix.min_gain, notes)


def read_accuracies(path: Path) -> AccuracyTable:
    """Return the table in a CSV file, or in the `accuracies.csv` of a run folder.

    The columns are trained_on, optionally seed, clean, then the corruptions. For each seed there is
    a row "standard", one row per corruption, and optionally rows "all:BENCHMARK".
    """
    if path.is_dir():
        if not (path / FILE).is_file():
            raise UsageError(f"{path} has no {FILE}, so it is not the folder of an overlap study.")
        path = path / FILE
    rows = read_cells(path, "an accuracy table")
    if not rows:
        raise UsageError(
            f"{path} must begin with the row {TRAINED_ON},{CLEAN},CORRUPTION…, but is empty."
        )
    corruptions, start = _head(path, rows[0])
    rows_by_model: dict[tuple[str, str], list[float]] = {}
    for row in rows[1:]:
        check_width(path, row, len(rows[0]))
        # The column seed is optional.
        key = (row[1] if start == 3 else "", row[0])
        if key in rows_by_model:
            raise UsageError(f"{path} must have one row for each model, got {_called(key)} twice.")
        rows_by_model[key] = [_share(path, row[0], cell) for cell in row[start - 1 :]]
    return _table(path, corruptions, rows_by_model)


def write_accuracies(table: AccuracyTable, path: Path) -> None:
    """Write the table as a CSV file for `read_accuracies`, at full precision."""
    repeated = table.seeds != ("",)
    rows = [[TRAINED_ON, *([SEED] if repeated else []), *table.tests]]
    for seed, seed_values in zip(table.seeds, table.values, strict=True):
        for model, accuracies in zip(table.models, seed_values, strict=True):
            # repr gives the shortest text that is read back as the same number.
            cells = [repr(float(value)) for value in accuracies]
            rows.append([model, *([seed] if repeated else []), *cells])
    write_cells(path, rows)


def read_hits(folder: Path, table: AccuracyTable, with_benchmarks: bool = False) -> Hits | None:
    """Return which predictions are correct, as input for `overlap_intervals`.

    The shape is (seeds, models, tests, images), with models and tests as in the table. Models
    trained on whole benchmarks are included only with `with_benchmarks`. Return None if the folder
    has no predictions.
    """
    seeds = sorted(path for path in (folder / HITS_FOLDER).glob("*") if path.is_dir())
    if not seeds:
        return None
    models = list(table.models if with_benchmarks else table.models[: 1 + len(table.corruptions)])
    tables = []
    for seed in seeds:
        for test in table.tests:
            columns = read_parquet(seed / f"{file_name(test)}.parquet", models)
            tables.append(np.stack([columns[name].to_numpy().astype(bool) for name in models]))
    # Intervals resample images jointly over all tests, so these must be the same images.
    counts = {hits.shape[1] for hits in tables}
    if len(counts) > 1:
        raise UsageError(
            f"{folder / HITS_FOLDER} must have the same images for every test, got "
            f"{' and '.join(f'{count:,}' for count in sorted(counts)[:2])} images."
        )
    shape = (len(seeds), len(table.tests), len(models), counts.pop())
    return np.stack(tables).reshape(shape).swapaxes(1, 2)


def count_classes(folder: Path) -> int | None:
    """Return the number of classes in a study, or None if it is unknown."""
    if not (folder / RECORD).is_file():
        return None
    classes = read_settings(folder / RECORD).get("classes")
    return len(classes) if isinstance(classes, list) and len(classes) > 1 else None


def _head(path: Path, head: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the corruptions in the header, and the index of the first corruption's column."""
    repeated = len(head) > 1 and head[1] == SEED
    start = 3 if repeated else 2
    wanted = [TRAINED_ON, *([SEED] if repeated else []), CLEAN]
    # A single cell with semicolons or tabs: a spreadsheet exported it with another separator.
    if len(head) == 1 and any(mark in head[0] for mark in ";\t"):
        raise UsageError(f"{path} must have commas between its cells: save it as CSV with commas.")
    if list(head[:start]) != wanted:
        raise UsageError(
            f"{path} must begin with the columns {TRAINED_ON}, optionally {SEED}, and {CLEAN}, got"
            f" {', '.join(head[:start]) or 'none'}."
        )
    corruptions = tuple(head[start:])
    if not corruptions or not all(corruptions):
        raise UsageError(f"{path} must have a named column for each corruption after {CLEAN}.")
    double = first_duplicate(corruptions)
    if double is not None:
        raise UsageError(f"{path} must have one column for each corruption, got {double} twice.")
    return corruptions, start


def _share(path: Path, model: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        # NaN fails the comparison below, so text gets the same message as an invalid number.
        value = math.nan
    if not 0 <= value <= 1:
        hint = ": divide percent by 100" if 1 < value <= 100 else ""
        raise UsageError(
            f"{path} must contain accuracies between 0 and 1, got '{cell}' in the row of "
            f"{model}{hint}."
        )
    return value


def _table(
    path: Path, corruptions: tuple[str, ...], accuracies: dict[tuple[str, str], list[float]]
) -> AccuracyTable:
    seeds = tuple(dict.fromkeys(seed for seed, _ in accuracies))
    names = dict.fromkeys(model for _, model in accuracies)
    # Rows may come in any order; the table has a fixed one.
    together = tuple(name for name in names if name.startswith(ALL))
    models = (STANDARD, *corruptions, *together)
    if STANDARD not in names:
        raise UsageError(f"{path} must have a row '{STANDARD}': the model trained on clean images.")
    for name in names:
        if name not in models:
            raise UsageError(
                f"{path} must have a column for every corruption on which a model was trained, but "
                f"has none for {name or 'a row without a name'}."
            )
    for seed in seeds:
        for name in models:
            if (seed, name) not in accuracies:
                raise UsageError(
                    f"{path} must have a row for every corruption, but has none for "
                    f"{_called((seed, name))}: its overlaps require a model trained on it."
                )
    values = np.array([[accuracies[seed, name] for name in models] for seed in seeds])
    # R is a ratio to clean accuracy, for every seed.
    for name, clean in zip(models, values[..., 0].min(axis=0), strict=True):
        if clean == 0:
            raise UsageError(
                f"{path}: accuracy on clean images must be above 0, because robustness is a ratio "
                f"to it, got 0 for {name}."
            )
    return AccuracyTable(corruptions, models, values, seeds)


def _called(key: tuple[str, str]) -> str:
    seed, model = key
    return f"{model} with seed {seed}" if seed else model
