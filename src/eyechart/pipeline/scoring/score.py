"""Score a run: from recorded predictions to the scores of every model and the results."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow.compute as pc

from eyechart.core.cost import Session
from eyechart.core.devices import keep_freed_memory, share_freed_memory
from eyechart.core.parallel import map_on_threads, one_blas_thread
from eyechart.core.progress import Advance, Progress
from eyechart.core.version import git_hash, versions
from eyechart.humans.human_settings import ComparisonSettings
from eyechart.images.image_sources import source_name
from eyechart.images.imageset import Damaged
from eyechart.images.labels.imagenet import class_names
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.examples import keep_examples
from eyechart.pipeline.human_references import experiments_of, notes_on_humans, studies_of
from eyechart.pipeline.scoring.baseline import (
    BaselineChoice,
    BaselineError,
    choose_baseline,
    normalize,
)
from eyechart.pipeline.scoring.caveats import caveats_of, met_in_training
from eyechart.pipeline.scoring.comparisons import agreements, paired_models
from eyechart.pipeline.scoring.score_space import ScoredCorruption, SpaceScorer, n_threads
from eyechart.predictions.engine import part_files
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader, left_out, read_rows
from eyechart.results.model_results import ModelResults, SpaceResults
from eyechart.results.run_config import FitConfig, RunConfig
from eyechart.results.schema import DamagedImage, ImagesUsed, Results, RunInfo
from eyechart.results.study_models import category_of_model
from eyechart.testsets.coverage import CorruptionCoverage, coverage_of, fewest_in_covered


def score_predictions(
    run: EvaluationRun, warnings: Sequence[str], out: Path, session: Session, progress: Progress
) -> Results:
    """Return the results of a run whose predictions are complete; write example images to `out`."""
    with session.stage("scoring"):
        scored = score_run(run, progress)
    with session.stage("examples"):
        examples = keep_examples(run, out)
    changes = {
        "examples": examples,
        "warnings": (*warnings, *scored.warnings, *part_files(run.task, run.folder).notes()),
    }
    return scored.model_copy(update=changes)


def score_run(run: EvaluationRun, progress: Progress) -> Results:
    """Return the results of a run whose predictions are complete."""
    # Threads that request and return pages of memory all the time would wait for each other.
    keep_freed_memory()
    share_freed_memory()
    with one_blas_thread():
        return _score_run(run, progress)


def _score_run(run: EvaluationRun, progress: Progress) -> Results:
    fit, references, task = run.settings.fit, run.humans[0], _with_left_out(run)
    scorers = [
        SpaceScorer(run, model, space) for model in task.models for space in run.spaces(model)
    ]
    step = progress.begin("curves", len(run.entries) * len(scorers))
    # All are started at once: while one is finished here, the threads work on the next ones.
    started = [(scorer, scorer.start()) for scorer in scorers]
    coverages = _start_coverage(run) if task.images.has_clean else iter(())
    # What needs no scores is computed while the threads work.
    names = [model.name for model in task.models]
    has_testset = run.settings.testset is not None
    choice = choose_baseline(run.settings.baseline_name, task.plan, task.images, names, has_testset)
    config, images = _config(run, choice.name), _images_used(run, task.images.damaged)
    humans = () if references is None else experiments_of(references, fit)
    models = _finish_models(run, started, choice, step)
    coverage = dict(coverages)
    notes = list(caveats_of(task, models, choice, fit, coverage))
    if references is not None:
        used = {
            (scored.humans.reference, scored.humans.experiment)
            for model in models
            for space in model.spaces.values()
            for corruption in space.corruptions.values()
            for scored in corruption.properties.values()
            if scored.humans is not None
        }
        mix = next((scorer.category_mix for scorer in scorers if scorer.is_compared), {})
        notes += notes_on_humans(references, humans, used, mix, fit)
    readers: dict[str, dict[str, PredictionReader]] = {}
    for scorer in scorers:
        readers.setdefault(scorer.space.name, {})[scorer.model.name] = scorer.reader
    return Results(
        config=config,
        images=images,
        models=tuple(models),
        coverage=coverage,
        paired=tuple(paired_models(models)),
        warnings=tuple(notes),
        agreements=tuple(agreements(readers, run.entries, references, fit, progress)),
        run=_run_info(run),
        humans=humans,
        studies=() if references is None else studies_of(references),
    )


def _finish_models(
    run: EvaluationRun,
    started: Sequence[tuple[SpaceScorer, Iterator[ScoredCorruption]]],
    choice: BaselineChoice,
    step: Advance,
) -> list[ModelResults]:
    spaces: dict[str, dict[str, SpaceResults]] = {model.name: {} for model in run.task.models}
    human_errors: dict[str, dict[str, BaselineError]] = {}
    for scorer, scored in started:
        name = scorer.space.name
        spaces[scorer.model.name][name], errors = scorer.finish(scored, step)
        # Human errors depend on the samples only and are the same for all models.
        human_errors.setdefault(name, {}).update(errors)
    results = []
    for model in run.task.models:
        outputs = run.output_names(model)
        results.append(
            ModelResults(
                name=model.name,
                identity=model.identity,
                classes=model.classes or 0,
                category=category_of_model(model.name),
                # ImageNet's 1,000 names are not repeated in every results.json.
                outputs=() if outputs == class_names() else outputs,
                spaces=spaces[model.name],
                trained_on=model.trained_on,
                marked=met_in_training(run.entries, model.trained_on),
            )
        )
    return normalize(results, choice, run.task.plan, human_errors)


def _config(run: EvaluationRun, baseline: str) -> RunConfig:
    """Return the settings of the run in the form stored in results."""
    settings = run.settings
    compared = {field.name: getattr(settings, field.name) for field in fields(ComparisonSettings)}
    names = settings.human_names
    return RunConfig.from_plain(
        {
            **run.task.settings(),
            **compared,
            # one reference is a name, several are a list
            "humans": names if len(names) > 1 else next(iter(names), None),
            "similar": settings.similar_names,
            "baseline": baseline,
            "means_over": run.means_over,
            "fit": FitConfig.of(settings.fit, has_humans=bool(names)),
        }
    )


def _start_coverage(run: EvaluationRun) -> Iterator[tuple[str, CorruptionCoverage]]:
    """Start to compute the coverage of all corruptions; return their names and coverages."""
    names = [entry.name for entry in run.entries]
    coverages = map_on_threads(partial(_coverage_of, run), names, n_threads())
    return zip(names, coverages, strict=True)


def _coverage_of(run: EvaluationRun, corruption: str) -> CorruptionCoverage:
    columns = ["row", "image", "model", "corruption", "delta_v"]
    table = read_rows(run.folder, corruption, columns)
    # Δv is the same for all models: one of them is enough.
    samples = table.filter(pc.equal(table["model"], table["model"][0]))
    (covered,) = coverage_of(samples, fewest_in_covered(run.settings.fit.min_per_bin))
    return covered.of_corruption


def _with_left_out(run: EvaluationRun) -> PredictionTask:
    """Return the task, with unreadable images added to its list of damaged images."""
    more = left_out(run.folder)
    if not more:
        return run.task
    images = replace(run.task.images, damaged=(*run.task.images.damaged, *more))
    return replace(run.task, images=images)


def _run_info(run: EvaluationRun) -> RunInfo:
    """Return what depends on machine and moment; its time and energy are added at the end."""
    return RunInfo(
        versions=versions(),
        git=git_hash(),
        device=", ".join(run.device_titles),
        command="",
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        images=run.task.images.source,
    )


def _images_used(run: EvaluationRun, damaged: Sequence[Damaged]) -> ImagesUsed:
    images, used = run.task.images, run.used_images
    return ImagesUsed(
        source=source_name(images.source),
        digest=images.digest,
        n_images=len(images),
        used=len(used),
        stimulus=images.stimulus.name,
        damaged=tuple(DamagedImage(name=image.name, why=image.why) for image in damaged),
        digests={images.listed[index].name: images.digests[index] for index in used},
    )
