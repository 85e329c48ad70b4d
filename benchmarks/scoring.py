"""Measure how fast a finished run is scored, on synthetic predictions of an ImageNet model."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from eyechart.core.arrays import FloatArray, IntArray
from eyechart.core.parallel import n_cores
from eyechart.core.progress import NO_PROGRESS
from eyechart.core.storage.parts import PartFiles
from eyechart.images.image_list import ListedImage
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, CLASSES, NONE, category_of, class_index
from eyechart.images.stimulus import STIMULI
from eyechart.models.model import Model
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.scoring.score import score_run
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.batches import (
    BLANK,
    BLANK_ROWS,
    N_BLANK,
    BatchRecord,
    predictions_table,
)
from eyechart.predictions.loop import PredictionTask
from eyechart.results.results_file import write_results
from eyechart.stats.bins import bin_edges, bin_index
from eyechart.stats.curve_settings import BINNINGS, BINS
from eyechart.testsets.manifest_rows import SCHEMA, samples_table
from eyechart.testsets.samples import Samples, plan_samples
from eyechart.testsets.testset_settings import PARAMETERS

RIVAL = "one replicate at a time, with numpy.bincount and scipy.optimize.isotonic_regression"

SIDE = 224
"""Width and height of the images in pixels."""

N_RIVAL = 20
"""Number of replicates per curve that the rival computes; its time is extrapolated from them."""


@dataclass(frozen=True)
class ScoringSpeed:
    """Seconds to score a run and write its results, and to refit its curves in a plain loop.

    Attributes:
        seconds: Seconds for everything that `evaluate` does after the predictions.
        cpu_seconds: Seconds of all cores together.
        n_curves: Number of curves of the models, each with its bootstrap replicates.
        rival_seconds: Seconds that the plain loop needs for the replicates of these curves alone.
        n_cores: Number of CPU cores that this process may use.
    """

    seconds: float
    cpu_seconds: float
    n_curves: int
    rival_seconds: float
    n_cores: int

    @property
    def ratio(self) -> float:
        """Time of the rival's curves divided by the time of the whole scoring."""
        return self.rival_seconds / self.seconds


def measure_scoring(n: int, n_images: int, n_models: int, n_bootstrap: int) -> ScoringSpeed:
    """Time `score_run` and writing the results for `n` samples of each of VCR's corruptions."""
    with TemporaryDirectory(prefix="eyechart-") as folder:
        run = synthetic_run(Path(folder), n, n_images, n_models, n_bootstrap=n_bootstrap)
        # The rival runs before and after, so that a temporary slowdown affects both.
        rival = [_rival_seconds(run)]
        start, cpu_start = time.perf_counter(), time.process_time()
        results = score_run(run, NO_PROGRESS)
        write_results(results, folder)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        rival.append(_rival_seconds(run))
    spaces = [space for model in results.models for space in model.spaces.values()]
    n_curves = sum(
        len(scores.properties) for space in spaces for scores in space.corruptions.values()
    )
    refits = n_curves * n_bootstrap
    return ScoringSpeed(seconds, cpu, n_curves, refits * float(np.mean(rival)), n_cores())


def synthetic_run(
    folder: Path, n: int, n_images: int, n_models: int, **settings: Any
) -> EvaluationRun:
    """Write the predictions of models that err more often as visual change grows.

    `settings`: settings of the evaluation that differ from their defaults.
    """
    chosen = EvaluateSettings(**{"n": n, "sampling": PARAMETERS, "baseline": "auto", **settings})
    images = listed_images(n_images)
    models = [
        Model(f"model {number}", _unused, classes=CLASSES, identity=str(number))
        for number in range(n_models)
    ]
    groups = plan_samples(images, chosen.plan)
    parts = PartFiles(folder / "predictions")
    parts.folder.mkdir()
    numbers = np.random.default_rng(0)
    labels = np.array([class_index()[label or ""] for label in images.labels])
    easy = numbers.normal(0, 1, (len(images), 1)) + 0.5 * numbers.normal(0, 1, (1, n_models))
    for samples in groups:
        delta_v = _visual_change(samples, numbers)
        pixels = np.zeros(len(samples), dtype=np.int64)
        rows = samples_table(images, chosen.plan, samples, delta_v, pixels, 4)
        # A sample of unknown visual change is predicted like a moderately corrupted one.
        change = np.nan_to_num(delta_v, nan=0.5)
        tables = []
        for number, model in enumerate(models):
            ease = easy[samples.image, number] + 0.7 * numbers.normal(0, 1, len(samples))
            label = labels[samples.image]
            tables.append(
                predictions_table(rows, model.name, _record(label, ease - 5 * change + 3, numbers))
            )
        parts.write(samples.name, pa.concat_tables(tables))
    lost = [_destroyed(model.name, numbers) for model in models]
    parts.write(BLANK, pa.concat_tables(lost))
    task = PredictionTask(images, chosen.plan, groups, models, torch.device("cpu"))
    return EvaluationRun(chosen, task, parts.folder)


