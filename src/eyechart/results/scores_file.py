"""The file of a run's scores with their bootstrap replicates, which is used to compare runs.

results.json, which has no replicates, is declared in `schema`.
"""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa

from eyechart.core.arguments import as_path
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import read_parquet, write_parquet
from eyechart.results.model_results import SpaceResults
from eyechart.results.results_file import read_results
from eyechart.results.schema import Results
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


def load(folder: str | PathLike[str]) -> Results:
    """Return the results of a finished run, equal to what `evaluate` returned.

    Scores of corruptions have their bootstrap replicates if the folder contains scores.parquet;
    fitted curves are not stored.

    Args:
        folder: Run folder.

    Raises:
        UsageError: If the folder has no finished run.

    Example:
        >>> import tempfile
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> results = ec.evaluate(
        ...     mean_color, n=20, corruptions=["gaussian_blur"], labels="none", max_images=2,
        ...     bins=4,
        ...     min_per_bin=2, n_bootstrap=10,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = results.save(folder)
        ...     ec.load(folder) == results
        True
    """
    home = Path(as_path(folder, "folder", "the path of a folder"))
    results, path = read_results(home), home / SCORES_FILE
    if path.is_file():
        kept = read_scores(path)
        for key, estimate in scores_of(results):
            if key in kept:
                # Replicates are too large for results.json and are stored next to it.
                estimate.attach(kept[key].replicates)
    return results
