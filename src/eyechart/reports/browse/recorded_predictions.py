"""Recorded samples of a run with each model's predictions, and the JSON replies made of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import PartFiles, file_name
from eyechart.images.imageset import Damaged
from eyechart.images.labels.imagenet import CATEGORIES, NONE, class_names
from eyechart.images.labels.matching import native_labels
from eyechart.images.labels.spaces import ENTRY16
from eyechart.predictions.reading import PredictionReader, Predictions, left_out, without
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.titles import corruption_title, space_title, suite_title
from eyechart.results.curve_results import ModelCurve, SampledCurve
from eyechart.results.model_results import ModelResults, PropertyResults, SpaceResults
from eyechart.results.runs import Run
from eyechart.results.schema import PREDICTIONS_FOLDER
from eyechart.scores.registry import PROPERTIES
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
        self.parts = PartFiles(run.folder / PREDICTIONS_FOLDER)
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

    def predictions(self, corruption: str, model: str, space: str) -> NamedPredictions:
        """Return a model's predictions in a label space.

        If the model has no scores in this space, its first label space is used instead.
        """
        spaces = self.run.results[model].spaces
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
        model = self.run.results[name]
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


UNKNOWN = -1
"""Value that means unknown; 1 means yes and 0 means no."""

Json = dict[str, object]


@dataclass(frozen=True)
class Sample:
    """One sample of a test set; `run` is the index of its run in the report."""

    run: int
    row: int
    corruption: str


def describe_tests(report: Report) -> list[Json]:
    """Return the available tests with their corruptions, models and label spaces."""
    return [
        {
            "suite": section.suite,
            "title": suite_title(section.suite),
            "corruptions": [
                {"name": name, "title": corruption_title(name)} for name in section.corruptions
            ],
            "models": [
                {
                    "name": model.name,
                    "short": model.short,
                    "color": model.color,
                    "run": model.run,
                    "spaces": [
                        {"name": name, "title": space_title(name)} for name in model.results.spaces
                    ],
                }
                for model in section.models
            ],
        }
        for section in report.sections
    ]


def describe_runs(report: Report) -> list[Json]:
    """Return the folder, the image source and the models of each run."""
    return [
        {
            "folder": str(run.folder),
            "suite": run.config.suite,
            "source": run.results.images.source,
            "models": list(run.models),
        }
        for run in report.runs
    ]


def describe_samples(
    recorded: RecordedPredictions, corruption: str, model: str, space: str
) -> Json:
    """Return all samples of a corruption from mild to strong, and the model's curves.

    Samples without Δv come last; if none has a Δv, samples are ordered by severity. `correct` and
    `same` (same prediction as for the clean image) are 1, 0, or −1 if unknown.
    """
    named = recorded.predictions(corruption, model, space)
    predictions, samples = named.predictions, recorded.samples(corruption)
    rows = samples["row"].to_numpy()
    # The last key counts first: Δv, then severity. The row number settles ties, so that the order
    # is the same in every reply.
    order = np.lexsort((rows, _last(predictions.severity), _last(predictions.delta_v)))
    # A name is repeated for every draw; as indices into one list the reply stays small.
    images = samples["image"].combine_chunks().dictionary_encode()
    return {
        "space": named.space,
        "rows": rows[order].tolist(),
        "delta_v": _nulls(predictions.delta_v[order]),
        "correct": _flags(predictions.correct[order]),
        "same": _flags(predictions.consistent[order]),
        "image": images.indices.to_numpy()[order].tolist(),
        "images": images.dictionary.to_pylist(),
        "curves": _describe_curves(recorded.run.results[model].spaces, named.space, corruption),
    }


def _describe_curves(spaces: Mapping[str, SpaceResults], space: str, corruption: str) -> Json:
    """Return the curves s_a and s_p of the model and of humans, and notes on missing curves."""
    results = spaces[space].corruptions.get(corruption)
    curves: Json = {}
    notes: list[str] = []
    for letter, scored in ({} if results is None else results.properties).items():
        if scored.curve is None:
            notes.append(f"{PROPERTIES[letter]}: {scored.note}" if scored.note else "")
            continue
        curves[letter] = _line(scored.curve)
        if scored.humans is not None and not scored.humans.corrected_for_chance:
            curves[f"humans_{letter}"] = _line(scored.humans.line)
            curves["humans"] = scored.humans.about
        elif space == ENTRY16:
            notes.append(_why_no_humans(scored, PROPERTIES[letter]))
        elif ENTRY16 in spaces:
            notes.append(f"the human curve is shown for {space_title(ENTRY16)} only")
    return {"notes": [note for note in dict.fromkeys(notes) if note], **curves}


def describe_sample(
    recorded: Mapping[int, RecordedPredictions], section: TestSection, sample: Sample, space: str
) -> Json:
    """Return everything known about one sample, with the predictions of all models of its test.

    `recorded` is indexed by the run's position in the report.
    """
    table = recorded[sample.run].sample(sample.corruption, sample.row)
    columns = ["image", "label", "delta_v", "severity", "draw", "stimulus", "digest"]
    (values,) = table.select(columns).to_pylist()
    predictions = list(_predictions(recorded, section, sample, space))
    truth = next((truth for _, truth in predictions if truth), "")
    # An image outside the 16 categories has no label there, but its native label is still known.
    if not truth and space == ENTRY16:
        native = _predictions(recorded, section, sample, "native")
        native_truth = next((truth for _, truth in native if truth), "")
        truth = f"{native_truth} (none of the 16 categories)" if native_truth else ""
    return {
        **values,
        "row": sample.row,
        "corruption": sample.corruption,
        "title": corruption_title(sample.corruption),
        "truth": truth,
        "parameters": _parameters(recorded[sample.run], table, sample.corruption),
        "predictions": [prediction for prediction, _ in predictions],
    }


def _predictions(
    recorded: Mapping[int, RecordedPredictions], section: TestSection, sample: Sample, space: str
) -> Iterator[tuple[Json, str]]:
    """Yield each model's prediction, and the true class in its label space."""
    table = recorded[sample.run].sample(sample.corruption, sample.row)
    for model in section.models:
        run = recorded[model.run]
        if run.corruption_of(sample.row) != sample.corruption:
            continue
        candidate = run.sample(sample.corruption, sample.row)
        # The same row number in another run is the same image only if the pixels match.
        if any(candidate[name][0] != table[name][0] for name in ("digest", "pixels")):
            continue
        index = run.index(sample.corruption, sample.row)
        named = run.predictions(sample.corruption, model.name, space)
        yield _prediction(named, index, model), named.name(int(named.predictions.label[index]))


