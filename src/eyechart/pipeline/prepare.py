"""Before the work: everything that can be wrong is looked at, and the rows are drawn."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from eyechart.core.errors import UsageError
from eyechart.core.locks import lock_file
from eyechart.core.progress import Progress
from eyechart.core.run_folder import RECORD, Settings, first_change, open_run_folder, read_settings
from eyechart.humans.combined import References, check_names
from eyechart.humans.placement import HUMAN_DEFINITION
from eyechart.humans.reference import Reference, find_reference
from eyechart.humans.transfer import find_classes
from eyechart.images.imageset import ImageSet
from eyechart.images.published_arrays import PublishedArrays
from eyechart.labels.categories import CATEGORIES, CLASSES
from eyechart.labels.spaces import ENTRY16, are_numbers, map_hint, native_labels
from eyechart.models.find import refuse_unused
from eyechart.models.model import Model
from eyechart.pipeline.baseline import PEOPLE, choose_baseline
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.batches import BatchSize, StimulusSource, predict_classes
from eyechart.predictions.destroyed import destroyed_pictures
from eyechart.predictions.loop import PredictionTask
from eyechart.scores.scoring import OTHER_DEFINITION
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import counts_of, is_uniform, plan_samples
from eyechart.testsets.testset import TestSet, count_steps, keep_testset, read_testset

CIFAR = (10, 100)
"""How many classes CIFAR-10 and CIFAR-100 have."""

FIXED_BY_TESTSET = (
    "suite", "n", "seed", "sampling", "balanced", "definition", "corruptions", "delta_v", "jpeg",
)  # fmt: skip
"""What a test set has already, so that nothing else can be asked for."""

TESTSET_PARTS, TESTSET = "testset", "testset.parquet"
PREDICTIONS = "predictions"
RUN_FILES = (
    *("results.json", "results.csv", "scores.parquet"),
    *("curves.png", "curves-entry16.png", "testset.parquet", "examples"),
)
"""What a run writes besides; without its record they belong to something else."""


def prepare(
    task: EvaluateSettings,
    models: Sequence[Model],
    images: ImageSet,
    device: torch.device,
    out: Path,
    progress: Progress,
) -> tuple[PredictionTask, Path]:
    """Return what is to be predicted, and the folder in `out` that it goes to."""
    check_models(models, images, device)
    refuse_unused(task.loaded_maps, models)
    people_of(task)
    given = None if task.testset is None else read_testset(task.testset)
    groups = None if given is None else given.samples(images)
    if given is not None:
        _check_same(given.plan, task.plan)
    plan = task.plan if given is None else replace(given.plan, labels=task.plan.labels)
    check_labels(plan, models, images)
    _check_baseline(task, plan, images, models)
    digest = "" if given is None else given.digest
    job = PredictionTask(images, plan, groups or [], models, device, task.batch, digest)
    folder = open_run(out, job.settings())
    if groups is None and any(is_uniform(entry, plan) for entry in plan.entries()):
        groups = _uniform(plan, images, device, out, progress).samples(images)
    return replace(job, groups=groups or plan_samples(images, plan)), folder


def _check_baseline(
    task: EvaluateSettings, plan: Plan, images: ImageSet, models: Sequence[Model]
) -> None:
    """Refuse a baseline that does not hold for these pictures."""
    names = [model.name for model in models]
    choose_baseline(task.baseline_name, plan, images, names, task.testset is not None)
    references, why = people_of(task.with_plan(plan))
    parts = () if references is None else references.parts
    if task.baseline_name == PEOPLE and all(part.corrected for part in parts):
        raise UsageError(
            f"--baseline people needs people's errors: {why or 'they are corrected for chance'};"
            " name another baseline, or none."
        )


def _check_same(own: Plan, asked: Plan) -> None:
    """Refuse what was asked for and is otherwise in a test set that was given."""
    usual, settings = Plan(), own.settings()
    for name in FIXED_BY_TESTSET:
        is_asked = getattr(asked, name) != getattr(usual, name)
        if is_asked and asked.settings()[name] != settings[name]:
            raise UsageError(
                f"The test set has its own {name}, another one than was asked for: leave out the"
                " one or the other."
            )


def check_models(models: Sequence[Model], images: ImageSet, device: torch.device) -> None:
    """Let every model answer once, so that one that cannot is found before the work begins."""
    names = [model.name for model in models]
    if not names:
        raise UsageError("Give at least one model.")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The model {name} is given twice.")
    pictures = destroyed_pictures(*images.sizes[0])[:2].to(device)
    stimuli = StimulusSource(2, images.sizes[0], lambda start, stop: (pictures[start:stop], None))
    for model in models:
        predict_classes(stimuli, [model], BatchSize(2))


def check_labels(plan: Plan, models: Sequence[Model], images: ImageSet) -> None:
    """Refuse labels that make no sense for the models."""
    counts_of(images, plan)
    if not images.has_clean and (plan.labels == "none" or not any(images.labels)):
        raise UsageError(
            "Without labels and without clean pictures there is nothing to score: give --clean."
        )
    if plan.labels == ENTRY16:
        for model in models:
            if not model.has_imagenet:
                own = "names of its own" if model.classes == CLASSES else f"{model.classes}"
                raise UsageError(
                    f"--labels entry16 needs a model of ImageNet's {CLASSES} classes,"
                    f" {model.name} has {own}: {map_hint(model.classes)}."
                )
        return
    if plan.labels == "none" or all(label is None for label in images.labels):
        return
    names = {label for label in images.labels if label is not None}
    if len(names) == 1:
        raise UsageError(
            f"All pictures have one label, {names.pop()!r}, so accuracy says nothing: give pictures"
            " of several classes (the folder above the class folders), or --labels none."
        )
    for model in models:
        if isinstance(images.files, PublishedArrays) and are_numbers(sorted(names)):
            # bare numbers would be taken for outputs of any model that has as many or more
            count = max(int(label) for label in names) + 1
            if (model.classes or 0) > count and count in CIFAR:
                raise UsageError(
                    f"The labels of {images.source} are the numbers of {count} classes, but"
                    f" {model.name} has {model.classes:,} outputs: give a model of these classes."
                )
        native_labels(images.labels, model.classes or 0, model.class_names)


def people_of(task: EvaluateSettings) -> tuple[References | None, str]:
    """Return whose answers to compare with, or None and the reason why nobody's.

    People who answered something else than the 16 categories are refused where those were asked
    for; elsewhere they are left aside.
    """
    similar = find_classes(task.similar_names)
    if not task.human_names:
        return None, "no human reference was asked for"
    if task.plan.definition != HUMAN_DEFINITION:
        return None, (
            f"{OTHER_DEFINITION}: human responses are placed by the definition {HUMAN_DEFINITION}"
            f" of visual change, this test is by {task.plan.definition}"
        )
    found = [_person(task, name) for name in task.human_names]
    parts = [replace(own, similar=similar) for own, _ in found if own is not None]
    if len(parts) < len(found):
        why = next(why for own, why in found if own is None)
        if len(found) == 1:
            return None, why
        raise UsageError(
            f"Of several human references {why}: give --match-choices, or leave it out."
        )
    check_names(parts)
    return References(tuple(parts)), ""


def _person(task: EvaluateSettings, name: str) -> tuple[Reference | None, str]:
    reference = find_reference(name, task.clean_responses)
    if reference.choices != len(CATEGORIES):
        if task.match_choices:
            return reference.meeting(len(CATEGORIES), match_choices=True), ""
        if task.plan.labels == ENTRY16:
            raise UsageError(
                f"People chose between {reference.choices} answers in {reference.name}, not"
                f" {len(CATEGORIES)}: give --match-choices to correct both sides for chance, or"
                " another --humans."
            )
        return None, f"people chose between {reference.choices} answers, not {len(CATEGORIES)}"
    if reference.label_space != ENTRY16:
        raise UsageError(
            f"The human reference {reference.name} has labels of {reference.label_space!r}, not of"
            " the 16 categories: give another --humans, or none."
        )
    return reference, ""


def _uniform(
    plan: Plan, images: ImageSet, device: torch.device, out: Path, progress: Progress
) -> TestSet:
    """Return the test set whose strengths had to be found, kept in `out`."""
    target, parts = out / TESTSET, out / TESTSET_PARTS
    with lock_file(target):
        if target.exists():
            kept = read_testset(target)
            if kept.plan.settings() == plan.settings() and kept.header.images == images.digest:
                return kept
            raise UsageError(f"{target} is another test set: choose another --out, or delete it.")
        try:
            parts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
        step = progress.begin("strengths", count_steps(images, plan))
        return keep_testset(images, plan, device, parts, target, step=step)


def open_run(out: Path, settings: Settings) -> Path:
    """Return the folder for predictions in `out`, which is new, empty, or of the same run."""
    record = out / RECORD
    if record.is_file():
        _check_models(out, read_settings(record), settings)
    open_run_folder(out, settings, work="run", folders=(PREDICTIONS,), files=RUN_FILES)
    return out / PREDICTIONS


def _check_models(out: Path, before: Settings, now: Settings) -> None:
    """Raise a UsageError if, first of all, a model of the same name has changed since."""
    old, new = before.get("models"), now["models"]
    if not isinstance(old, dict) or not isinstance(new, dict) or list(old) != list(new):
        return
    changed = next((name for name in new if old[name] != new[name]), None)
    if changed is not None and str(first_change(before, now)).startswith("models:"):
        raise UsageError(
            f"{out} holds a run of another {changed}: its weights, its card or its precision"
            " changed since; choose another --out, or delete it."
        )
