"""The recorded rows of a run, a corruption at a time: what was shown, and what each model said."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eyechart.core.errors import UsageError
from eyechart.core.parts import Parts, file_name
from eyechart.images.imageset import Damaged
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.labels.imagenet import class_names
from eyechart.labels.spaces import ENTRY16, native_labels
from eyechart.pipeline.prepare import PREDICTIONS
from eyechart.predictions.reading import PredictionReader, Predictions
from eyechart.predictions.unreadable import left_out, without
from eyechart.reports.browse.recent import Recent
from eyechart.results.runs import Run
from eyechart.results.schema import ModelResults
from eyechart.testsets.manifest import SCHEMA
from eyechart.testsets.plan import CLEAN
from eyechart.testsets.samples import IntArray

KEPT = 4
"""So many corruptions of a run stay in memory."""

COLUMNS = ("row", "picture", "delta_v", "severity", "model", "answer", "confidence", "rank")
OF_CATEGORIES = ("category_max", "category_sum")

Tables = dict[tuple[str, str], pa.Table]
"""Rows by corruption and model."""


@dataclass(frozen=True, eq=False)
class Said:
    """One model's answers to one corruption in one label space, in the order of the rows.

    `names`: what answers are called.
    """

    space: str
    outcomes: Predictions
    names: tuple[str, ...]

    def name(self, answer: int) -> str:
        """Return an answer, or a label, as text; "" for none."""
        return "" if answer == NONE else self.names[answer]


class Answers:
    """What a run recorded. Tables are read when they are asked for, the last few are kept.

    `shown`: by corruption, the rows with the test set's columns, in the order of their numbers.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.parts = Parts(run.folder / PREDICTIONS)
        self.shown: Recent[str, pa.Table] = Recent(self._shown, KEPT + 1)
        self._tables: Recent[str, Tables] = Recent(self._read, KEPT)
        self._said: Recent[tuple[str, str, str], Said] = Recent(
            self._say, KEPT * 2 * len(run.models)
        )

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The corruptions of the run, in the suite's order."""
        return self.run.config.corruptions

    @cached_property
    def has_clean(self) -> bool:
        """Whether the clean pictures were shown too."""
        return CLEAN in self.parts.names()

    def model(self, name: str) -> ModelResults:
        """Return the scores of a model, which must be there."""
        found = self.run.results.model(name)
        assert found is not None
        return found

    def said(self, corruption: str, model: str, space: str) -> Said:
        """Return a model's answers in a label space, or in its own where it lacks that one."""
        spaces = self.model(model).spaces
        return self._said[corruption, model, space if space in spaces else next(iter(spaces))]

    def corruption_of(self, row: int) -> str | None:
        """Return the corruption that a row is of, None if there is no such row."""
        for name, rows in self._numbers.items():
            place = int(np.searchsorted(rows, row))
            if place < len(rows) and rows[place] == row:
                return name
        return None

    def place(self, corruption: str, row: int) -> int:
        """Return where a row is among those of its corruption; it must be there."""
        return int(np.searchsorted(self.shown[corruption]["row"].to_numpy(), row))

    def table(self, corruption: str, row: int) -> pa.Table:
        """Return a row, alone, with the test set's columns."""
        return self.shown[corruption].slice(self.place(corruption, row), 1)

    def clean_table(self, picture: str) -> pa.Table | None:
        """Return the row of a clean picture, if there is one."""
        if not self.has_clean:
            return None
        found = self.shown[CLEAN].filter(pc.equal(self.shown[CLEAN]["picture"], picture))
        return found.slice(0, 1) if len(found) else None

    @cached_property
    def _left_out(self) -> list[Damaged]:
        return left_out(self.parts.folder)

    @cached_property
    def _numbers(self) -> dict[str, IntArray]:
        """The numbers of all rows by corruption, rising."""
        found = {}
        for name in self.corruptions:
            found[name] = np.unique(self._rows(name, ["row", "picture"])["row"].to_numpy())
        return found

    @cached_property
    def _clean(self) -> Tables:
        return self._read(CLEAN) if self.has_clean else {}

    @cached_property
    def _pictures(self) -> dict[str, tuple[str | None, str | None]]:
        """The label and the category of every picture, by its name."""
        table = self.shown[CLEAN if self.has_clean else self.corruptions[0]]
        columns = (table[name].to_pylist() for name in ("picture", "label", "category"))
        return {name: (label, own) for name, label, own in zip(*columns, strict=True)}

    def _rows(self, name: str, columns: list[str], only: tuple[str, str] | None = None) -> pa.Table:
        """Return the rows of a corruption, without pictures that are left out."""
        if file_name(name) not in self.parts.names():
            raise UsageError(
                f"{self.parts.folder} lacks the answers to {name}, without which there are no"
                " pictures to go through: copy the whole folder of the run, or run the same"
                " evaluation again."
            )
        return without(self.parts.read(name, columns, only), self._left_out)

    def _shown(self, corruption: str) -> pa.Table:
        first = ("model", self.run.models[0])
        table = self._rows(corruption, [*SCHEMA.names, "model"], only=first)
        return table.drop_columns(["model"]).combine_chunks()

    def _read(self, corruption: str) -> Tables:
        """Return the rows of all models, which lie in one file, by the model."""
        columns = list(COLUMNS)
        if any(ENTRY16 in model.spaces for model in self.run.results.models):
            columns += OF_CATEGORIES
        table = self._rows(corruption, columns)
        return {
            (corruption, name): table.filter(pc.equal(table["model"], name))
            for name in self.run.models
        }

    def _say(self, key: tuple[str, str, str]) -> Said:
        corruption, name, space = key
        model = self.model(name)
        rule = self.run.config.rule if space == ENTRY16 else None
        labels = dict(zip(self._pictures, self._labels(model, space).tolist(), strict=True))
        shared = {**self._tables[corruption], **self._clean}
        recorded = PredictionReader(self.parts.folder, labels, rule, self.has_clean, shared)
        outcomes = recorded.outcomes(name, corruption)
        if space == ENTRY16:
            return Said(space, outcomes, CATEGORIES)
        return Said(space, outcomes, model.outputs or class_names())

    def _labels(self, model: ModelResults, space: str) -> IntArray:
        """Return the label of each picture as a model's answer, −1 for none."""
        none = np.full(len(self._pictures), NONE)
        if self.run.config.labels == "none":
            return none
        if space == ENTRY16:
            own = [category for _, category in self._pictures.values()]
            return np.array([NONE if each is None else CATEGORIES.index(each) for each in own])
        texts = [label for label, _ in self._pictures.values()]
        return native_labels(texts, model.classes, model.outputs or None)
