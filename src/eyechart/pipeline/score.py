"""After the work: recorded predictions become scores in every label space."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from eyechart.core.progress import Advance, Progress
from eyechart.core.provenance import git_hash, versions
from eyechart.humans.combined import References
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.humans.reference import METRICS, Reference, title
from eyechart.humans.transfer import SimilarClasses
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.labels.imagenet import class_names
from eyechart.labels.spaces import ENTRY16, category_labels, native_labels, output_names
from eyechart.models.model import Model
from eyechart.models.published_study import category_of_model
from eyechart.pipeline.agreement import agreements
from eyechart.pipeline.baseline import PEOPLE, choose_baseline
from eyechart.pipeline.by_class import ByClass
from eyechart.pipeline.caveats import caveats_of, met_in_training
from eyechart.pipeline.corruption_scores import (
    correct_for_number,
    score_corruption,
    without_claim,
)
from eyechart.pipeline.examples import Answered
from eyechart.pipeline.normalise import Divisor, normalise, people_error
from eyechart.pipeline.prepare import people_of
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader
from eyechart.predictions.unreadable import left_out, read_rows
from eyechart.results.run_config import FitConfig, RunConfig
from eyechart.results.schema import (
    CorruptionCoverage,
    CorruptionResults,
    DamagedImage,
    HumanCurve,
    HumanExperiment,
    HumanPoint,
    ImagesUsed,
    ModelResults,
    PairedComparison,
    Results,
    RunProvenance,
    SimilarPair,
    SpaceResults,
    sample_curve,
)
from eyechart.scores.registry import PROPERTIES
from eyechart.scores.scoring import Fit, class_weights, estimate_mean, human_curve, is_too_few
from eyechart.scores.significance import difference, intervals_overlap
from eyechart.scores.similar import compare_corruptions
from eyechart.stats.estimate import ENOUGH, Estimate, mean_estimate
from eyechart.suites.suite import Entry
from eyechart.testsets.coverage import coverage_of
from eyechart.testsets.samples import IntArray

TOO_FEW = "too few photographs for a claim"


def score_run(
    task: EvaluateSettings, job: PredictionTask, folder: Path, progress: Progress
) -> Results:
    """Return the scores of predictions that are all there."""
    people = people_of(task.with_plan(job.plan))
    entries = [samples.entry for samples in job.groups if samples.entry is not None]
    spaces = {model.name: list(_spaces(task, job, model, people[0])) for model in job.models}
    step = progress.begin("curves", len(entries) * sum(map(len, spaces.values())))
    models = []
    names = [model.name for model in job.models]
    choice = choose_baseline(
        task.baseline_name, job.plan, job.images, names, task.testset is not None
    )
    wrong: dict[str, dict[str, Divisor]] = {}
    for model in job.models:
        by_space = {
            space: _score_space(
                task, job, model, space, labels, folder, entries, people, step, wrong
            )
            for space, labels in spaces[model.name]
        }
        native_names = answer_names(job, model, "native")
        models.append(
            ModelResults(
                name=model.name,
                identity=model.identity,
                classes=model.classes or 0,
                category=category_of_model(model.name),
                outputs=() if native_names == class_names() else native_names,
                spaces=by_space,
                trained_on=model.trained_on,
                marked=met_in_training(entries, model.trained_on),
            )
        )
    models = normalise(models, choice, job.plan, wrong)
    answers: dict[str, dict[str, PredictionReader]] = {}
    for name, own_spaces in spaces.items():
        for space, labels in own_spaces:
            own_answers = _recorded(task, job, space, labels, folder)
            answers.setdefault(space, {})[name] = own_answers
    coverage = _coverage(folder, entries, task.fit) if job.images.has_clean else {}
    job = _with_left_out(job, folder)
    return Results(
        config=_config(task, job, choice.name, counted(job, entries)),
        images=_images_used(job),
        models=tuple(models),
        coverage=coverage,
        paired=tuple(_paired(models)),
        warnings=tuple(caveats_of(job, models, choice, task.fit)),
        agreements=tuple(agreements(answers, entries, people[0], task.fit, progress)),
        provenance=RunProvenance(
            versions=versions(),
            git=git_hash(),
            device=str(job.device),
            command="",
            made=datetime.now(UTC).isoformat(timespec="seconds"),
        ),
        people=() if people[0] is None else experiments_of(people[0], task.fit),
    )


def _config(
    settings: EvaluateSettings, job: PredictionTask, baseline: str, means_over: Sequence[str]
) -> RunConfig:
    """Return the settings of the run as its results hold them."""
    compared = {field.name: getattr(settings, field.name) for field in fields(ComparisonSettings)}
    names = settings.human_names
    return RunConfig.from_plain(
        {
            **job.settings(),
            **compared,
            # one reference is a name, several are a list
            "humans": names if len(names) > 1 else next(iter(names), None),
            "similar": settings.similar_names,
            "baseline": baseline,
            "means_over": means_over,
            "fit": FitConfig.of(settings.fit, has_humans=bool(names)),
        }
    )


def experiments_of(references: References | Reference, fit: Fit) -> tuple[HumanExperiment, ...]:
    """Return the experiments with humans, fitted as they are when models are compared with them."""
    return tuple(
        _experiment(reference, name, fit, names_reference=len(references.parts) > 1)
        for reference in references.parts
        for name in reference.experiments
    )


def _experiment(
    reference: Reference, name: str, fit: Fit, *, names_reference: bool
) -> HumanExperiment:
    similar = reference.similar.find(name)
    accuracy, consistency = (_human_curve(reference, name, which, fit) for which in METRICS)
    return HumanExperiment(
        name=name,
        title=f"{title(name)} ({reference.name})" if names_reference else title(name),
        kind="" if similar is None else similar.name,
        members=reference.similar.members_of(name),
        size=reference.size_in_words(name),
        accuracy=accuracy,
        consistency=consistency,
        tested=reference.similar.is_tested(name),
        evidence="" if similar is None else similar.evidence,
        reference=reference.name,
    )


def _human_curve(reference: Reference, name: str, which: str, fit: Fit) -> HumanCurve | None:
    curve, _ = human_curve(reference, name, which, fit)
    if curve is None:
        return None
    # rates of conditions are not corrected for chance
    points = () if reference.corrected else reference.points(name, which)
    return HumanCurve(
        line=sample_curve(curve),
        points=tuple(
            HumanPoint(
                delta_v=point.delta_v,
                answers=point.n_responses,
                rate=point.rate,
                interval95=point.interval(0.95),
                interval83=point.interval(0.83),
            )
            for point in points
        ),
    )


def _spaces(
    task: EvaluateSettings, job: PredictionTask, model: Model, references: References | None
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
    task: EvaluateSettings, job: PredictionTask, space: str, labels: IntArray, folder: Path
) -> PredictionReader:
    """Return the predictions of a run with the labels of a label space."""
    names = [picture.name for picture in job.images.pictures]
    known = dict(zip(names, labels.tolist(), strict=True))
    rule = task.rule if space == ENTRY16 else None
    return PredictionReader(folder, known, rule, job.images.has_clean)


def _score_space(
    task: EvaluateSettings,
    job: PredictionTask,
    model: Model,
    space: str,
    labels: IntArray,
    folder: Path,
    entries: Sequence[Entry],
    people: tuple[References | None, str],
    step: Advance,
    wrong: dict[str, dict[str, Divisor]],
) -> SpaceResults:
    recorded = _recorded(task, job, space, labels, folder)
    clean = recorded.clean(model.name)
    labelled = bool((clean.label != NONE).any())
    # in people's space only pictures of their categories count
    kept = clean.label != NONE if space == ENTRY16 and labelled else np.ones(len(clean), bool)
    scores: dict[str, CorruptionResults] = {}
    used = clean.take(kept)
    by_class = ByClass(used, task.fit.replicates, task.fit.seed, answer_names(job, model, space))
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
        scores[entry.name] = score_corruption(
            entry.name,
            outcomes,
            task.fit,
            geometric=entry.geometric,
            classes=len(CATEGORIES) if space == ENTRY16 else model.classes or 0,
            labelled=labelled,
            reference=theirs,
            why_no_reference=why,
        )
        if task.baseline_name == PEOPLE and theirs is not None and labelled:
            own = people_error(theirs, entry.name, outcomes, task.fit)
            wrong.setdefault(space, {}).update({} if own is None else {entry.name: own})
        step(1, "")
    known = used.take(used.label != NONE)
    # as the curves start: every class counts as much, if pictures were drawn so
    if labelled and (uneven or (job.plan.balanced and _is_drawn(job))):
        known = replace(known, weights=class_weights(known.label))
    is_few = is_too_few(space, known.label) if labelled else len(used) < ENOUGH
    corruptions = dict(zip(scores, correct_for_number(list(scores.values())), strict=True))
    if is_few:
        corruptions = {name: without_claim(score, TOO_FEW) for name, score in corruptions.items()}
    return SpaceResults(
        pictures=len(used),
        classes=len(np.unique(known.label)),
        left_out=int((labels == NONE).sum()) if space == ENTRY16 and labelled else 0,
        verdict=TOO_FEW if is_few else "",
        clean_accuracy=(
            estimate_mean(known.correct, replace(known, universe=used.picture), task.fit)
            if labelled and job.images.has_clean
            else None
        ),
        means=_means(corruptions, counted(job, entries), len(used)),
        corruptions=corruptions,
        corruption_error=None,
        similar=() if theirs is None else tuple(_similar(scores, theirs.similar)),
        by_class=tuple(by_class.results()),
    )


def _means(
    scores: Mapping[str, CorruptionResults], corruptions: Sequence[str], n_images: int
) -> dict[str, Estimate]:
    """Return the mean of every score over those corruptions that have it, by the score's name."""
    by_score: dict[str, list[Estimate]] = {}
    for corruption in scores:
        if corruption in corruptions:
            for name, estimate in scores[corruption].scores.items():
                by_score.setdefault(name, []).append(estimate)
    return {name: mean_estimate(values, n_images) for name, values in by_score.items()}


