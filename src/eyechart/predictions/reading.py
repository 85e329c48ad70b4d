"""Read recorded predictions: which are correct, or consistent with the clean prediction.

Images with files that could not be read are left out everywhere, if they are few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles
from eyechart.images.imageset import Damaged, ImageSet, reject_too_many
from eyechart.images.labels.imagenet import CATEGORIES, CLASSES, NONE, category_of, members
from eyechart.images.labels.spaces import RULES
from eyechart.predictions.batches import BLANK, rank_of
from eyechart.testsets.plan import CLEAN
from eyechart.testsets.stimuli import LoadedSamples

UNREADABLE = "unreadable"
"""Name under which samples with unreadable files are recorded; a resumed run tries them again."""

UNREADABLE_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("image", pa.string()),
        ("corruption", pa.string()),
        ("severity", pa.float64()),
        ("why", pa.string()),
    ]
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """One model's predictions on one corruption, in one label space; one element per sample.

    `correct`, `consistent` (equal to the prediction on the clean image) and `clean_correct`
    (whether the prediction on the clean image was correct) are 0 or 1, or NaN without a label or a
    prediction. `blank_correct` and `blank_consistent` are fractions: how often predictions on
    images without content would have been correct or consistent. All fields about clean images are
    NaN if there are no clean images.
    `image`: index of the image, equal for samples of the same image. `label`: −1 for none.
    `weights`: weight of each sample, None if all are equal. `resampled_images`: all images that the
    bootstrap resamples, sorted, including images without a sample here, so that every corruption
    has the same replicates. `row`: row in the test set. `prediction`: predicted class in the label
    space, −1 for none. `confidence`: probability of that class.
    `rank`: rank of the label by score, 1 if it is the prediction, NaN without a label. For the 16
    categories, ranks follow from the rule's scores, and are NaN if the rule has no scores.
    """

    delta_v: FloatArray
    severity: FloatArray
    image: IntArray
    label: IntArray
    correct: FloatArray
    consistent: FloatArray
    clean_correct: FloatArray
    blank_correct: FloatArray
    blank_consistent: FloatArray
    weights: FloatArray | None = None
    resampled_images: IntArray | None = None
    row: IntArray | None = None
    prediction: IntArray | None = None
    confidence: FloatArray | None = None
    rank: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.delta_v)

    def select(self, kept: NDArray[np.bool_]) -> "Predictions":
        """Return a subset of the predictions."""
        arrays = {name: values for name, values in vars(self).items() if values is not None}
        # The resampled images belong to the whole run: a subset is still resampled from all images.
        arrays.pop("resampled_images", None)
        return replace(self, **{name: values[kept] for name, values in arrays.items()})


@dataclass(frozen=True, eq=False)
class PredictionReader:
    """Reads the predictions in a folder, with each image's label in the requested label space.

    `labels`: the label of each image by its name, −1 for none. `rule`: how classes are mapped to
    the 16 categories; None keeps the classes. `has_clean`: whether there are predictions for the
    clean images as well. `shared`: cached tables, by corruption and model. `known`: cached names
    and labels of all images, by model. `predicted`: cached predictions of `shared` tables.
    """

    folder: Path
    labels: Mapping[str, int]
    rule: str | None = None
    has_clean: bool = True
    shared: dict[tuple[str, str], pa.Table] = field(default_factory=dict, repr=False)
    known: dict[str, tuple[pa.Array, IntArray]] = field(default_factory=dict, repr=False)
    predicted: dict[tuple[str, str], IntArray] = field(default_factory=dict, repr=False)

    @cached_property
    def left_out(self) -> list[Damaged]:
        """The images that are left out because some of their files could not be read."""
        return left_out(self.folder)

    def clean(self, model: str, *, only_labeled: bool = False) -> Predictions:
        """Return the predictions on the clean images, all NaN if there are none.

        `only_labeled`: whether to leave out images without a label.
        """
        if self.has_clean:
            return self.outcomes(model, CLEAN, only_labeled=only_labeled)
        names = self._names()
        label = np.array([self.labels[name] for name in names], dtype=np.int64)
        nothing = np.full(len(names), np.nan)
        predictions = Predictions(
            nothing, nothing, np.arange(len(names)), label, *(nothing for _ in range(5))
        )
        return predictions.select(label != NONE) if only_labeled else predictions

    def has_labels(self, model: str) -> bool:
        """Return whether any image has a label."""
        return bool((self._known_images(model)[1] != NONE).any())

    def image_names(self, model: str) -> list[str]:
        """Return the names of the images that `Predictions.image` indexes."""
        if not self.has_clean:
            return self._names()
        names: list[str] = self._read(CLEAN, model)["image"].to_pylist()
        return names

    def _known_images(self, model: str) -> tuple[pa.Array, IntArray]:
        """Return the names of the images that `Predictions.image` indexes, and their labels."""
        known = self.known.get(model)
        if known is None:
            if self.has_clean:
                names = self._read(CLEAN, model)["image"].combine_chunks()
            else:
                names = pa.array(self._names(), pa.string())
            # −1, the place of an image without an entry, is that of the label added at the end.
            labels = np.array([*self.labels.values(), NONE], dtype=np.int64)
            place = pc.index_in(names, pa.array(list(self.labels), pa.string())).fill_null(-1)
            # Needed for every corruption.
            known = self.known[model] = (names, labels[place.to_numpy()])
        return known

    def _names(self) -> list[str]:
        """Return the names of the images of a run that has no clean images."""
        gone = {damaged.name for damaged in self.left_out}
        return [name for name in self.labels if name not in gone]

    def outcomes(self, model: str, corruption: str, *, only_labeled: bool = False) -> Predictions:
        """Return a model's predictions on a corruption, compared with its clean predictions.

        `only_labeled`: whether to leave out samples without a label.
        """
        table = self._read(corruption, model)
        known, labels = self._known_images(model)
        image = _positions(table["image"], known)
        label = labels[image]
        if only_labeled:
            # Left out before anything is computed: four of five images have no category.
            has_label = label != NONE
            table, image, label = table.filter(has_label), image[has_label], label[has_label]
        prediction = self._predictions(table)
        blank = self._shared_predictions(BLANK, model)
        if not self.has_clean:
            nothing = np.full(len(table), np.nan)
            same, right, blank_same = nothing, nothing, nothing
        else:
            # `image` indexes the rows of the clean table, one for each image.
            clean_prediction = self._shared_predictions(CLEAN, model)[image]
            same = (prediction == clean_prediction).astype(np.float64)
            right, blank_same = _equal(clean_prediction, label), _shares(blank, clean_prediction)
        return Predictions(
            table["delta_v"].to_numpy().astype(np.float64),
            table["severity"].to_numpy().astype(np.float64),
            image,
            label,
            _equal(prediction, label),
            same,
            right,
            np.where(label == NONE, np.nan, _shares(blank, label)),
            blank_same,
            row=table["row"].to_numpy(),
            prediction=prediction,
            confidence=self._confidence(table, prediction),
            rank=self._rank(table, label),
        )

    def _read(self, name: str, model: str) -> pa.Table:
        columns = ["row", "image", "delta_v", "severity", "model", "prediction", "confidence"]
        # Category scores are 32 numbers per row, which are read only where a rule needs them.
        columns += ["rank"] if self.rule is None else ["category_max", "category_sum"]
        table = self.shared.get((name, model))
        if table is None:
            rows = PartFiles(self.folder).read(name, columns, only=("model", model))
            table = without(rows, self.left_out)
        if name in (CLEAN, BLANK):
            # Needed for every corruption.
            self.shared[name, model] = table
        return table

    def _shared_predictions(self, name: str, model: str) -> IntArray:
        """Return the predictions on clean or blank images, needed for every corruption."""
        predicted = self.predicted.get((name, model))
        if predicted is None:
            predicted = self._predictions(self._read(name, model))
            self.predicted[name, model] = predicted
        return predicted

    def _predictions(self, table: pa.Table) -> IntArray:
        prediction = table["prediction"].to_numpy().astype(np.int64)
        return prediction if self.rule is None else categories_of(table, prediction, self.rule)

    def _confidence(self, table: pa.Table, prediction: IntArray) -> FloatArray:
        """Return the probability of each prediction; for a category, the sum over its classes."""
        if self.rule is None:
            return np.asarray(table["confidence"].to_numpy(), dtype=np.float64)
        logs = _sixteen(table["category_sum"])
        # −1 (no category) is not a valid index; these are set to NaN below.
        chosen = np.take_along_axis(logs, np.maximum(prediction, 0)[:, None], axis=1)[:, 0]
        return np.where(prediction == NONE, np.nan, np.exp(chosen.astype(np.float64)))

    def _rank(self, table: pa.Table, label: IntArray) -> FloatArray:
        """Return the rank of each label among the classes or categories, NaN for none."""
        if self.rule is None:
            rank = table["rank"].to_numpy().astype(np.float64)
        elif (score := RULES[self.rule]) is None:
            rank = np.full(len(label), np.nan)
        else:
            scores = torch.from_numpy(score(*_category_logs(table)))
            rank = rank_of(scores, torch.from_numpy(label)).numpy().astype(np.float64)
        return np.where(label == NONE, np.nan, rank)


def categories_of(table: pa.Table, prediction: IntArray, rule: str) -> IntArray:
    """Return the category of each recorded prediction; −1 for none."""
    score = RULES[rule]
    if table["category_max"].null_count:
        raise UsageError(
            f"The 16 categories need ImageNet's {CLASSES} classes, but the model has other classes:"
            " use --labels native."
        )
    if score is None:
        return np.asarray(category_of(torch.from_numpy(prediction)))
    return np.asarray(score(*_category_logs(table)).argmax(axis=1), dtype=np.int64)


def _category_logs(
    table: pa.Table,
) -> tuple[NDArray[np.float32], NDArray[np.float32], FloatArray]:
    """Return what a table of predictions records for a `LabelRule`."""
    sizes = np.log([len(members(category)) for category in CATEGORIES])
    return _sixteen(table["category_max"]), _sixteen(table["category_sum"]), sizes


def _sixteen(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return a column of lists of 16 numbers as an array (N, 16)."""
    # `flatten` respects the offset of a slice; `values` would return the whole buffer.
    parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
    flat: NDArray[np.float32] = np.concatenate(parts)
    return flat.reshape(-1, len(CATEGORIES))


