"""Pictures of the test set that are kept to be looked at: a photograph, more and more corrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.core.errors import UsageError
from eyechart.core.parts import file_name
from eyechart.images.image_files import write_picture
from eyechart.labels.categories import NONE
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader, Predictions
from eyechart.results.schema import EXAMPLES_FOLDER, ExampleImage, ExamplePrediction
from eyechart.testsets.samples import IntArray, Samples
from eyechart.testsets.stimuli import iterate_samples

STEPS = 10
"""Parts of visual change 0…1 that each have an example, if there is any in them."""

ENOUGH = 5
"""Parts that the examples of one photograph must reach; otherwise others stand in."""

LEVELS = (1, 2, 3, 4, 5)
SIDE, QUALITY = 320, 90
"""The longer side in px and the JPEG quality of what is kept, for eyes only."""


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of one model: where they are recorded, and what each is called in text."""

    name: str
    recorded: PredictionReader
    names: Sequence[str]


def keep_examples(
    job: PredictionTask, models: Sequence[Answered], out: Path
) -> tuple[ExampleImage, ...]:
    """Write example pictures of every corruption into `out`, and return what is known of each."""
    corruptions = [samples.name for samples in job.groups if samples.entry is not None]
    first = models[0]
    outcomes = {name: first.recorded.outcomes(first.name, name) for name in corruptions}
    for samples in job.groups:
        if samples.entry is not None and samples.entry.geometric:
            own = outcomes[samples.name]
            outcomes[samples.name] = replace(own, delta_v=np.full(len(own), np.nan))
    chosen = choose_rows(outcomes, _recognised(models))
    groups = _groups(job, np.concatenate(list(chosen.values())))
    files = _write(job, groups, out / EXAMPLES_FOLDER)
    found: list[ExampleImage] = []
    for samples in groups:
        # of all answers only those to the chosen rows stay
        answers = [
            _only(model.recorded.outcomes(model.name, samples.name), samples) for model in models
        ]
        rows = samples.row if samples.entry is None else chosen[samples.name]
        found += (
            _example(samples, models, answers, int(row), files[int(row)])
            for row in rows
            if int(row) in files
        )
    return tuple(found)


def _only(outcomes: Predictions, samples: Samples) -> Predictions:
    assert outcomes.row is not None
    return outcomes.take(np.isin(outcomes.row, samples.row))


def _recognised(models: Sequence[Answered]) -> IntArray | None:
    """Return the pictures that most models recognise clean; None where nobody can say."""
    right: list[IntArray] = []
    for model in models:
        clean = model.recorded.clean(model.name)
        right.append(clean.picture[clean.correct == 1])
    pictures, counts = np.unique(np.concatenate(right), return_counts=True)
    return pictures[counts == counts.max()] if len(pictures) else None


def choose_rows(
    outcomes: Mapping[str, Predictions], recognised: IntArray | None
) -> dict[str, IntArray]:
    """Return rows of every corruption, from mild to strong.

    They are of one photograph, the same for all corruptions where that reaches far enough, and
    else of whichever photographs are there.
    """
    usable = {name: _usable(own, recognised) for name, own in outcomes.items()}
    reached = {name: _reach(own) for name, own in usable.items()}
    everywhere: dict[int, int] = {}
    for own in reached.values():
        for picture, count in own.items():
            everywhere[picture] = everywhere.get(picture, 0) + count
    favourite = max(everywhere, key=lambda picture: (everywhere[picture], -picture))
    return {name: _rows(own, reached[name], favourite) for name, own in usable.items()}


def _usable(outcomes: Predictions, recognised: IntArray | None) -> Predictions:
    labelled = outcomes.label != NONE
    own = outcomes.take(labelled) if labelled.any() else outcomes
    if recognised is None:
        return own
    # a picture that is not even recognised clean shows nothing
    known = np.isin(own.picture, recognised)
    return own.take(known) if known.any() else own


def _reach(own: Predictions) -> dict[int, int]:
    """Return how many parts of visual change each picture's rows are in, or of how many levels."""
    part = own.severity.astype(np.int64) if _has_levels(own) else _step(own)
    pairs = np.unique(np.stack([own.picture, part]), axis=1)
    pictures, counts = np.unique(pairs[0], return_counts=True)
    return dict(zip(pictures.tolist(), counts.tolist(), strict=True))