def answered(task: EvaluateSettings, job: PredictionTask, folder: Path) -> list[Answered]:
    """Return the answers of every model in the first label space that it has."""
    references, _ = people_of(task.with_plan(job.plan))
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
    scores: Mapping[str, CorruptionResults], classes: SimilarClasses
) -> Iterator[SimilarPair]:
    """Yield how a model's scores differ between visually similar corruptions.

    Accuracy, then consistency; with one human curve for both corruptions, or with both of theirs
    where humans responded to each.
    """
    for letter in PROPERTIES:
        for first, second in combinations(scores, 2):
            kind = classes.name_of(first)
            if kind is None or kind != classes.name_of(second):
                continue
            properties = (scores[name].properties.get(letter) for name in (first, second))
            one, two = (None if score is None else score.people for score in properties)
            if one is None or two is None or one.corrected_for_chance != two.corrected_for_chance:
                continue
            human, second_human = one.line.fitted, two.line.fitted
            difference_of_scores = compare_corruptions(
                human,
                one.model_line.fitted,
                two.model_line.fitted,
                second_human=None if second_human is human else second_human,
            )
            yield SimilarPair(
                **dict(difference_of_scores), first=first, second=second, property=letter
            )


def _paired(models: Sequence[ModelResults]) -> Iterator[PairedComparison]:
    for first, second in combinations(models, 2):
        for space in first.spaces:
            if space not in second.spaces:
                continue
            for corruption, score in first.spaces[space].corruptions.items():
                other = second.spaces[space].corruptions[corruption]
                for letter in PROPERTIES:
                    properties = (own.properties.get(letter) for own in (score, other))
                    one, two = (None if own is None else own.curve for own in properties)
                    if one is None or two is None:
                        continue
                    yield PairedComparison(
                        space=space,
                        corruption=corruption,
                        property=letter,
                        first=first.name,
                        second=second.name,
                        difference=difference(one.fitted, two.fitted, paired=True),
                        intervals_overlap=intervals_overlap(one.fitted, two.fitted).areas,
                    )


