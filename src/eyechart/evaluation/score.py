"""After the work: recorded predictions become scores in every label space."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from eyechart.core.parts import Parts
from eyechart.core.provenance import git_hash, versions
from eyechart.evaluation.prepare import people_of
from eyechart.evaluation.task import ENTRY16, Progress, Task
from eyechart.humans.reference import Reference
from eyechart.humans.transfer import class_of
from eyechart.labels.categories import CATEGORIES, CLASSES, NONE
from eyechart.labels.spaces import category_labels, native_labels
from eyechart.models.model import Model
from eyechart.predictions.loop import Job
from eyechart.predictions.outcomes import Recorded, Whole
from eyechart.scores.evaluation import (
    PROPERTIES,
    TOO_FEW,
    CorruptionScore,
    Evaluation,
    ModelScore,
    Paired,
    SpaceScore,
)
from eyechart.scores.scoring import (
    ENOUGH,
    Fit,
    class_weights,
    estimate_mean,
    is_too_few,
    score_corruption,
)
from eyechart.scores.significance import difference, intervals_overlap
from eyechart.scores.similar import SimilarClass, compare_corruptions
from eyechart.suites.suite import Entry
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.drawing import Step


def score_run(task: Task, job: Job, folder: Path, progress: Progress) -> Evaluation:
    """Return the scores of predictions that are all there."""
    people = people_of(task)
    entries = [draws.entry for draws in job.groups if draws.entry is not None]
    spaces = {model.name: list(_spaces(task, job, model, people[0])) for model in job.models}
    step = progress.begin("curves", len(entries) * sum(map(len, spaces.values())))
    models = []
    for model in job.models:
        own = tuple(
            _score_space(task, job, model, space, labels, folder, entries, people, step)
            for space, labels in spaces[model.name]
        )
        models.append(ModelScore(model.name, model.identity, model.classes or 0, own))
    coverage = _coverage(folder, entries, task.fit)
    return Evaluation(
        config={
            **job.settings(),
            "rule": task.rule,
            "humans": task.humans,
            "match_choices": task.match_choices,
            "fit": _plain(task.fit),
        },
        images=_about_images(job),
        models=tuple(models),
        coverage=coverage,
        paired=tuple(_paired(models)),
        warnings=tuple(_warnings(task, job, models)),
        provenance={
            "versions": versions(),
            "git": git_hash(),
            "device": str(job.device),
        },
    )


def _spaces(
    task: Task, job: Job, model: Model, reference: Reference | None
) -> Iterator[tuple[str, Whole]]:
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
        # without any label, only people's consistency has something to say
        blind = (
            reference is not None
            and bool((labels == NONE).all())
            and bool(np.isfinite(reference.answers.consistent).any())
        )
        if plan.labels == ENTRY16 or (labels[used] != NONE).any() or blind:
            yield ENTRY16, labels


def _score_space(
    task: Task,
    job: Job,
    model: Model,
    space: str,
    labels: Whole,
    folder: Path,
    entries: Sequence[Entry],
    people: tuple[Reference | None, str],
    step: Step,
) -> SpaceScore:
    rule = task.rule if space == ENTRY16 else None
    names = [picture.name for picture in job.images.pictures]
    recorded = Recorded(folder, dict(zip(names, labels.tolist(), strict=True)), rule)
    clean = recorded.clean(model.name)
    labelled = bool((clean.label != NONE).any())
    # in people's space only pictures of their categories count
    kept = clean.label != NONE if space == ENTRY16 and labelled else np.ones(len(clean), bool)
    scores, used = [], clean.take(kept)
    theirs, why = people
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
                # drawn by the data set's classes, people's categories have uneven shares
                equal_classes=space == ENTRY16 and labelled and job.plan.labels != ENTRY16,
            )
        )
        step(1, "")
    known = used.take(used.label != NONE)
    # as the curves start: every class counts as much, if pictures were drawn so
    shares = class_weights(known.label) if job.plan.balanced and labelled else None
    is_few = is_too_few(space, known.label) if labelled else len(used) < ENOUGH
    return SpaceScore(
        space,
        pictures=len(used),
        classes=len(np.unique(known.label)),
        left_out=int((labels == NONE).sum()) if space == ENTRY16 and labelled else 0,
        clean_accuracy=(
            estimate_mean(known.correct, known.picture, task.fit, shares) if labelled else None
        ),
        corruptions=tuple(scores),
        verdict=TOO_FEW if is_few else "",
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
        if one.people.curve is not two.people.curve:
            continue  # people answered to both, and each has a curve of its own
        found = compare_corruptions(
            one.people.curve, one.people.model_curve, two.people.model_curve
        )
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
                    overlap = intervals_overlap(own.curve, theirs.curve).areas
                    yield Paired(
                        space.space, one.corruption, letter, first.name, second.name, found, overlap
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
    if job.plan.labels == "native" and any(label is None for label in job.images.labels):
        count = sum(label is None for label in job.images.labels)
        yield f"{count} of {len(job.images)} pictures have no label: accuracy is without them."
    for space in dict.fromkeys(s.space for model in models for s in model.spaces):
        own = [each for model in models for each in model.spaces if each.space == space]
        if own[0].verdict:
            what = f"{own[0].pictures} pictures of {own[0].classes} classes"
            yield f"{space}: {what}: {own[0].verdict}."
    yield from _same_files(job)
    yield from _without_curves(models)
    lacking = {
        score.corruption: score.unmeasurable
        for model in models[:1] for space in model.spaces[:1] for score in space.corruptions
        if score.unmeasurable
    }  # fmt: skip
    if lacking:
        count = sum(lacking.values())
        yield f"{count} answers are to pictures too even for Δv; curves are without them."


def _same_files(job: Job) -> Iterator[str]:
    """Yield a sentence if the same file has two labels."""
    first: dict[str, int] = {}
    found = []
    for place, digest in enumerate(job.images.digests):
        other = first.setdefault(digest, place)
        if job.images.labels[other] != job.images.labels[place]:
            found.append((job.images.pictures[other].name, job.images.pictures[place].name))
    if found:
        count = "1 picture is" if len(found) == 1 else f"{len(found)} pictures are"
        one, two = found[0]
        yield f"{count} there twice with two labels: {one} and {two} have the same bytes."


def _without_curves(models: Sequence[ModelScore]) -> Iterator[str]:
    """Yield for each label space which corruptions have no curve, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for model in models:
        for space in model.spaces:
            for score in space.corruptions:
                for own in score.properties.values():
                    if own.why:
                        names = found.setdefault((space.space, own.why), [])
                        names += [] if score.corruption in names else [score.corruption]
    for (where, why), names in found.items():
        which = names[0] if len(names) == 1 else f"{len(names)} corruptions, such as {names[0]}"
        yield f"{where}: {which}: {why.rstrip('.')}."


def _plain(fit: Fit) -> dict[str, Any]:
    return {
        "binning": fit.binning,
        "bins": fit.bins,
        "least": fit.least,
        "method": fit.method,
        "right_anchor": fit.right_anchor,
        "replicates": fit.replicates,
        "seed": fit.seed,
        "density": "uniform" if fit.density is None else str(fit.density),
    }
