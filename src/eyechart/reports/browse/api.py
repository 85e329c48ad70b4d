"""JSON replies of the image browser: tests, models, samples of a corruption, one sample."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.images.labels.spaces import ENTRY16
from eyechart.reports.browse.recorded_predictions import NamedPredictions, RecordedPredictions
from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.reports.titles import corruption_title, space_title, suite_title
from eyechart.results.curve_results import ModelCurve, SampledCurve
from eyechart.results.model_results import PropertyResults, SpaceResults
from eyechart.scores.registry import PROPERTIES

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
        "curves": _describe_curves(recorded.model(model).spaces, named.space, corruption),
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
