"""After the work: recorded predictions become scores in every label space."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from eyechart.core.progress import Advance, Progress
from eyechart.core.provenance import git_hash, versions
from eyechart.curves.density import to_density
from eyechart.humans.combined import References
from eyechart.humans.reference import WHICH, Reference, title
from eyechart.humans.transfer import PUBLISHED, SimilarClasses
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.labels.imagenet import class_names
from eyechart.labels.spaces import category_labels, native_labels, output_names
from eyechart.models.model import Model
from eyechart.models.study import category_of_model
from eyechart.pipeline.agreement import agreements
from eyechart.pipeline.baseline import PEOPLE, choose_baseline
from eyechart.pipeline.caveats import caveats_of
from eyechart.pipeline.examples import Answered
from eyechart.pipeline.normalise import Divisor, normalise, people_error
from eyechart.pipeline.prepare import people_of
from eyechart.pipeline.task import ENTRY16, Task
from eyechart.pipeline.trained_on import met_in_training
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader
from eyechart.predictions.unreadable import left_out, read_rows
from eyechart.results.runs import AUTO, HUMAN_BINS
from eyechart.scores.by_class import ByClass
from eyechart.scores.evaluation import (
    TOO_FEW,
    CorruptionScore,
    Evaluation,
    Experiment,
    ModelScore,
    Paired,
    SpaceScore,
)
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import (
    Fit,
    class_weights,
    estimate_mean,
    human_curve,
    is_too_few,
    score_corruption,
)
from eyechart.scores.several import correct_for_number
from eyechart.scores.significance import difference, intervals_overlap
from eyechart.scores.similar import SimilarClass, compare_corruptions
from eyechart.stats.estimate import ENOUGH
from eyechart.suites.suite import Entry
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.samples import IntArray


def score_run(task: Task, job: PredictionTask, folder: Path, progress: Progress) -> Evaluation:
    """Return the scores of predictions that are all there."""
    people = people_of(replace(task, plan=job.plan))
    entries = [samples.entry for samples in job.groups if samples.entry is not None]
    spaces = {model.name: list(_spaces(task, job, model, people[0])) for model in job.models}
    step = progress.begin("curves", len(entries) * sum(map(len, spaces.values())))
    models = []
    names = [model.name for model in job.models]
    choice = choose_baseline(task.baseline, job.plan, job.images, names, task.testset is not None)
    wrong: dict[str, dict[str, Divisor]] = {}
    for model in job.models:
        own = tuple(
            _score_space(task, job, model, space, labels, folder, entries, people, step, wrong)
            for space, labels in spaces[model.name]
        )
        answers_of_its_own = answer_names(job, model, "native")
        outputs = () if answers_of_its_own == class_names() else answers_of_its_own
        about = (model.name, model.identity, model.classes or 0, own)
        marked = met_in_training(entries, model.trained_on)
        kind = category_of_model(model.name)
        models.append(ModelScore(*about, kind, outputs, model.trained_on, marked))
    models = normalise(models, choice, job.plan, wrong)
    answers: dict[str, dict[str, PredictionReader]] = {}
    for name, own_spaces in spaces.items():
        for space, labels in own_spaces:
            own_answers = _recorded(task, job, space, labels, folder)
            answers.setdefault(space, {})[name] = own_answers
    human_bins = AUTO if task.fit.bins is None else task.fit.bins
    coverage = _coverage(folder, entries, task.fit) if job.images.has_clean else {}
    job = _with_left_out(job, folder)
    return Evaluation(
        config={
            **job.settings(),
            "rule": task.rule,
            "humans": task.humans if len(task.human_names) < 2 else list(task.human_names),
            **_similar_config(task),
            "match_choices": task.match_choices,
            **({} if task.clean_responses is None else {"clean_responses": task.clean_responses}),
            "baseline": choice.name,
            "means_over": counted(job, entries),
            "fit": _plain(task.fit) | ({HUMAN_BINS: human_bins} if task.human_names else {}),
        },
        images=_about_images(job),
        models=tuple(models),
        coverage=coverage,
        paired=tuple(_paired(models)),
        warnings=tuple(caveats_of(job, models, choice, task.fit)),
        agreements=tuple(agreements(answers, entries, people[0], task.fit, progress)),
        provenance={
            "versions": versions(),
            "git": git_hash(),
            "device": str(job.device),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": "",
        },
        people=() if people[0] is None else experiments_of(people[0], task.fit),
    )


def _similar_config(task: Task) -> dict[str, Any]:
    """Return which classes were used, where they are not the published ones, as before."""
    names = [task.similar] if isinstance(task.similar, str) else list(task.similar)
    return {} if names == [PUBLISHED] else {"similar": names}


def experiments_of(references: References | Reference, fit: Fit) -> tuple[Experiment, ...]:
    """Return what people answered, fitted as it is when models are compared with it."""
    found = []
    for reference in references.parts:
        whose = f" ({reference.name})" if len(references.parts) > 1 else ""
        for name in reference.experiments:
            curves = {
                which: curve
                for which in WHICH
                if (curve := human_curve(reference, name, which, fit)[0]) is not None
            }
            # rates of conditions are not corrected for chance
            points = (
                {} if reference.corrected else {w: tuple(reference.points(name, w)) for w in curves}
            )
            alike = reference.similar.find(name)
            found.append(
                Experiment(
                    name,
                    f"{title(name)}{whose}",
                    "" if alike is None else alike.name,
                    reference.similar.members_of(name),
                    reference.size_in_words(name),
                    curves,
                    points,
                    reference.similar.is_tested(name),
                    "" if alike is None else alike.evidence,
                    reference.name,
                )
            )
    return tuple(found)


def _spaces(
    task: Task, job: PredictionTask, model: Model, references: References | None
) -> Iterator[tuple[str, IntArray]]:
    """Yield the label spaces to score in, with each picture's label, −1 for none."""
    images, plan = job.images, job.plan
    has_categories = model.has_imagenet
    unlabelled = np.full(len(images), NONE)
    if plan.labels == "native":
        labels = native_labels(images.labels, model.classes or 0, model.class_names)
        yield "native", labels
    elif plan.labels == "none":
        yield "native", unlabelled
    if has_categories and (plan.labels == ENTRY16 or task.human_names):
        labels = category_labels(images.labels, images.categories)
        if plan.labels == "none":
            labels = unlabelled
        used = np.unique(np.concatenate([samples.image for samples in job.groups]))
        # without any label, only people's consistency has something to say
        blind = (
            references is not None and bool((labels == NONE).all()) and references.has_consistency
        )
        if plan.labels == ENTRY16 or (labels[used] != NONE).any() or blind:
            yield ENTRY16, labels


