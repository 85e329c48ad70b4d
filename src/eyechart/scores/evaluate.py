"""`evaluate`: from models and a folder of pictures to R_a, R_p, HMRI and MRSI per corruption."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow.compute as pc
import torch

from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.parts import Parts
from eyechart.core.provenance import git_hash, versions
from eyechart.core.registry import unknown_name
from eyechart.humans.reference import Reference, find_reference
from eyechart.humans.transfer import class_of
from eyechart.images.imageset import ImageSet, load_images
from eyechart.labels.categories import CATEGORIES, CLASSES, NONE, RULES
from eyechart.labels.spaces import category_labels, native_labels
from eyechart.models.find import load_model
from eyechart.models.model import Model
from eyechart.predictions.destroyed import destroyed_pictures
from eyechart.predictions.loop import Job, predict
from eyechart.predictions.outcomes import Recorded, Whole, digest_labels
from eyechart.predictions.run import open_run, settings_of
from eyechart.scores.evaluation import (
    PROPERTIES,
    TOO_FEW,
    CorruptionScore,
    Evaluation,
    ModelScore,
    Paired,
    SpaceScore,
)
from eyechart.scores.scoring import Fit, estimate_mean, is_too_few, score_corruption
from eyechart.scores.significance import difference
from eyechart.scores.similar import SimilarClass, compare_corruptions
from eyechart.suites.suite import Entry
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.drawing import Plan, Step, counts_of, is_uniform, plan_draws
from eyechart.testsets.testset import TestSet, count_steps, make_testset, read_testset

TESTSET_PARTS, TESTSET = "testset", "testset.parquet"
ENTRY16 = "entry16"


class Progress(Protocol):
    """How long work is followed: `begin(title, total)` gives a function told of each step."""

    def begin(self, title: str, total: int) -> Step:
        """Begin a part of the work with so many steps."""


class _Silent:
    def begin(self, title: str, total: int) -> Step:
        return lambda count, message: None


@dataclass(frozen=True)
class Task:
    """What `evaluate` is to do, besides models and pictures.

    `rule`: how 1,000 classes become the 16 categories. `humans`: a reference's name or file, or
    None. `testset`: the path of a manifest to use instead of drawing one.
    """

    plan: Plan
    fit: Fit
    rule: str = "max"
    humans: str | None = "geirhos"
    testset: str | None = None
    batch: int | None = None

    def check(self) -> None:
        """Raise a UsageError unless this can be done."""
        self.plan.check()
        self.fit.check()
        if self.rule not in RULES:
            raise unknown_name("rule", str(self.rule), RULES)
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch must be at least 1, got {self.batch}.")
        if self.plan.sampling == "paper" and all(entry.levels for entry in self.plan.entries()):
            return
        need = int(self.fit.least * 2)
        if self.testset is None and self.plan.n < need:
            raise UsageError(
                f"n = {self.plan.n} is too small for curves: two bins of {self.fit.least:g} answers"
                f" need at least {need}; give a larger n or a smaller least."
            )


def evaluate(
    model: Any,
    images: str | os.PathLike[str] | ImageSet,
    suite: str = "vcr",
    n: int = 50_000,
    *,
    seed: int = 0,
    sampling: str = "paper",
    corruptions: Sequence[str] = (),
    labels: str = "native",
    balanced: bool = True,
    rule: str = "max",
    humans: str | None = "geirhos",
    stimulus: str = "224",
    definition: str = "vcr",
    delta_v: tuple[float, float] = (0.0, 1.0),
    testset: str | None = None,
    device: str = "cpu",
    batch: int | None = None,
    out: str | os.PathLike[str] | None = None,
    **fit: Any,
) -> Evaluation:
    """Return how robust models are: R_a, R_p, and HMRI and MRSI next to people, per corruption.

    `model`: a name, `module:attribute`, a file, a module or a callable, or a list of these, which
    then share one pass. `images`: a class folder, a manifest, or an ImageSet. `n`: pictures per
    corruption. `labels`: "native", "entry16" or "none". `out`: where predictions are kept, so that
    a run that was stopped goes on; otherwise they are dropped. `fit`: see `Fit`.
    """
    plan = Plan(suite, n, seed, sampling, labels, balanced, definition, tuple(corruptions), delta_v)
    task = Task(plan, _fit(fit), rule, humans, testset, batch)
    task.check()
    where = find_device(device)
    given = list(model) if isinstance(model, list | tuple) else [model]
    models = [each if isinstance(each, Model) else load_model(each, where) for each in given]
    own = images if isinstance(images, ImageSet) else load_images(images, stimulus)
    with ExitStack() as stack:
        if out is None:
            out = stack.enter_context(tempfile.TemporaryDirectory(prefix="eyechart-"))
        return run_task(task, models, own, where, Path(out), _Silent())


def _fit(given: dict[str, Any]) -> Fit:
    known = Fit.__dataclass_fields__
    for name in given:
        if name not in known:
            raise unknown_name("argument", name, known)
    return Fit(**given)


def run_task(
    task: Task,
    models: Sequence[Model],
    images: ImageSet,
    device: torch.device,
    out: Path,
    progress: Progress,
) -> Evaluation:
    """Predict what is missing in `out` and score all of it."""
    job = prepare(task, models, images, device, out, progress)
    folder = open_run(out, settings_of(job))
    count = sum(map(len, job.groups))
    predict(job, folder, progress.begin("predictions", count))
    return score_run(task, job, folder, progress)


def prepare(
    task: Task,
    models: Sequence[Model],
    images: ImageSet,
    device: torch.device,
    out: Path,
    progress: Progress,
) -> Job:
    """Return what is to be predicted, after everything that can be wrong was looked at."""
    check_models(models, images, device)
    reference = None if task.humans is None else find_reference(task.humans)
    if reference is not None and task.plan.labels == ENTRY16:
        _check_reference(reference)
    plan, groups = task.plan, None
    if task.testset is not None:
        given = read_testset(task.testset)
        plan, groups = given.plan, given.draws(images)
    check_labels(plan, models, images)
    if groups is None and any(is_uniform(entry, plan) for entry in plan.entries()):
        groups = _uniform(plan, images, device, out, progress).draws(images)
    if groups is None:
        groups = plan_draws(images, plan)
    return Job(images, plan, groups, models, device, task.batch)


def check_models(models: Sequence[Model], images: ImageSet, device: torch.device) -> None:
    """Let every model answer once, so that one that cannot is found before the work begins."""
    names = [model.name for model in models]
    if not names:
        raise UsageError("Give at least one model.")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The model {name} is given twice.")
    pictures = destroyed_pictures(*images.sizes[0])[:2].to(device)
    for model in models:
        model(pictures)


def check_labels(plan: Plan, models: Sequence[Model], images: ImageSet) -> None:
    """Refuse labels that make no sense for the models."""
    counts_of(images, plan)
    if plan.labels == ENTRY16:
        for model in models:
            if model.classes != CLASSES:
                raise UsageError(
                    f"--labels entry16 needs a model of ImageNet's {CLASSES} classes,"
                    f" {model.name} has {model.classes}."
                )
        return
    if plan.labels == "none" or all(label is None for label in images.labels):
        return
    names = {label for label in images.labels if label is not None}
    if len(names) == 1:
        raise UsageError(
            f"All pictures have one label, {names.pop()!r}, so accuracy says nothing: give the"
            " folder above the class folders, or --labels none for consistency alone."
        )
    for model in models:
        native_labels(images.labels, model.classes or 0)


def _check_reference(reference: Reference) -> None:
    if reference.label_space != ENTRY16:
        raise UsageError(
            f"The human reference {reference.name} has labels of {reference.label_space!r}, not of"
            " the 16 categories: give another --humans, or none."
        )
    reference.meeting(len(CATEGORIES))


def _uniform(
    plan: Plan, images: ImageSet, device: torch.device, out: Path, progress: Progress
) -> TestSet:
    """Return the test set whose strengths had to be found, kept in `out`."""
    target = out / TESTSET
    if target.exists():
        kept = read_testset(target)
        if kept.plan.settings() == plan.settings() and kept.header["images"] == images.digest:
            return kept
        raise UsageError(f"{target} is another test set: choose another --out, or delete it.")
    parts = out / TESTSET_PARTS
    try:
        parts.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
    steps = count_steps(images, plan)
    made = make_testset(images, plan, device, parts, progress.begin("strengths", steps))
    made.save(target)
    return made


def score_run(task: Task, job: Job, folder: Path, progress: Progress) -> Evaluation:
    """Return the scores of predictions that are all there."""
    reference = None if task.humans is None else find_reference(task.humans)
    entries = [draws.entry for draws in job.groups if draws.entry is not None]
    spaces = {model.name: list(_spaces(task, job, model)) for model in job.models}
    step = progress.begin("curves", len(entries) * sum(map(len, spaces.values())))
    models = []
    for model in job.models:
        own = tuple(
            _score_space(task, job, model, space, labels, folder, entries, reference, step)
            for space, labels in spaces[model.name]
        )
        models.append(ModelScore(model.name, model.identity, model.classes or 0, own))
    coverage = _coverage(folder, entries, task.fit)
    return Evaluation(
        config={
            **settings_of(job),
            "rule": task.rule,
            "humans": task.humans,
            "fit": _plain(task.fit),
        },
        images=_about_images(job),
        models=tuple(models),
        coverage=coverage,
        paired=tuple(_paired(models)),
        warnings=tuple(_warnings(task, job, models)),
        provenance={"versions": versions(), "git": git_hash()},
    )


def _spaces(task: Task, job: Job, model: Model) -> Iterator[tuple[str, Whole]]:
    """Yield the label spaces to score in, with each picture's label, −1 for none."""
    images, plan = job.images, job.plan
    has_categories = model.classes == CLASSES
    unlabelled = np.full(len(images), NONE)
    if plan.labels == "native":
        labels = native_labels(images.labels, model.classes or 0)
        yield "native", labels
    elif plan.labels == "none":
        yield "native", unlabelled
    if has_categories and (plan.labels == ENTRY16 or task.humans is not None):
        labels = category_labels(images.labels, images.categories)
        if plan.labels == "none":
            labels = unlabelled
        used = np.unique(np.concatenate([draws.image for draws in job.groups]))
        if plan.labels == ENTRY16 or (labels[used] != NONE).any():
            yield ENTRY16, labels


