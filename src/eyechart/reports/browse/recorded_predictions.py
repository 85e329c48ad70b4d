"""The recorded samples of a run, one corruption at a time, with each model's predictions."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import Parts, file_name
from eyechart.images.imageset import Damaged
from eyechart.images.labels.imagenet import CATEGORIES, NONE, class_names
from eyechart.images.labels.matching import native_labels
from eyechart.images.labels.spaces import ENTRY16
from eyechart.predictions.reading import PredictionReader, Predictions, left_out, without
from eyechart.results.model_results import ModelResults
from eyechart.results.runs import Run
from eyechart.results.schema import PREDICTIONS_FOLDER
from eyechart.testsets.manifest_rows import SCHEMA
from eyechart.testsets.plan import CLEAN

KEPT = 4
"""Number of corruptions per run whose tables are kept in memory."""

COLUMNS = ("row", "image", "delta_v", "severity", "model", "prediction", "confidence", "rank")
OF_CATEGORIES = ("category_max", "category_sum")

Tables = dict[tuple[str, str], pa.Table]
"""Rows by corruption and model."""


@dataclass(frozen=True, eq=False)
class NamedPredictions:
    """One model's predictions under one corruption in one label space, in the order of the samples.

    `names` are the class names.
    """

    space: str
    predictions: Predictions
    names: tuple[str, ...]

    def name(self, label: int) -> str:
        """Return a prediction or a label as text; "" for none."""
        return "" if label == NONE else self.names[label]


class RecordedPredictions:
    """The recorded predictions of a run. Tables are read on demand; recent tables are cached.

    `samples` returns a table of the test set's columns for a corruption, ordered by sample number.
    The caches do not keep threads apart: `Browser` answers one request at a time.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.parts = Parts(run.folder / PREDICTIONS_FOLDER)
        # One more than corruptions, because the clean samples are needed with any of them.
        self.samples = lru_cache(KEPT + 1)(self._read_samples)
        self._tables = lru_cache(KEPT)(self._read)
        # A model has at most two label spaces, native and entry16.
        self._named = lru_cache(KEPT * 2 * len(run.models))(self._name)

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The corruptions of the run, in the suite's order."""
        return self.run.config.corruptions

    @cached_property
    def has_clean(self) -> bool:
        """Whether the run also has predictions for the clean images."""
        return CLEAN in self.parts.names()

    def model(self, name: str) -> ModelResults:
        """Return the scores of a model, which the run must contain."""
        results = self.run.results.model(name)
        assert results is not None
        return results

    def predictions(self, corruption: str, model: str, space: str) -> NamedPredictions:
        """Return a model's predictions in a label space.

        If the model has no scores in this space, its first label space is used instead.
        """
        spaces = self.model(model).spaces
        return self._named(corruption, model, space if space in spaces else next(iter(spaces)))

    def corruption_of(self, row: int) -> str | None:
        """Return the corruption of a sample, or None if there is no such sample."""
        for name, rows in self._row_numbers.items():
            index = int(np.searchsorted(rows, row))
            if index < len(rows) and rows[index] == row:
                return name
        return None

    def index(self, corruption: str, row: int) -> int:
        """Return the index of a sample within its corruption; the sample must exist."""
        return int(np.searchsorted(self.samples(corruption)["row"].to_numpy(), row))

    def sample(self, corruption: str, row: int) -> pa.Table:
        """Return one sample as a table of one row, with the test set's columns."""
        return self.samples(corruption).slice(self.index(corruption, row), 1)

    def clean_sample(self, image: str) -> pa.Table | None:
        """Return the clean sample of an image; None if the run has no such sample."""
        if not self.has_clean:
            return None
        clean = self.samples(CLEAN)
        matching = clean.filter(pc.equal(clean["image"], image))
        return matching.slice(0, 1) if len(matching) else None

    @cached_property
    def _left_out(self) -> list[Damaged]:
        return left_out(self.parts.folder)

    @cached_property
    def _row_numbers(self) -> dict[str, IntArray]:
        """The sample numbers of each corruption, ascending."""
        return {
            # Every row is stored once per model. `np.unique` also sorts, as `searchsorted`
            # requires.
            name: np.unique(self._rows(name, ["row", "image"])["row"].to_numpy())
            for name in self.corruptions
        }

    @cached_property
    def _clean(self) -> Tables:
        return self._read(CLEAN) if self.has_clean else {}

    @cached_property
    def _true_labels(self) -> dict[str, tuple[str | None, str | None]]:
        """The label and the category of every image, by name."""
        table = self.samples(CLEAN if self.has_clean else self.corruptions[0])
        columns = (table[name].to_pylist() for name in ("image", "label", "category"))
        return {name: (label, category) for name, label, category in zip(*columns, strict=True)}

    def _rows(self, name: str, columns: list[str], only: tuple[str, str] | None = None) -> pa.Table:
        """Return the rows of a corruption, without excluded images."""
        if file_name(name) not in self.parts.names():
            raise UsageError(
                f"{self.parts.folder} lacks the predictions for {name}, which the image browser"
                " needs: copy the whole folder of the run, or re-run the evaluation."
            )
        return without(self.parts.read(name, columns, only), self._left_out)

    def _read_samples(self, corruption: str) -> pa.Table:
        # The test set's columns are repeated for every model, so one model has all samples.
        first = ("model", self.run.models[0])
        table = self._rows(corruption, [*SCHEMA.names, "model"], only=first)
        return table.drop_columns(["model"]).combine_chunks()

    def _read(self, corruption: str) -> Tables:
        """Return the rows of each model; all models share one file."""
        columns = list(COLUMNS)
        if any(ENTRY16 in model.spaces for model in self.run.results.models):
            columns += OF_CATEGORIES
        table = self._rows(corruption, columns)
        return {
            (corruption, name): table.filter(pc.equal(table["model"], name))
            for name in self.run.models
        }

    def _name(self, corruption: str, name: str, space: str) -> NamedPredictions:
        model = self.model(name)
        rule = self.run.config.rule if space == ENTRY16 else None
        labels = dict(zip(self._true_labels, self._labels(model, space).tolist(), strict=True))
        shared = {**self._tables(corruption), **self._clean}
        reader = PredictionReader(self.parts.folder, labels, rule, self.has_clean, shared)
        names = CATEGORIES if space == ENTRY16 else model.outputs or class_names()
        return NamedPredictions(space, reader.outcomes(name, corruption), names)

    def _labels(self, model: ModelResults, space: str) -> IntArray:
        """Return each image's label as an index into a model's classes, −1 for none."""
        if self.run.config.labels == "none":
            return np.full(len(self._true_labels), NONE)
        labels, categories = zip(*self._true_labels.values(), strict=True)
        if space == ENTRY16:
            return np.array(
                [NONE if name is None else CATEGORIES.index(name) for name in categories]
            )
        return native_labels(list(labels), model.classes, model.outputs or None)
