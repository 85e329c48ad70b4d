"""Example images of the test set, stored for viewing: an image at increasing visual change."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.core.storage.parts import file_name
from eyechart.images.image_files import write_image
from eyechart.images.labels.imagenet import NONE
from eyechart.models.model import Model
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader, Predictions
from eyechart.results.schema import EXAMPLES_FOLDER, ExampleImage, ExamplePrediction
from eyechart.testsets.plan import MOVED
from eyechart.testsets.samples import LEVELS, Samples
from eyechart.testsets.stimuli import iterate_samples

STEPS = 10
"""Number of equal ranges of Δv; each range that contains samples gets one example."""

ENOUGH = 5
"""Number of ranges that examples of one image must cover; otherwise other images are used."""

SIDE, QUALITY = 320, 90
"""Longer side in pixels and JPEG quality of stored examples, for viewing only."""


@dataclass(frozen=True, eq=False)
class _Predicted:
    """Recorded predictions of one model, and the names of its classes."""

    name: str
    reader: PredictionReader
    class_names: Sequence[str]


def keep_examples(run: EvaluationRun, out: Path) -> tuple[ExampleImage, ...]:
    """Write example images of every corruption to `out`, and return their records."""
    models = list(map(partial(_predicted, run), run.task.models))
    outcomes = {}
    for entry in run.entries:
        predictions = models[0].reader.outcomes(models[0].name, entry.name)
        if run.task.plan.why_no_curve(entry):
            # Δv does not order the strength of geometric corruptions, unless the ruler can.
            unknown = np.full(len(predictions), np.nan)
            predictions = replace(predictions, delta_v=unknown)
        outcomes[entry.name] = predictions
    chosen = choose_rows(outcomes, _recognised(models))
    groups = _groups(run.task, np.concatenate(list(chosen.values())))
    files = _write(run.task, groups, out / EXAMPLES_FOLDER)
    examples: list[ExampleImage] = []
    for samples in groups:
        # Only predictions for the chosen samples are kept in memory.
        by_model = [
            _only(model.reader.outcomes(model.name, samples.name), samples) for model in models
        ]
        rows = samples.row if samples.entry is None else chosen[samples.name]
        has_delta_v = samples.entry is None or run.task.plan.why_no_curve(samples.entry) != MOVED
        examples += (
            _example(samples, models, by_model, int(row), files[int(row)], has_delta_v)
            for row in rows
            if int(row) in files
        )
    return tuple(examples)


def _predicted(run: EvaluationRun, model: Model) -> _Predicted:
    """Return a model's predictions in its primary label space."""
    space = next(run.spaces(model))
    return _Predicted(model.name, run.reader(space), space.class_names)


def _only(outcomes: Predictions, samples: Samples) -> Predictions:
    assert outcomes.row is not None
    return outcomes.select(np.isin(outcomes.row, samples.row))


def _recognised(models: Sequence[_Predicted]) -> IntArray | None:
    """Return the images that most models classify correctly when clean; None without labels."""
    right: list[IntArray] = []
    for model in models:
        clean = model.reader.clean(model.name)
        right.append(clean.image[clean.correct == 1])
    images, counts = np.unique(np.concatenate(right), return_counts=True)
    # Most models, not all: one weak model should not rule out every image.
    return images[counts == counts.max()] if len(images) else None


def choose_rows(
    outcomes: Mapping[str, Predictions], recognized: IntArray | None
) -> dict[str, IntArray]:
    """Return samples of every corruption, from mild to strong.

    They show one image, the same for all corruptions if its samples cover enough of the range;
    otherwise they show several images.
    """
    usable = {name: _usable(predicted, recognized) for name, predicted in outcomes.items()}
    reached = {name: _reach(predicted) for name, predicted in usable.items()}
    everywhere: Counter[int] = Counter()
    for counts in reached.values():
        everywhere.update(counts)
    # The same image for all corruptions makes them comparable; ties go to the first image.
    favourite = max(everywhere, key=lambda image: (everywhere[image], -image))
    return {name: _rows(predicted, reached[name], favourite) for name, predicted in usable.items()}


def _usable(outcomes: Predictions, recognized: IntArray | None) -> Predictions:
    labeled = outcomes.label != NONE
    usable = outcomes.select(labeled) if labeled.any() else outcomes
    if recognized is None:
        return usable
    # An image that is misclassified even when clean does not illustrate a corruption.
    known = np.isin(usable.image, recognized)
    return usable.select(known) if known.any() else usable


def _reach(outcomes: Predictions) -> dict[int, int]:
    """Return the number of ranges of Δv, or of severities, that each image's samples cover."""
    part = outcomes.severity.astype(np.int64) if _has_levels(outcomes) else _step(outcomes)
    pairs = np.unique(np.stack([outcomes.image, part]), axis=1)
    images, counts = np.unique(pairs[0], return_counts=True)
    return dict(zip(images.tolist(), counts.tolist(), strict=True))