def _score_space(
    task: Task,
    job: Job,
    model: Model,
    space: str,
    labels: Whole,
    folder: Path,
    entries: Sequence[Entry],
    reference: Reference | None,
    step: Step,
) -> SpaceScore:
    rule = task.rule if space == ENTRY16 else None
    recorded = Recorded(folder, digest_labels(job.images.digests, labels), rule)
    clean = recorded.clean(model.name)
    labelled = bool((clean.label != NONE).any())
    # in people's space only pictures of their categories count
    kept = clean.label != NONE if space == ENTRY16 and labelled else np.ones(len(clean), bool)
    scores, used = [], clean.take(kept)
    theirs, why = reference, "no human reference"
    if space != ENTRY16:
        theirs, why = None, "people answered in 16 categories: see entry16"
    for entry in entries:
        outcomes = recorded.outcomes(model.name, entry.name)
        if space == ENTRY16 and labelled:
            outcomes = outcomes.take(outcomes.label != NONE)
        scores.append(
            score_corruption(
                entry.name,
                outcomes,
                task.fit,
                geometric=entry.geometric,
                classes=len(CATEGORIES) if space == ENTRY16 else model.classes or 0,
                labelled=labelled,
                reference=theirs,
                why_no_reference=why,
            )
        )
        step(1, "")
    known = used.take(used.label != NONE)
    return SpaceScore(
        space,
        pictures=len(used),
        classes=len(np.unique(known.label)),
        left_out=len(clean) - len(used),
        clean_accuracy=(
            estimate_mean(known.correct, known.picture, task.fit) if labelled else None
        ),
        corruptions=tuple(scores),
        verdict=TOO_FEW if labelled and is_too_few(space, known.label) else "",
        similar=tuple(_similar(scores)) if space == ENTRY16 else (),
    )