def _prediction(named: NamedPredictions, index: int, model: ModelEntry) -> Json:
    predictions = named.predictions
    assert predictions.prediction is not None and predictions.confidence is not None
    only = slice(index, index + 1)
    return {
        "model": model.name,
        "short": model.short,
        "color": model.color,
        "space": named.space,
        "prediction": named.name(int(predictions.prediction[index])),
        "confidence": _nulls(predictions.confidence[only])[0],
        "correct": _flags(predictions.correct[only])[0],
        "same": _flags(predictions.consistent[only])[0],
    }


def _parameters(recorded: RecordedPredictions, table: pa.Table, corruption: str) -> list[Json]:
    """Return each parameter of the corruption, with its unit and meaning where they are known."""
    try:
        entries = {entry.name: entry for entry in recorded.run.config.plan.entries()}
    except UsageError:
        entries = {}  # The corruption belongs to a custom suite that no longer exists.
    entry = entries.get(corruption)
    described: list[Json] = []
    for name, value in table["parameters"][0].as_py() or ():
        known = None if entry is None else entry.corruption.parameter(name)
        unit, meaning = ("", "") if known is None else (known.unit, known.meaning)
        described.append({"name": name, "value": value, "unit": unit, "meaning": meaning})
    return described


def _why_no_humans(score: PropertyResults, name: str) -> str:
    if score.humans is not None:
        return f"human {name}: corrected for chance, so not on the same scale"
    return f"human {name}: {score.human_note}" if score.human_note else ""


def _line(curve: SampledCurve) -> Json:
    line: Json = {"delta_v": list(curve.delta_v), "values": list(curve.values)}
    if isinstance(curve, ModelCurve):
        line |= {"low": list(curve.low95), "high": list(curve.high95)}
    return line


def _last(values: FloatArray) -> FloatArray:
    """Return the values with NaN replaced by infinity, so that missing values sort last."""
    return np.where(np.isnan(values), np.inf, values)


def _nulls(values: FloatArray) -> list[float | None]:
    # Only NaN differs from itself. JSON has no NaN, so it becomes null.
    return [None if value != value else value for value in values.tolist()]


def _flags(values: FloatArray) -> list[int]:
    return [UNKNOWN if value != value else int(value) for value in values.tolist()]
