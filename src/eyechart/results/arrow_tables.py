"""Results as Arrow tables: one row per score, or one row per sample and model.

Two schemas declare the columns. results.csv and results.json are written by `writing`.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import NONE
from eyechart.predictions.reading import Predictions
from eyechart.results.model_results import CorruptionResults
from eyechart.results.recorded_run import RecordedRun, recorded_run
from eyechart.results.schema import Results
from eyechart.results.scores_file import SCHEMA as STORED_SCORES
from eyechart.scores.registry import SCORES
from eyechart.stats.estimate import Estimate

SCORE_SCHEMA = pa.schema(
    [
        *(column for column in STORED_SCORES if column.name != "replicates"),
        ("n_images", pa.int64()),
        ("n_samples", pa.int64()),
    ]
)
"""`score` is a name from `scores.registry`; `value` and the ends of its intervals are null if they
are undetermined. `n_images` is the number of images that are scored in the label space, `n_samples`
the number of samples of the corruption.
"""

PREDICTION_SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("space", pa.string()),
        ("corruption", pa.string()),
        ("row", pa.int64()),
        ("image", pa.string()),
        ("label", pa.string()),
        ("prediction", pa.string()),
        ("confidence", pa.float64()),
        ("correct", pa.bool_()),
        ("consistent", pa.bool_()),
        ("delta_v", pa.float64()),
        ("severity", pa.float64()),
        ("parameters", pa.map_(pa.string(), pa.float64())),
    ]
)
"""`row` is the number of the sample in the test set, the same for all models. `label` and
`prediction` are names of classes. `correct` is null without a label, `consistent` (the prediction
equals that for the clean image) without clean images, `delta_v` where it cannot be measured, and
`severity` where parameters were sampled directly.
"""


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


def prediction_table(results: Results, space: str | None) -> pa.Table:
    """Return one row per model and sample, in a label space or in each model's primary one."""
    run = recorded_run(results, results.predictions_folder)
    return pa.concat_tables(_predictions(run, space), promote_options="none")


def _predictions(run: RecordedRun, space: str | None) -> Iterator[pa.Table]:
    for corruption in run.corruptions:
        samples = run.samples(corruption)
        for model in run.results.models:
            name = next(iter(model.spaces)) if space is None else space
            # Raises an error that lists the label spaces, if the model lacks this one.
            model.space(name)
            predictions = run.predictions(corruption, model.name, name)
            yield _table(run, predictions, samples, (model.name, name, corruption))


def _table(
    run: RecordedRun, predictions: Predictions, samples: pa.Table, names: tuple[str, str, str]
) -> pa.Table:
    model, space, corruption = names
    assert predictions.row is not None and predictions.prediction is not None
    assert predictions.confidence is not None
    # Only images of a category have predictions among the 16 categories, but every sample is here.
    at = pa.array(np.searchsorted(samples["row"].to_numpy(), predictions.row))
    classes, count = run.class_names(model, space), len(predictions)
    columns = {
        "model": pa.repeat(model, count),
        "space": pa.repeat(space, count),
        "corruption": pa.repeat(corruption, count),
        "row": predictions.row,
        "image": samples["image"].take(at),
        "label": _class_names(predictions.label, classes),
        "prediction": _class_names(predictions.prediction, classes),
        "confidence": _null_for_nan(predictions.confidence),
        "correct": _flags(predictions.correct),
        "consistent": _flags(predictions.consistent),
        "delta_v": _null_for_nan(predictions.delta_v),
        "severity": _null_for_nan(predictions.severity),
        "parameters": samples["parameters"].take(at),
    }
    return pa.table(columns, PREDICTION_SCHEMA)


def _class_names(label: IntArray, names: Sequence[str]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(label, mask=label == NONE))


def _flags(values: FloatArray) -> pa.Array:
    return pa.array(values == 1, pa.bool_(), mask=np.isnan(values))


def _null_for_nan(values: FloatArray) -> pa.Array:
    return pa.array(values, from_pandas=True)


def as_data_frame(table: pa.Table) -> Any:
    """Return a table as a pandas DataFrame; pandas is an optional dependency."""
    try:
        import_module("pandas")
    except ImportError:
        raise UsageError("to_pandas needs pandas: pip install pandas, or use to_arrow.") from None
    return table.to_pandas()
