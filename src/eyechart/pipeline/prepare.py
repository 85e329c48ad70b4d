"""Prepare a run: check everything that can fail early, and draw the samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from eyechart.core.cost import SESSIONS_FOLDER
from eyechart.core.errors import UsageError
from eyechart.core.storage.run_folder import (
    RECORD,
    Settings,
    first_change,
    open_run_folder,
    read_settings,
)
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CLASSES
from eyechart.images.labels.matching import are_numbers, map_hint, native_labels
from eyechart.images.labels.spaces import ENTRY16
from eyechart.models.find import reject_unused
from eyechart.models.model import Model
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.human_references import find_humans
from eyechart.pipeline.scoring.baseline import HUMANS, BaselineChoice, choose_baseline
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.pipeline.shard_folder import SHARDS_FOLDER, open_shard
from eyechart.predictions.batches import (
    BatchSize,
    StimulusSource,
    blank_images,
    predict_classes,
)
from eyechart.predictions.loop import PredictionTask
from eyechart.results.schema import PREDICTIONS_FOLDER
from eyechart.testsets.plan import Plan
from eyechart.testsets.published_sources import PublishedArrays
from eyechart.testsets.samples import Samples, counts_of, plan_samples
from eyechart.testsets.testset import read_testset
from eyechart.visual_change.registry import find_ruler
from eyechart.visual_change.ruler import check_ready

CIFAR = (10, 100)
"""Numbers of classes of CIFAR-10 and CIFAR-100."""

FIXED_BY_TESTSET = (
    "suite", "n", "seed", "sampling", "balanced", "ruler", "corruptions", "jpeg",
)  # fmt: skip
"""Settings that a given test set determines, so that other values are rejected."""

RUN_FILES = (
    *("results.json", "results.csv", "scores.parquet"),
    *("curves.png", "curves-entry16.png", "examples", SESSIONS_FOLDER),
)
"""Other files of a run; in a folder without a run record, they count as unrelated files."""


@dataclass(frozen=True, eq=False)
class EvaluationInputs:
    """Loaded models and images of an evaluation, and the device."""

    models: Sequence[Model]
    images: ImageSet
    device: torch.device


def prepare(settings: EvaluateSettings, inputs: EvaluationInputs, out: Path) -> EvaluationRun:
    """Return the run, whose predictions are written to a folder in `out`.

    Raises:
        UsageError: If the run is not possible with these settings.
    """
    check_models(inputs.models, inputs.images, inputs.device)
    reject_unused(settings.loaded_maps, inputs.models)
    task = plan_task(settings, inputs)
    check_ready(find_ruler(task.plan.ruler))
    check_baseline(settings, task.plan, inputs)
    if settings.shard is None:
        folder = open_run(out, task.settings())
    else:
        folder = open_shard(out, task.settings(), settings.shard, RUN_FILES)
    return EvaluationRun(settings, with_samples(task), folder)


def plan_task(settings: EvaluateSettings, inputs: EvaluationInputs) -> PredictionTask:
    """Return what to predict; without samples, unless a test set is given.

    The identity of a run does not need the samples, which are costly to draw.
    """
    images, plan, digest = inputs.images, settings.plan, ""
    groups: Sequence[Samples] = ()
    if settings.testset is not None:
        testset = read_testset(settings.testset)
        groups, digest = testset.samples(images), testset.digest
        _check_same(testset.plan, plan)
        plan = replace(testset.plan, labels=plan.labels)
    return PredictionTask(
        images, plan, groups, inputs.models, inputs.device, settings.batch_size, digest
    )


def with_samples(task: PredictionTask) -> PredictionTask:
    """Return the task with samples drawn from its plan, unless it has samples."""
    return replace(task, groups=task.groups or plan_samples(task.images, task.plan))


def check_baseline(
    settings: EvaluateSettings, plan: Plan, inputs: EvaluationInputs
) -> BaselineChoice:
    """Return the baseline of CE; raise a UsageError if it is not valid for these images."""
    names = [model.name for model in inputs.models]
    has_testset = settings.testset is not None
    choice = choose_baseline(settings.baseline_name, plan, inputs.images, names, has_testset)
    references, why = find_humans(settings.with_plan(plan))
    parts = () if references is None else references.parts
    if settings.baseline_name == HUMANS and all(part.corrected for part in parts):
        raise UsageError(
            f"--baseline humans needs human errors: {why or 'they are corrected for chance'}; give "
            "another baseline, or none."
        )
    return choice


def _check_same(plan: Plan, asked: Plan) -> None:
    """Raise a UsageError if a requested setting differs from the given test set's."""
    usual, settings = Plan(), plan.settings()
    for name in FIXED_BY_TESTSET:
        # A setting at its default counts as not requested.
        is_asked = getattr(asked, name) != getattr(usual, name)
        if is_asked and asked.settings()[name] != settings[name]:
            raise UsageError(f"{name} must match the test set: omit it, or omit --testset.")