def _positions(names: pa.ChunkedArray, known: pa.Array) -> IntArray:
    """Return the position of each name among the known ones, of which every name is one."""
    positions = pc.index_in(names, known)
    assert not positions.null_count, "predictions for an image without a clean image"
    return np.asarray(positions.to_numpy(), dtype=np.int64)


def _equal(prediction: IntArray, label: IntArray) -> FloatArray:
    return np.where(label == NONE, np.nan, (prediction == label).astype(np.float64))


def _shares(blank: IntArray, label: IntArray) -> FloatArray:
    """Return how often predictions on images without content equal each of the labels."""
    # −1 (none) becomes 0 as an index, so that one count per label serves all samples.
    counts = np.bincount(blank - NONE, minlength=int(label.max(initial=NONE)) - NONE + 1)
    return np.asarray(counts / len(blank))[label - NONE]


class LeftOut:
    """Counts the images with unreadable files, and raises an error if there are too many."""

    def __init__(self, images: ImageSet) -> None:
        self.images = images
        self.damaged: dict[str, str] = {}

    def table(self, loaded: LoadedSamples) -> pa.Table:
        """Count the samples whose files could not be read, and return them as a table."""
        samples = loaded.unreadable
        names = [self.images.listed[position].name for position in samples.image]
        columns = (samples.row, names, [samples.name] * len(samples), samples.severity, loaded.why)
        arrays = [
            pa.array(values, f.type) for values, f in zip(columns, UNREADABLE_SCHEMA, strict=True)
        ]
        # By name: an image with several unreadable files counts once.
        self.damaged.update(zip(names, loaded.why, strict=True))
        return pa.Table.from_arrays(arrays, schema=UNREADABLE_SCHEMA)

    def check(self) -> None:
        """Raise a UsageError if too many images are left out."""
        reject_unless_few([Damaged(*pair) for pair in self.damaged.items()], self.images)