def _recorded(
    task: Task, job: PredictionTask, space: str, labels: IntArray, folder: Path
) -> PredictionReader:
    """Return the predictions of a run with the labels of a label space."""
    names = [picture.name for picture in job.images.pictures]
    known = dict(zip(names, labels.tolist(), strict=True))
    rule = task.rule if space == ENTRY16 else None
    return PredictionReader(folder, known, rule, job.images.has_clean)


def _score_space(
    task: Task,
    job: PredictionTask,
    model: Model,
    space: str,
    labels: IntArray,
    folder: Path,
    entries: Sequence[Entry],
    people: tuple[References | None, str],
    step: Advance,
    wrong: dict[str, dict[str, Divisor]],
) -> SpaceScore:
    recorded = _recorded(task, job, space, labels, folder)
    clean = recorded.clean(model.name)
    labelled = bool((clean.label != NONE).any())
    # in people's space only pictures of their categories count
    kept = clean.label != NONE if space == ENTRY16 and labelled else np.ones(len(clean), bool)
    scores, used = [], clean.take(kept)
    by_class = ByClass(used, task.fit.replicates, task.fit.seed)
    # drawn by the data set's classes, people's categories have uneven shares
    uneven = space == ENTRY16 and labelled and job.plan.labels != ENTRY16
    theirs, why = people
    if space != ENTRY16:
        theirs, why = None, "people answered in 16 categories: see entry16"
    for entry in entries:
        outcomes = recorded.outcomes(model.name, entry.name)
        if space == ENTRY16 and labelled:
            outcomes = outcomes.take(outcomes.label != NONE)
        outcomes = replace(outcomes, universe=used.picture)
        by_class.add(entry.name, outcomes)
        if uneven:
            outcomes = replace(outcomes, weights=class_weights(outcomes.label))
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
        if task.baseline == PEOPLE and theirs is not None and labelled:
            own = people_error(theirs, entry.name, outcomes, task.fit)
            wrong.setdefault(space, {}).update({} if own is None else {entry.name: own})
        step(1, "")
    known = used.take(used.label != NONE)
    # as the curves start: every class counts as much, if pictures were drawn so
    if labelled and (uneven or (job.plan.balanced and _is_drawn(job))):
        known = replace(known, weights=class_weights(known.label))
    is_few = is_too_few(space, known.label) if labelled else len(used) < ENOUGH
    return SpaceScore(
        space,
        pictures=len(used),
        classes=len(np.unique(known.label)),
        left_out=int((labels == NONE).sum()) if space == ENTRY16 and labelled else 0,
        clean_accuracy=(
            estimate_mean(known.correct, replace(known, universe=used.picture), task.fit)
            if labelled and job.images.has_clean
            else None
        ),
        corruptions=tuple(correct_for_number(scores)),
        verdict=TOO_FEW if is_few else "",
        similar=() if theirs is None else tuple(_similar(scores, theirs.similar)),
        counted=tuple(counted(job, entries)),
        by_class=tuple(by_class.scores()),
        class_names=answer_names(job, model, space),
    )


