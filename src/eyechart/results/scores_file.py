"""All scores of a run as tables: scores.parquet with bootstrap replicates, and `Results.to_arrow`.

results.json and results.csv are in `results_file`.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import read_parquet, write_parquet
from eyechart.results.model_results import CorruptionResults, SpaceResults
from eyechart.results.schema import Results
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

SCORES_FILE = "scores.parquet"
CLEAN_ACCURACY, CLEAN_ERROR = "clean_accuracy", "clean_error"
WHOLE = ""
"""Corruption name under which scores of the whole test are stored."""

SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("space", pa.string()),
        ("corruption", pa.string()),
        ("score", pa.string()),
        ("value", pa.float64()),
        ("low95", pa.float64()),
        ("high95", pa.float64()),
        ("low83", pa.float64()),
        ("high83", pa.float64()),
        ("replicates", pa.list_(pa.float64())),
    ]
)
"""`score` is a name from `scores.registry`, or `clean_error`. `replicates` has the score in each
bootstrap replicate of the images; all rows of a run use the same replicates.
"""

SCORE_SCHEMA = pa.schema(
    [
        *(column for column in SCHEMA if column.name != "replicates"),
        ("n_images", pa.int64()),
        ("n_samples", pa.int64()),
    ]
)
"""`score` is a name from `scores.registry`; `value` and the ends of its intervals are null if they
are undetermined. `n_images` is the number of images that are scored in the label space, `n_samples`
the number of samples of the corruption.
"""

Key = tuple[str, str, str, str]
"""Key of a score: model, label space, corruption and name of the score."""


def scores_of(results: Results) -> Iterator[tuple[Key, Estimate]]:
    """Yield every score of a run."""
    for model in results.models:
        for name, space in model.spaces.items():
            for (corruption, score), estimate in _scores_in(space):
                yield (model.name, name, corruption, score), estimate


def _scores_in(space: SpaceResults) -> Iterator[tuple[tuple[str, str], Estimate]]:
    if space.clean_accuracy is not None:
        yield (WHOLE, CLEAN_ACCURACY), space.clean_accuracy
    for corruption, results in space.corruptions.items():
        if results.clean_error is not None:
            yield (corruption, CLEAN_ERROR), results.clean_error
        for name, estimate in results.scores.items():
            yield (corruption, name), estimate
    if space.corruption_error is not None:
        for name, table in space.corruption_error.tables.items():
            for corruption, estimate in table.items():
                yield (corruption, name), estimate
        # Means over corruptions are derived again on reading, except those relative to a baseline.
        for name, mean in space.corruption_error.means.items():
            yield (WHOLE, name), mean


def write_scores(results: Results, path: Path) -> None:
    """Write the scores of a run with their bootstrap replicates."""
    rows = [
        (*key, estimate.value, *estimate.interval95, *estimate.interval83, estimate.replicates)
        for key, estimate in scores_of(results)
    ]
    # zip of no rows yields no columns; the file needs them anyway.
    columns = zip(*rows, strict=True) if rows else ([] for _ in SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    write_parquet(pa.Table.from_arrays(arrays, schema=SCHEMA), path)


def read_scores(path: Path) -> dict[Key, Estimate]:
    """Return the scores in a file by model, label space, corruption and score."""
    scores = {}
    try:
        # The cast rejects files whose columns have other types.
        table = read_parquet(path, SCHEMA.names).select(SCHEMA.names).cast(SCHEMA)
    except pa.ArrowException:
        raise UsageError(f"{path} is damaged: run the evaluation again.") from None
    for row in table.to_pylist():
        key = (row["model"], row["space"], row["corruption"], row["score"])
        scores[key] = Estimate.of(
            row["value"],
            (row["low95"], row["high95"]),
            (row["low83"], row["high83"]),
            np.array(row["replicates"], dtype=np.float64),
        )
    return scores


def score_table(results: Results) -> pa.Table:
    """Return one row per model, label space, corruption and score."""
    rows = [
        {
            "model": model.name,
            "space": space_name,
            "corruption": corruption,
            "score": name,
            **_numbers(estimate),
            "n_images": space.n_images,
            "n_samples": _n_samples(record, name),
        }
        for model in results.models
        for space_name, space in model.spaces.items()
        for corruption, record in space.items()
        for name, estimate in record.scores.items()
    ]
    return pa.Table.from_pylist(rows, SCORE_SCHEMA)


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    numbers = (estimate.value, *estimate.interval95, *estimate.interval83)
    names = ("value", "low95", "high95", "low83", "high83")
    return dict(zip(names, map(known, numbers), strict=True))


def known(value: float) -> float | None:
    """Return a number, or None (null in a table) if it is undetermined (NaN)."""
    return None if np.isnan(value) else value


def _n_samples(record: CorruptionResults, score: str) -> int | None:
    # Scores of neither property, such as the error, are computed from correct predictions.
    results = record.properties.get(SCORES[score].letter or "a")
    return None if results is None else results.n_samples


def as_data_frame(table: pa.Table) -> Any:
    """Return a table as a pandas DataFrame; pandas is an optional dependency."""
    try:
        import_module("pandas")
    except ImportError:
        raise UsageError("to_pandas needs pandas: pip install pandas, or use to_arrow.") from None
    return table.to_pandas()
