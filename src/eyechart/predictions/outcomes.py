"""From recorded answers to right or wrong, same or other than on the clean picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.core.parts import Parts
from eyechart.core.registry import unknown_name
from eyechart.labels.categories import CATEGORIES, CLASSES, NONE, RULES, category_of, members
from eyechart.predictions.destroyed import DESTROYED
from eyechart.testsets.draws import CLEAN

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """One model's answers to one corruption, in one label space; an element per answer.

    `correct` and `consistent` are 0 or 1, NaN where there is no label or no answer; so are
    `clean_correct` (was the clean picture's answer right?) and, as shares, `lost_correct` and
    `lost_consistent`: how often answers to pictures of nothing would have been right, or the same.
    `picture`: which answers are to the same picture. `label`: −1 for none. `weights`: how much each
    counts, if not all the same.
    """

    delta_v: Real
    severity: Real
    picture: Whole
    label: Whole
    correct: Real
    consistent: Real
    clean_correct: Real
    lost_correct: Real
    lost_consistent: Real
    weights: Real | None = None

    def __len__(self) -> int:
        return len(self.delta_v)

    def take(self, kept: NDArray[np.bool_]) -> "Outcomes":
        """Return some of the answers."""
        values: dict[str, Any] = {
            name: None if (own := getattr(self, name)) is None else own[kept]
            for name in self.__dataclass_fields__
        }
        return Outcomes(**values)


@dataclass(frozen=True, eq=False)
class Recorded:
    """The predictions in a folder, with what each picture's label is in the asked label space.

    `labels`: by the picture's name, −1 for none. `rule`: how classes become the 16 categories;
    None leaves them as they are.
    """

    folder: Path
    labels: Mapping[str, int]
    rule: str | None = None
    _shared: dict[str, pa.Table] = field(default_factory=dict, repr=False)

    def clean(self, model: str) -> Outcomes:
        """Return the answers to the clean pictures."""
        return self.outcomes(model, CLEAN)

    def outcomes(self, model: str, corruption: str) -> Outcomes:
        """Return a model's answers to a corruption, next to those to the clean pictures."""
        own = self._read(corruption, model)
        clean = self._read(CLEAN, model)
        answer, before = self._answers(own), self._answers(clean)
        places = {name: place for place, name in enumerate(clean["picture"].to_pylist())}
        names = own["picture"].to_pylist()
        picture = np.array([places[name] for name in names], dtype=np.int64)
        label = np.array([self.labels.get(name, NONE) for name in names], dtype=np.int64)
        clean_answer = before[picture]
        lost = self._answers(self._read(DESTROYED, model))
        return Outcomes(
            own["delta_v"].to_numpy().astype(np.float64),
            own["severity"].to_numpy().astype(np.float64),
            picture,
            label,
            _equal(answer, label),
            (answer == clean_answer).astype(np.float64),
            _equal(clean_answer, label),
            np.where(label == NONE, np.nan, _shares(lost, label)),
            _shares(lost, clean_answer),
        )

    def _read(self, name: str, model: str) -> pa.Table:
        columns = ["row", "picture", "delta_v", "severity", "model", "answer"]
        if self.rule is not None:
            columns += ["category_max", "category_sum"]
        table = self._shared.get(name)
        if table is None:
            table = Parts(self.folder).read(name, columns)
        if name in (CLEAN, DESTROYED):
            # they go with every corruption
            self._shared[name] = table
        return table.filter(pc.equal(table["model"], model))

    def _answers(self, table: pa.Table) -> Whole:
        answer = table["answer"].to_numpy().astype(np.int64)
        return answer if self.rule is None else categories_of(table, answer, self.rule)


def categories_of(table: pa.Table, answer: Whole, rule: str) -> Whole:
    """Return the category that each recorded answer stands for; −1 for none (rule "top1")."""
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    if table["category_max"].null_count:
        raise UsageError(
            f"The 16 categories are made of ImageNet's {CLASSES} classes, and the model has others:"
            " use --labels native."
        )
    if rule == "top1":
        return np.asarray(category_of(torch.from_numpy(answer)))
    column = table["category_max" if rule == "max" else "category_sum"]
    flat = np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks])
    scores = flat.reshape(-1, len(CATEGORIES))
    if rule == "mean":
        scores = scores - np.log([len(members(category)) for category in CATEGORIES])
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def _equal(answer: Whole, label: Whole) -> Real:
    return np.where(label == NONE, np.nan, (answer == label).astype(np.float64))


def _shares(lost: Whole, label: Whole) -> Real:
    """Return how often answers to nothing equal each label, or each answer."""
    values, which = np.unique(label, return_inverse=True)
    return np.array([(lost == value).mean() for value in values], dtype=np.float64)[which]