def answered(task: Task, job: PredictionTask, folder: Path) -> list[Answered]:
    """Return the answers of every model in the first label space that it has."""
    references, _ = people_of(replace(task, plan=job.plan))
    found = []
    for model in job.models:
        space, labels = next(_spaces(task, job, model, references))
        recorded = _recorded(task, job, space, labels, folder)
        found.append(Answered(model.name, recorded, answer_names(job, model, space)))
    return found


def answer_names(job: PredictionTask, model: Model, space: str) -> tuple[str, ...]:
    """Return what each answer in a label space is called in text."""
    if space == ENTRY16:
        return CATEGORIES
    return output_names(job.images.labels, model.classes or 0, model.class_names)


def counted(job: PredictionTask, entries: Sequence[Entry]) -> list[str]:
    """Return the corruptions that means are over: the suite's own, where all of it is there.

    ImageNet-C's extras may be there besides.
    """
    names, suite = [entry.name for entry in entries], job.plan.all_names()
    return suite if set(suite) <= set(names) else names


def _is_drawn(job: PredictionTask) -> bool:
    """Whether pictures were drawn, and not all of them shown at published levels or from files."""
    if job.images.files is not None:
        return False
    return job.plan.sampling != "paper" or not all(e.at_levels for e in job.plan.entries())


def _similar(
    scores: Sequence[CorruptionScore], classes: SimilarClasses
) -> Iterator[tuple[str, str, SimilarClass]]:
    """Yield how a model's scores differ between corruptions that people meet alike.

    Accuracy, then consistency; with one human curve for both corruptions, or with both of theirs
    where people responded to each.
    """
    for letter in PROPERTIES:
        for first, second in combinations(scores, 2):
            kind = classes.name_of(first.corruption)
            if kind is None or kind != classes.name_of(second.corruption):
                continue
            one, two = (own.properties.get(letter) for own in (first, second))
            if one is None or two is None or one.people is None or two.people is None:
                continue
            if one.people.corrected != two.people.corrected:
                continue
            human, other = one.people.curve, two.people.curve
            found = compare_corruptions(
                human,
                one.people.model_curve,
                two.people.model_curve,
                second_human=None if other is human else other,
            )
            yield first.corruption, second.corruption, replace(found, property=letter)


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
    found = {}
    for entry in entries:
        table = read_rows(folder, entry.name, ["row", "picture", "model", "corruption", "delta_v"])
        first = table["model"][0]
        (own,) = coverage_of(table.filter(pc.equal(table["model"], first)), int(fit.least))
        found[entry.name] = {
            "rows": own.rows,
            "paper": own.paper,
            "equal": own.equal,
            "reached": own.reached,
            "largest": own.largest,
            "histogram": own.histogram,
        }
    return found


def _with_left_out(job: PredictionTask, folder: Path) -> PredictionTask:
    """Return the job with the pictures of which a file could not be read among the damaged."""
    more = left_out(folder)
    if not more:
        return job
    return replace(job, images=replace(job.images, damaged=(*job.images.damaged, *more)))


def _about_images(job: PredictionTask) -> dict[str, Any]:
    images = job.images
    used = np.unique(np.concatenate([samples.image for samples in job.groups]))
    return {
        "source": images.source,
        "digest": images.digest,
        "pictures": len(images),
        "used": len(used),
        "stimulus": images.stimulus.name,
        "damaged": [{"name": each.name, "why": each.why} for each in images.damaged],
        "digests": {images.pictures[place].name: images.digests[place] for place in used},
    }


def _plain(fit: Fit) -> dict[str, Any]:
    return {
        "binning": fit.binning,
        "bins": fit.n_bins,
        "least": fit.least,
        "method": fit.method,
        "right_anchor": fit.right_anchor,
        "replicates": fit.replicates,
        "seed": fit.seed,
        "density": to_density(fit.density).identity,
    }