def _rows(own: Predictions, reached: Mapping[int, int], favourite: int) -> IntArray:
    best = max(reached, key=lambda picture: (reached[picture], -picture))
    enough = min(ENOUGH, reached[best])
    picture = favourite if reached.get(favourite, 0) >= enough else best
    if reached[picture] >= min(ENOUGH, len(np.unique(_step(own)))) or _has_levels(own):
        own = own.take(own.picture == picture)
    assert own.row is not None
    kept = np.arange(len(own))
    if not _has_levels(own):
        step = _step(own)
        # nearest to the middle of its part
        off = np.abs(np.nan_to_num(own.delta_v) * STEPS - step - 0.5)
        kept = np.array([
            np.flatnonzero(step == part)[off[step == part].argmin()] for part in np.unique(step)
        ])  # fmt: skip
    order = np.lexsort((own.row[kept], own.severity[kept], own.delta_v[kept]))
    return own.row[kept[order]]


def _has_levels(own: Predictions) -> bool:
    return bool(np.isin(own.severity, LEVELS).all())


def _step(own: Predictions) -> IntArray:
    change = np.nan_to_num(own.delta_v)
    return np.minimum(change * STEPS, STEPS - 1).astype(np.int64)


def _groups(job: PredictionTask, wanted: IntArray) -> list[Samples]:
    """Return the draws of these rows, after the clean pictures that they are of."""
    groups = [
        samples.take(np.flatnonzero(np.isin(samples.row, wanted)))
        for samples in job.groups
        if samples.entry is not None
    ]
    pictures = np.unique(np.concatenate([samples.image for samples in groups]))
    clean = [
        samples.take(np.flatnonzero(np.isin(samples.image, pictures)))
        for samples in job.groups
        if samples.entry is None
    ]
    return [samples for samples in (*clean, *groups) if len(samples)]


def _write(job: PredictionTask, groups: Sequence[Samples], folder: Path) -> dict[int, str]:
    """Write the pictures of rows and return their files' names by row."""
    found = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for work in iterate_samples(job.images, [groups], job.plan, job.device):
            for start in range(len(work.samples)):
                part = work.samples.take(np.array([start]))
                read = None if work.from_files is None else work.from_files[start : start + 1]
                pixels = work.clean_images.make(part, read).images[0].permute(1, 2, 0).cpu().numpy()
                row = int(part.row[0])
                found[row] = f"{file_name(part.name)}-{row:08d}.jpg"
                picture = Image.fromarray(pixels)
                picture.thumbnail((SIDE, SIDE))
                write_picture(picture, folder / found[row], quality=QUALITY)
    except OSError as error:
        raise UsageError(f"Cannot write {folder}: {error.strerror or error}.") from None
    return found


def _example(
    samples: Samples,
    models: Sequence[Answered],
    answers: Sequence[Predictions],
    row: int,
    file: str,
) -> ExampleImage:
    at = int(np.flatnonzero(samples.row == row)[0])
    own = answers[0]
    place = _place(own, row)
    label = int(own.label[place])
    # where things move, visual change says little
    moved = samples.entry is not None and samples.entry.geometric
    return ExampleImage(
        corruption=samples.name,
        row=row,
        picture=models[0].recorded.pictures(models[0].name)[int(own.picture[place])],
        truth="" if label == NONE else models[0].names[label],
        delta_v=None if moved else own.delta_v[place],
        severity=own.severity[place],
        parameters={name: float(values[at]) for name, values in samples.values.items()},
        file=file,
        answers={
            model.name: _prediction(model, predictions, _place(predictions, row))
            for model, predictions in zip(models, answers, strict=True)
        },
    )


def _place(outcomes: Predictions, row: int) -> int:
    assert outcomes.row is not None
    return int(np.flatnonzero(outcomes.row == row)[0])


def _prediction(model: Answered, predictions: Predictions, place: int) -> ExamplePrediction:
    assert predictions.answer is not None and predictions.confidence is not None
    answer = int(predictions.answer[place])
    return ExamplePrediction(
        said="none of the categories" if answer == NONE else model.names[answer],
        confidence=predictions.confidence[place],
        correct=_flag(predictions.correct[place]),
        consistent=_flag(predictions.consistent[place]),
    )


def _flag(value: float) -> bool | None:
    return None if np.isnan(value) else bool(value)
