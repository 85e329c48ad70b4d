"""The samples of a finished run with the predictions for them, and facts about its images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.csv_table import read_rows
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles, file_name, read_parquet
from eyechart.corruptions.suites.suite import Entry
from eyechart.images.image_list import MANIFESTS, PATH_COLUMNS, printable
from eyechart.images.imageset import Damaged
from eyechart.images.labels.imagenet import CATEGORIES, NONE, class_names
from eyechart.images.labels.matching import native_labels
from eyechart.images.labels.spaces import ENTRY16, NO_LABELS
from eyechart.predictions.reading import PredictionReader, Predictions, left_out, without
from eyechart.results.model_results import ModelResults
from eyechart.results.results_file import read_results
from eyechart.results.schema import PREDICTIONS_FOLDER, Results
from eyechart.scores.scoring import class_weights
from eyechart.testsets.manifest_rows import SCHEMA
from eyechart.testsets.plan import CLEAN

IMAGE_COLUMNS = ("image", "label", "category", "digest")
"""Columns of the recorded samples that describe an image."""

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


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run folder that `eyechart evaluate` wrote, with its results.

    `kept` caches predictions, because several rules may apply to the same corruption.
    """

    folder: Path
    results: Results
    kept: dict[tuple[str, str, str], Predictions] = field(default_factory=dict, repr=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(model.name for model in self.results.models)

    @property
    def corruptions(self) -> tuple[str, ...]:
        """Names of the corruptions, in the suite's order."""
        return self.results.config.corruptions

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """The suite's declaration of each corruption; empty if the suite's file is missing."""
        try:
            return {entry.name: entry for entry in self.results.config.plan.entries()}
        except UsageError:
            return {}

    def families_of(self, corruption: str) -> tuple[str, ...]:
        """Return the family of a corruption, and the group in which it was published."""
        entry = self.entries.get(corruption)
        if entry is None:
            return ()
        try:
            family = entry.corruption.family
        except UsageError:
            # corruptions that are read from files have no function
            family = entry.group
        return tuple(dict.fromkeys(name for name in (family, entry.group) if name))

    def model(self, name: str) -> ModelResults:
        """Return the results of a model."""
        return self.results[name]

    def samples(self, corruption: str) -> pa.Table:
        """Return the samples of a corruption as the test set describes them, in order."""
        columns = [*SCHEMA.names, "model"]
        rows = self._read(corruption, columns, only=("model", self.models[0]))
        return without(rows, self._left_out)

    def predictions(self, corruption: str, model: str, space: str) -> Predictions:
        """Return a model's predictions in a label space, weighted as in the run's scores."""
        key = corruption, model, space
        if key not in self.kept:
            self.kept[key] = self._predictions(*key)
        return self.kept[key]

    def _predictions(self, corruption: str, model: str, space: str) -> Predictions:
        predictions = self._reader(model, space).outcomes(model, corruption)
        # As in the run's scores: with the 16 categories only images that have one count, and
        # categories count equally unless the test set was balanced over them.
        if space != ENTRY16 or not (self.labels(model, space) != NONE).any():
            return predictions
        predictions = predictions.select(predictions.label != NONE)
        if self.results.config.labels == ENTRY16:
            return predictions
        return replace(predictions, weights=class_weights(predictions.label))

    def image_names(self, model: str, space: str) -> list[str]:
        """Return the names of the images that `Predictions.image` indexes."""
        return self._reader(model, space).image_names(model)

    def class_names(self, model: str, space: str) -> Sequence[str]:
        """Return the names of the classes of a label space."""
        return CATEGORIES if space == ENTRY16 else self.model(model).outputs or class_names()

    def column(self, name: str) -> Mapping[str, str]:
        """Return a column of the list of images, as a mapping from image names to values.

        Raises:
            UsageError: There is no such column, or the list is missing or has changed.
        """
        if name in IMAGE_COLUMNS:
            table = self._images
            values = table[name].to_pylist()
            return dict(zip(table["image"].to_pylist(), map(_plain, values), strict=True))
        listed = self._listed
        known = sorted({*IMAGE_COLUMNS, *(key for cells in listed.values() for key in cells)})
        if not listed:
            raise UsageError(
                f"no column {name!r}: the run has {', '.join(IMAGE_COLUMNS)}, and the list of"
                f" images, which may have more columns, is not at {self.results.run.images}."
            )
        if name.lower() not in known:
            raise UsageError(f"no column {name!r}: the columns are {', '.join(known)}.")
        missing = [image for image in self._images["image"].to_pylist() if image not in listed]
        if missing:
            raise UsageError(
                f"{self.results.run.images} has changed since the run: it no longer lists"
                f" {missing[0]}."
            )
        return {image: cells.get(name.lower(), "") for image, cells in listed.items()}

    @cached_property
    def has_clean(self) -> bool:
        """Whether the run contains predictions for the clean images."""
        return CLEAN in self._parts.names()

    @cached_property
    def _parts(self) -> PartFiles:
        return PartFiles(self.folder / PREDICTIONS_FOLDER)

    @cached_property
    def _listed(self) -> Mapping[str, Mapping[str, str]]:
        """The rows of the list of images (CSV or Parquet) by image; empty if there is no list."""
        source = Path(self.results.run.images)
        if source.suffix.lower() not in MANIFESTS or not source.is_file():
            return {}
        if source.suffix.lower() == ".csv":
            rows = [dict(row.cells) for row in read_rows(source, is_ragged=True)]
        else:
            rows = [
                {str(key).strip().lower(): _plain(value) for key, value in row.items()}
                for row in read_parquet(source).to_pylist()
            ]
        path = next((name for name in PATH_COLUMNS if rows and name in rows[0]), None)
        return {} if path is None else {printable(row[path]): row for row in rows}

    @cached_property
    def _images(self) -> pa.Table:
        """Name, label, category and digest of every image."""
        name = CLEAN if self.has_clean else self.corruptions[0]
        table = self._read(name, ["row", *IMAGE_COLUMNS, "model"], only=("model", self.models[0]))
        names = table["image"].to_pylist()
        # Without clean images the samples of a corruption name each image several times.
        first = {image: place for place, image in reversed(list(enumerate(names)))}
        return table.take(pa.array(sorted(first.values())))

    def _read(self, name: str, columns: list[str], only: tuple[str, str]) -> pa.Table:
        if file_name(name) not in self._parts.names():
            raise UsageError(
                f"{self.folder} lacks the predictions for {name}: copy the whole folder of the run,"
                " or run the evaluation again."
            )
        return self._parts.read(name, columns, only)

    @cached_property
    def _left_out(self) -> list[Damaged]:
        return left_out(self._parts.folder)

    def _reader(self, model: str, space: str) -> PredictionReader:
        labels = dict(
            zip(self._images["image"].to_pylist(), self.labels(model, space).tolist(), strict=True)
        )
        rule = self.results.config.rule if space == ENTRY16 else None
        return PredictionReader(self._parts.folder, labels, rule, self.has_clean)

    def labels(self, model: str, space: str) -> IntArray:
        """Return the label of each image in a label space; −1 if an image has no label."""
        if self.results.config.labels == NO_LABELS:
            return np.full(len(self._images), NONE)
        if space == ENTRY16:
            categories = self._images["category"].to_pylist()
            return np.array(
                [NONE if name is None else CATEGORIES.index(name) for name in categories]
            )
        results = self.model(model)
        return native_labels(
            self._images["label"].to_pylist(), results.classes, results.outputs or None
        )


def read_recorded_run(folder: Path) -> RecordedRun:
    """Return the finished run in a folder."""
    return recorded_run(read_results(folder), folder)


def recorded_run(results: Results, folder: Path | None) -> RecordedRun:
    """Return results with the predictions in their folder.

    Raises:
        UsageError: The predictions were not kept, or the folder no longer has them.
    """
    if folder is None:
        raise UsageError("These results have no predictions: call evaluate with out=FOLDER.")
    if not (folder / PREDICTIONS_FOLDER).is_dir():
        raise UsageError(
            f"{folder} has no folder {PREDICTIONS_FOLDER}: use the whole folder that evaluate wrote"
            " (its out)."
        )
    return RecordedRun(folder, results)


def _plain(value: object) -> str:
    return "" if value is None else str(value).strip()


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