def reject_unless_few(damaged: Sequence[Damaged], images: ImageSet) -> None:
    """Raise a UsageError if more than 1 % of the images are left out."""
    advice = "Fix the files, and run the same command to resume."
    reject_too_many(damaged, len(images), advice)


def left_out(folder: Path) -> list[Damaged]:
    """Return the images that a run leaves out, each with the first recorded error."""
    if UNREADABLE not in PartFiles(folder).names():
        return []
    table = PartFiles(folder).read(UNREADABLE)
    reasons: dict[str, str] = {}
    for name, why in zip(table["image"].to_pylist(), table["why"].to_pylist(), strict=True):
        # Several files of an image may be unreadable: keep the first reason.
        reasons.setdefault(name, why)
    return [Damaged(name, why) for name, why in reasons.items()]


def read_rows(folder: Path, name: str, columns: list[str]) -> pa.Table:
    """Return the rows of a corruption, except for images that are left out.

    `columns`: the columns to read, which must include `image`.
    """
    return without(PartFiles(folder).read(name, columns), left_out(folder))


def without(table: pa.Table, images: list[Damaged]) -> pa.Table:
    """Return the rows of all images except these."""
    if not images:
        return table
    names = pa.array([damaged.name for damaged in images], pa.string())
    return table.filter(pc.invert(pc.is_in(table["image"], names)))