def _similar(scores: Sequence[CorruptionScore]) -> Iterator[tuple[str, str, SimilarClass]]:
    """Yield how a model's scores differ between corruptions that people meet alike."""
    for first, second in combinations(scores, 2):
        if class_of(first.corruption) is None:
            continue
        if class_of(first.corruption) != class_of(second.corruption):
            continue
        one, two = first.accuracy, second.accuracy
        if one is None or two is None or one.people is None or two.people is None:
            continue
        assert one.curve is not None and two.curve is not None
        found = compare_corruptions(one.people.curve, one.curve, two.curve)
        yield first.corruption, second.corruption, found


def _paired(models: Sequence[ModelScore]) -> Iterator[Paired]:
    for first, second in combinations(models, 2):
        for space in first.spaces:
            other = second.space(space.space)
            if other is None:
                continue
            for one, two in zip(space.corruptions, other.corruptions, strict=True):
                for letter in PROPERTIES:
                    own, theirs = one.properties.get(letter), two.properties.get(letter)
                    if own is None or theirs is None or own.curve is None or theirs.curve is None:
                        continue
                    found = difference(own.curve, theirs.curve, paired=True)
                    yield Paired(
                        space.space, one.corruption, letter, first.name, second.name, found
                    )


def _coverage(folder: Path, entries: Sequence[Entry], fit: Fit) -> dict[str, dict[str, Any]]:
    parts, found = Parts(folder), {}
    for entry in entries:
        table = parts.read(entry.name, ["row", "model", "corruption", "delta_v"])
        first = table["model"][0]
        (own,) = coverage_of(table.filter(pc.equal(table["model"], first)), int(fit.least))
        found[entry.name] = {
            "rows": own.rows,
            "paper": own.paper,
            "equal": own.equal,
            "reached": own.reached,
            "largest": own.largest,
        }
    return found


