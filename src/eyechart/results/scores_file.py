"""The scores of a run with their replicates, in a file: what runs are compared by."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eyechart.core.parts import read_parquet, write_parquet
from eyechart.scores.evaluation import Evaluation, ModelScore, SpaceScore
from eyechart.scores.registry import values_of
from eyechart.stats.estimate import Estimate

SCORES_FILE = "scores.parquet"
CLEAN_ACCURACY, CLEAN_ERROR = "clean_accuracy", "clean_error"
WHOLE = ""
"""The corruption of scores that are of none."""

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
"""`score`: its name in `scores.registry`, or `clean_error`. `replicates`: in each resampled set of
pictures, the same sets for every row of the run."""

Key = tuple[str, str, str, str]
"""Model, label space, corruption, score."""


def scores_of(evaluation: Evaluation) -> Iterator[tuple[Key, Estimate]]:
    """Yield every score of a run."""
    for model in evaluation.models:
        for space in model.spaces:
            yield from _of_space(model, space)


def _of_space(model: ModelScore, space: SpaceScore) -> Iterator[tuple[Key, Estimate]]:
    where = (model.name, space.space)
    if space.clean_accuracy is not None:
        yield (*where, WHOLE, CLEAN_ACCURACY), space.clean_accuracy
    for score in space.corruptions:
        if score.clean_error is not None:
            yield (*where, score.corruption, CLEAN_ERROR), score.clean_error
        for name, value in values_of(score).items():
            yield (*where, score.corruption, name), value
    if space.normalised is not None:
        for name, table in space.normalised.tables.items():
            for corruption, value in table.items():
                yield (*where, corruption, name), value
        for name, mean in space.normalised.means.items():
            yield (*where, WHOLE, name), mean


def write_scores(evaluation: Evaluation, path: Path) -> None:
    """Write the scores of a run with their replicates."""
    found = dict(scores_of(evaluation))
    keys, values = list(found), list(found.values())
    columns: list[list[Any]] = [[key[place] for key in keys] for place in range(4)]
    numbers = [[own.value, *own.interval, *own.narrow_interval] for own in values]
    columns += [[row[place] for row in numbers] for place in range(5)]
    columns.append([own.replicates for own in values])
    arrays = [pa.array(own, field.type) for own, field in zip(columns, SCHEMA, strict=True)]
    write_parquet(pa.Table.from_arrays(arrays, schema=SCHEMA), path)


def read_scores(path: Path) -> dict[Key, Estimate]:
    """Return the scores in a file by model, label space, corruption and score."""
    found = {}
    for row in read_parquet(path, SCHEMA.names).to_pylist():
        key = (row["model"], row["space"], row["corruption"], row["score"])
        found[key] = Estimate(
            row["value"],
            (row["low95"], row["high95"]),
            (row["low83"], row["high83"]),
            np.array(row["replicates"], dtype=np.float64),
        )
    return found