def _coverage(folder: Path, entries: Sequence[Entry], fit: Fit) -> dict[str, CorruptionCoverage]:
    coverage = {}
    for entry in entries:
        table = read_rows(folder, entry.name, ["row", "picture", "model", "corruption", "delta_v"])
        first = table["model"][0]
        (found,) = coverage_of(table.filter(pc.equal(table["model"], first)), int(fit.least))
        coverage[entry.name] = CorruptionCoverage(
            rows=found.rows,
            paper=found.paper,
            equal=found.equal,
            reached=found.reached,
            largest=found.largest,
            histogram=found.histogram,
        )
    return coverage


def _with_left_out(job: PredictionTask, folder: Path) -> PredictionTask:
    """Return the job with the pictures of which a file could not be read among the damaged."""
    more = left_out(folder)
    if not more:
        return job
    return replace(job, images=replace(job.images, damaged=(*job.images.damaged, *more)))


def _images_used(job: PredictionTask) -> ImagesUsed:
    images = job.images
    used = np.unique(np.concatenate([samples.image for samples in job.groups]))
    return ImagesUsed(
        source=images.source,
        digest=images.digest,
        pictures=len(images),
        used=len(used),
        stimulus=images.stimulus.name,
        damaged=tuple(DamagedImage(name=image.name, why=image.why) for image in images.damaged),
        digests={images.pictures[index].name: images.digests[index] for index in used},
    )