def check_models(models: Sequence[Model], images: ImageSet, device: torch.device) -> None:
    """Run every model once, so that errors appear before the run begins."""
    check_names(models)
    blank = blank_images(*images.sizes[0], range(2)).to(device)
    stimuli = StimulusSource(2, images.sizes[0], lambda start, stop: (blank[start:stop], None))
    for model in models:
        predict_classes(stimuli, [model], BatchSize(2))


def check_names(models: Sequence[Model]) -> None:
    """Raise a UsageError if there is no model, or if a model is given twice."""
    names = [model.name for model in models]
    if not names:
        raise UsageError("Give at least one model.")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The model {name} is given twice.")


def check_labels(plan: Plan, models: Sequence[Model], images: ImageSet) -> None:
    """Raise a UsageError if the labels do not fit the models."""
    counts_of(images, plan)
    if not images.has_clean and (plan.labels == "none" or not any(images.labels)):
        raise UsageError(
            "Without labels and without clean images there is nothing to score: give --clean."
        )
    if plan.labels == ENTRY16:
        for model in models:
            if not model.has_imagenet:
                classes = "other class names" if model.classes == CLASSES else f"{model.classes}"
                raise UsageError(
                    f"--labels entry16 needs a model with ImageNet's {CLASSES} classes, but "
                    f"{model.name} has {classes}: {map_hint(model.classes)}."
                )
        return
    if plan.labels == "none" or all(label is None for label in images.labels):
        return
    names = {label for label in images.labels if label is not None}
    if len(names) == 1:
        raise UsageError(
            f"All images have the same label, {names.pop()!r}, so accuracy is not meaningful: give "
            "images"
            " of several classes (the folder above the class folders), or --labels none."
        )
    for model in models:
        if isinstance(images.files, PublishedArrays) and are_numbers(sorted(names)):
            # Numeric labels would match the outputs of any model with at least as many classes.
            count = max(int(label) for label in names) + 1
            if (model.classes or 0) > count and count in CIFAR:
                raise UsageError(
                    f"{images.source} has labels for {count} classes, but"
                    f" {model.name} has {model.classes:,} outputs: give a model of these classes."
                )
        native_labels(images.labels, model.classes or 0, model.class_names, images.class_names)


def open_run(out: Path, settings: Settings) -> Path:
    """Return the predictions folder in `out`, which must be new, empty, or from the same run."""
    if (out / SHARDS_FOLDER).is_dir():
        raise UsageError(
            f"{out} contains shards: add --shard to compute one, or score all of them with eyechart"
            f" merge {out}."
        )
    record = out / RECORD
    if record.is_file():
        _check_models(out, read_settings(record), settings)
    open_run_folder(out, settings, work="run", folders=(PREDICTIONS_FOLDER,), files=RUN_FILES)
    return out / PREDICTIONS_FOLDER


def _check_models(out: Path, before: Settings, now: Settings) -> None:
    """Raise a UsageError if the first setting that differs is a model that kept its name."""
    old, new = before.get("models"), now["models"]
    if not isinstance(old, dict) or not isinstance(new, dict) or list(old) != list(new):
        return
    changed = next((name for name in new if old[name] != new[name]), None)
    if changed is not None and str(first_change(before, now)).startswith("models:"):
        raise UsageError(
            f"{out} contains a run of a different version of {changed}: its weights, card or "
            "precision have changed; choose another --out, or delete this folder."
        )