def listed_images(count: int, kept: dict[int, Tensor] | None = None) -> ImageSet:
    """Return images with ImageNet's labels and these pixels, or without pixels."""
    labels = sorted(class_index())
    names = [f"{place:06d}" for place in range(count)]
    listed = tuple(
        ListedImage(Path(name), name, labels[place % CLASSES]) for place, name in enumerate(names)
    )
    sizes = ((SIDE, SIDE),) * count
    return ImageSet("made", STIMULI[str(SIDE)], listed, tuple(names), sizes, (), kept or {})


def _visual_change(samples: Samples, numbers: np.random.Generator) -> FloatArray:
    if samples.entry is None:
        return np.zeros(len(samples))
    delta_v = numbers.uniform(0, 0.95, len(samples))
    # A few images contain too little information to measure a change.
    delta_v[numbers.random(len(samples)) < 0.001] = np.nan
    return delta_v


def _record(label: IntArray, logit: FloatArray, numbers: np.random.Generator) -> BatchRecord:
    """Return predictions that are correct where the logit is positive."""
    wrong = numbers.integers(0, CLASSES, len(label))
    predicted = np.where(logit > 0, label, wrong)
    rank = np.where(predicted == label, 1, 1 + numbers.poisson(4, len(label)))
    # Logs of category probabilities, highest for the category of the prediction.
    logs = numbers.normal(-6, 1, (len(label), len(CATEGORIES)))
    category = np.asarray(category_of(torch.from_numpy(predicted)))
    known = np.flatnonzero(category >= 0)
    logs[known, category[known]] = -0.5 * numbers.random(len(known))
    confidence = 1 / (1 + np.exp(-np.abs(logit)))
    columns = [np.stack([predicted, np.abs(logit), confidence, rank], axis=1), logs - 0.5, logs]
    return BatchRecord(torch.from_numpy(np.concatenate(columns, axis=1).astype(np.float32)), True)


def _destroyed(model: str, numbers: np.random.Generator) -> pa.Table:
    known = {
        "row": pa.array(BLANK_ROWS),
        "image": pa.array([f"noise {number}" for number in range(N_BLANK)]),
        "corruption": pa.array([BLANK] * N_BLANK),
    }
    columns = [known.get(field.name, pa.nulls(N_BLANK, field.type)) for field in SCHEMA]
    record = _record(numbers.integers(0, CLASSES, N_BLANK), np.ones(N_BLANK), numbers)
    return predictions_table(pa.table(columns, schema=SCHEMA), model, record)


def _rival_seconds(run: EvaluationRun) -> float:
    """Return the rival's mean seconds per replicate of a curve, over some corruptions."""
    model = run.task.models[0]
    spaces = list(run.spaces(model))
    samples = [
        run.reader(space).outcomes(model.name, entry.name)
        for space in spaces
        for entry in run.entries[:2]
    ]
    start = time.perf_counter()
    for predictions in samples:
        seen = (predictions.label != NONE) & ~np.isnan(predictions.delta_v)
        kept = predictions.select(seen)
        for number in range(N_RIVAL):
            refit_plainly(kept.delta_v, kept.correct, kept.image, len(run.task.images), number)
    return (time.perf_counter() - start) / len(samples) / N_RIVAL


def refit_plainly(
    delta_v: FloatArray, hits: FloatArray, image: IntArray, n_images: int, number: int
) -> FloatArray:
    """Return the rates of the non-empty bins in one bootstrap replicate, without an anchor."""
    drawn = np.random.default_rng(number).integers(0, n_images, n_images)
    weights = np.bincount(drawn, minlength=n_images)[image]
    bins = bin_index(delta_v, bin_edges(BINNINGS[0], BINS))
    counts, sums = np.bincount(bins, weights), np.bincount(bins, weights * hits)
    used = counts > 0
    fitted = isotonic_regression(sums[used] / counts[used], weights=counts[used], increasing=False)
    return np.asarray(fitted.x)


def _unused(batch: object) -> object:
    raise AssertionError("a finished run is scored without its models")