def _about_images(job: Job) -> dict[str, Any]:
    images = job.images
    used = np.unique(np.concatenate([draws.image for draws in job.groups]))
    return {
        "source": images.source,
        "digest": images.digest,
        "pictures": len(images),
        "used": len(used),
        "stimulus": images.stimulus.name,
        "damaged": [{"name": each.name, "why": each.why} for each in images.damaged],
        "digests": {images.pictures[place].name: images.digests[place] for place in used},
    }


def _warnings(task: Task, job: Job, models: Sequence[ModelScore]) -> Iterator[str]:
    if all(space.clean_accuracy is None for model in models for space in model.spaces):
        yield "No labels: only consistency was scored, no accuracy."
    if job.images.damaged:
        names = ", ".join(each.name for each in job.images.damaged[:3])
        yield f"{len(job.images.damaged)} damaged pictures were left out: {names}."
    scales = {min(size) for size in job.images.sizes}
    if min(scales) < 72:
        yield "Pictures under 72 px have fewer scales: their Δv is another ruler than others have."
    if task.plan.labels == "native" and any(label is None for label in job.images.labels):
        count = sum(label is None for label in job.images.labels)
        yield f"{count} of {len(job.images)} pictures have no label: accuracy is without them."
    for space in dict.fromkeys(s.space for model in models for s in model.spaces):
        own = [each for model in models for each in model.spaces if each.space == space]
        if own[0].verdict:
            what = f"{own[0].pictures} pictures of {own[0].classes} classes"
            yield f"{space}: {what}: {own[0].verdict}."
    lacking = {
        score.corruption: score.unmeasurable
        for model in models[:1] for space in model.spaces[:1] for score in space.corruptions
        if score.unmeasurable
    }  # fmt: skip
    if lacking:
        count = sum(lacking.values())
        yield f"{count} answers are to pictures too even for Δv; curves are without them."


def _plain(fit: Fit) -> dict[str, Any]:
    return {
        "binning": fit.binning,
        "bins": fit.bins,
        "least": fit.least,
        "method": fit.method,
        "right_anchor": fit.right_anchor,
        "replicates": fit.replicates,
        "density": "uniform" if fit.density is None else str(fit.density),
    }