def _rows(outcomes: Predictions, reached: Mapping[int, int], favourite: int) -> IntArray:
    best = max(reached, key=lambda image: (reached[image], -image))
    # The common image is used if it covers enough, even if another image covers more.
    enough = min(ENOUGH, reached[best])
    image = favourite if reached.get(favourite, 0) >= enough else best
    if reached[image] >= min(ENOUGH, len(np.unique(_step(outcomes)))) or _has_levels(outcomes):
        outcomes = outcomes.select(outcomes.image == image)
    assert outcomes.row is not None
    kept = np.arange(len(outcomes))
    if not _has_levels(outcomes):
        step = _step(outcomes)
        # Choose the sample nearest to the center of its range.
        off = np.abs(np.nan_to_num(outcomes.delta_v) * STEPS - step - 0.5)
        kept = np.array([
            np.flatnonzero(step == part)[off[step == part].argmin()] for part in np.unique(step)
        ])  # fmt: skip
    order = np.lexsort((outcomes.row[kept], outcomes.severity[kept], outcomes.delta_v[kept]))
    return outcomes.row[kept[order]]


def _has_levels(outcomes: Predictions) -> bool:
    return bool(np.isin(outcomes.severity, LEVELS).all())


def _step(outcomes: Predictions) -> IntArray:
    change = np.nan_to_num(outcomes.delta_v)
    return np.minimum(change * STEPS, STEPS - 1).astype(np.int64)


def _groups(task: PredictionTask, wanted: IntArray) -> list[Samples]:
    """Return these samples, preceded by the clean images they are made from."""
    groups = [
        samples.select(np.flatnonzero(np.isin(samples.row, wanted)))
        for samples in task.groups
        if samples.entry is not None
    ]
    images = np.unique(np.concatenate([samples.image for samples in groups]))
    clean = [
        samples.select(np.flatnonzero(np.isin(samples.image, images)))
        for samples in task.groups
        if samples.entry is None
    ]
    return [samples for samples in (*clean, *groups) if len(samples)]


def _write(task: PredictionTask, groups: Sequence[Samples], folder: Path) -> dict[int, str]:
    """Write the images of samples and return their file names by sample number."""
    files = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for work in iterate_samples(task.images, [groups], task.plan, task.device):
            for start in range(len(work.samples)):
                part = work.samples.select(np.array([start]))
                read = None if work.from_files is None else work.from_files[start : start + 1]
                pixels = work.clean_images.make(part, read).images[0].permute(1, 2, 0).cpu().numpy()
                row = int(part.row[0])
                files[row] = f"{file_name(part.name)}-{row:08d}.jpg"
                image = Image.fromarray(pixels)
                # Reduced for viewing; Δv was measured on the original stimulus.
                image.thumbnail((SIDE, SIDE))
                write_image(image, folder / files[row], quality=QUALITY)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror or error}.") from None
    return files


def _example(
    samples: Samples,
    models: Sequence[_Predicted],
    by_model: Sequence[Predictions],
    row: int,
    file: str,
    has_delta_v: bool,
) -> ExampleImage:
    at = int(np.flatnonzero(samples.row == row)[0])
    first = by_model[0]
    index = _index(first, row)
    label = int(first.label[index])
    return ExampleImage(
        corruption=samples.name,
        row=row,
        image=models[0].reader.image_names(models[0].name)[int(first.image[index])],
        truth="" if label == NONE else models[0].class_names[label],
        delta_v=first.delta_v[index] if has_delta_v else None,
        severity=first.severity[index],
        # an infinite strength, such as shot noise of endless light, is not a number in JSON
        parameters={
            name: float(values[at])
            for name, values in samples.values.items()
            if np.isfinite(values[at])
        },
        file=file,
        predictions={
            model.name: _prediction(model, predictions, _index(predictions, row))
            for model, predictions in zip(models, by_model, strict=True)
        },
    )


def _index(outcomes: Predictions, row: int) -> int:
    assert outcomes.row is not None
    return int(np.flatnonzero(outcomes.row == row)[0])


def _prediction(model: _Predicted, predictions: Predictions, index: int) -> ExamplePrediction:
    assert predictions.prediction is not None and predictions.confidence is not None
    prediction = int(predictions.prediction[index])
    return ExamplePrediction(
        prediction="none of the categories"
        if prediction == NONE
        else model.class_names[prediction],
        confidence=predictions.confidence[index],
        correct=_flag(predictions.correct[index]),
        consistent=_flag(predictions.consistent[index]),
    )


def _flag(value: float) -> bool | None:
    return None if np.isnan(value) else bool(value)
