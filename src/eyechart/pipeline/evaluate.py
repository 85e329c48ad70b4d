"""`evaluate`: from models and images to R_a, R_p, HMRI and MRSI per corruption.

`ec.evaluate` takes the settings as keywords; the command line calls `run_evaluation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.core.arguments import as_flag
from eyechart.core.cost import Session, find_meters, kept_cost
from eyechart.core.devices import find_devices, image_device, keep_freed_memory
from eyechart.core.errors import CheckFailed, UsageError
from eyechart.core.options import takes_fields_of
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.storage.remote import TemporaryFolder, output_folder
from eyechart.corruptions.suites.assets import left_out_notes
from eyechart.corruptions.suites.published import TESTS, preset_line
from eyechart.images.imageset import ImageSet
from eyechart.images.stimulus import AUTO, with_window
from eyechart.models.defenses import apply_defenses, crop_of_crop_note, read_defenses
from eyechart.models.find import load_model
from eyechart.models.model import Model, ModelOrigin
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.fail_under import ScoreLimit, check_limits
from eyechart.pipeline.human_references import find_humans
from eyechart.pipeline.image_source import find_source
from eyechart.pipeline.model_check import check_matching
from eyechart.pipeline.prepare import (
    EvaluationInputs,
    check_baseline,
    check_labels,
    check_names,
    plan_task,
    prepare,
)
from eyechart.pipeline.run_plan import RunPlan, plan_run, with_pilot
from eyechart.pipeline.scoring.baseline import BaselineChoice, with_baseline
from eyechart.pipeline.scoring.score import score_predictions
from eyechart.pipeline.self_test import ModelWarning, self_test
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.pipeline.shard_folder import (
    INDEX_FILE,
    ModelRecord,
    ShardRecord,
    part_of,
    storable,
    write_shard,
)
from eyechart.predictions.engine import predict
from eyechart.predictions.recheck import Comparison, check, reject_changed
from eyechart.results.results_file import write_results
from eyechart.results.schema import Results
from eyechart.testsets.testset import read_testset

if TYPE_CHECKING:
    from eyechart.models.defenses import Defense
    from eyechart.pipeline.settings import OneModel


@dataclass(frozen=True)
class Finished:
    """A finished evaluation.

    Attributes:
        results: Results of the run.
        comparison: Comparison of regenerated samples; None unless `check` is set.
        limits: Scores that `fail_under` requires.
    """

    results: Results
    comparison: Comparison | None
    limits: Sequence[ScoreLimit]

    def reached_limits(self) -> list[str]:
        """Return one sentence for each model and score of `fail_under` that is reached."""
        return [sentence for is_reached, sentence in self._checked_limits if is_reached]

    def failed_checks(self) -> list[str]:
        """Return one sentence for each failure of `check` and `fail_under`.

        Raises:
            UsageError: If a model lacks a score that `fail_under` names.
        """
        failed = [sentence for is_reached, sentence in self._checked_limits if not is_reached]
        if self.comparison is not None and not self.comparison.passed:
            failed = [self.comparison.sentence(), *failed]
        return failed

    @property
    def _checked_limits(self) -> list[tuple[bool, str]]:
        return check_limits(self.results, self.limits)


class PlanOnly(Exception):
    """Raised to end a run after planning, for `--dry-run`."""


@takes_fields_of(EvaluateSettings)
def evaluate(settings: EvaluateSettings) -> Results:
    """Evaluate models under every corruption of a suite: R_a, R_p, and HMRI and MRSI vs. humans.

    Every argument is also an option of `eyechart evaluate` with the same default, except `out`.

    With `out`, the folder has the files of the command too, and `ec.load` reads them.

    Returns:
        Scores with intervals by model and corruption.

    Raises:
        UsageError: If an argument is invalid.
        CheckFailed: If `check` or `fail_under` fails; its attribute `results` has the results.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from PIL import Image
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for index in range(2):
        ...         noise = np.random.default_rng(index).random((80, 80, 3))
        ...         pixels = (255 * noise).astype(np.uint8)
        ...         Image.fromarray(pixels).save(Path(folder, f"{index}.png"))
        ...     results = ec.evaluate(
        ...         mean_color, folder, n=40, corruptions=["gaussian_blur"], labels="none",
        ...         stimulus="native", bins=4, min_per_bin=2, n_bootstrap=10,
        ...     )
        >>> 0 <= float(results["mean_color"]["gaussian_blur"].r_p) <= 1
        True
    """
    if as_flag(settings.dry_run, "dry_run"):
        raise UsageError("dry_run prints a plan: use eyechart evaluate --dry-run.")
    if settings.shard is not None:
        raise UsageError("shard computes a part of a run: use eyechart evaluate --shard.")
    if settings.out is None:
        finished = run_evaluation(settings)
    else:
        with output_folder(settings.out) as out:
            finished = run_evaluation(replace(settings, out=out.path))
            write_results(finished.results, out.path)
        if out.temporary is not None:
            # Results of a folder at a URL refer to its local copy.
            finished = replace(finished, results=finished.results.with_temporary(out.temporary))
    failed = finished.failed_checks()
    if failed:
        raise CheckFailed(" ".join(failed), finished.results)
    return finished.results


def run_evaluation(settings: EvaluateSettings, progress: Progress = NO_PROGRESS) -> Finished:
    """Run an evaluation: load models and images, predict, score and check."""
    with Session() as session:
        return _evaluate(settings, session, progress)


def _evaluate(settings: EvaluateSettings, session: Session, progress: Progress) -> Finished:
    settings, inputs, defenses = _load(settings, session, progress)
    # Predictions always go through files: a call without `out` uses a temporary folder, which the
    # results keep.
    temporary = TemporaryFolder() if settings.out is None else None
    out = Path(settings.out or "") if temporary is None else temporary.path
    try:
        results, run = _run(settings, inputs, out, session, progress)
        comparison = _checked(run, session) if settings.check else None
    except BaseException:
        # An interactive interpreter keeps the last error, and with it all that it refers to.
        if temporary is not None:
            temporary.delete()
        raise
    results = with_notes(results, settings, defenses, inputs.images)
    results = _with_cost(results, settings, out, session)
    if temporary is None:
        kept = results.kept_in(out)
    else:
        # Results without a folder refer to no files.
        kept = results.model_copy(update={"examples": ()}).with_temporary(temporary)
    return Finished(kept, comparison, settings.score_limits)


def _checked(run: EvaluationRun, session: Session) -> Comparison:
    with session.stage("check"):
        return check(run.task, run.folder)


def run_shard(settings: EvaluateSettings, progress: Progress = NO_PROGRESS) -> ShardRecord:
    """Predict one shard of an evaluation, and return its record, which `merge` reads."""
    assert settings.shard is not None and settings.out is not None, "a shard has a folder"
    with Session() as session:
        settings, inputs, defenses = _load(settings, session, progress)
        run, warnings = _predict(settings, inputs, Path(settings.out or ""), session, progress)
        comparison = _checked(run, session) if settings.check else None
    if comparison is not None and not comparison.passed:
        raise CheckFailed(comparison.sentence(), None)
    record = ShardRecord(
        shard=str(settings.shard),
        working_folder=str(Path.cwd()),
        settings=storable(run.settings),
        images=None if settings.images is None else str(settings.images),
        baseline=run.settings.baseline_name,
        defenses=tuple(map(str, defenses)),
        models=tuple(map(ModelRecord.of, inputs.models)),
        devices=run.device_titles,
        warnings=tuple(warning.sentence for warning in warnings),
        n_samples=run.task.n_samples,
    )
    write_shard(run.folder.parent, record)
    return record


def _load(
    settings: EvaluateSettings, session: Session, progress: Progress
) -> tuple[EvaluateSettings, EvaluationInputs, "Sequence[Defense]"]:
    """Return the checked settings, the loaded models and images, and the defenses."""
    # Resolved before models are loaded: a wrong path should fail at once.
    source = find_source(
        settings.images,
        with_window(settings.stimulus, settings.window),
        settings.clean,
        settings.out,
        download=settings.download,
    )
    settings = source.settings(settings).checked()
    # Called for its checks: an invalid reference should fail before models are loaded and tested.
    find_humans(settings)
    source = replace(source, stimulus=stimulus_of(settings))
    # The first device also loads and checks the models here.
    devices = find_devices(settings.device)
    device = devices[0]
    settings = replace(settings, label_maps=settings.loaded_maps)
    defenses = read_defenses(settings.defenses)

    loaded = [model.device for model in settings.models if isinstance(model, Model)]
    session.measure(*find_meters([*devices, *loaded], settings.watts))
    load = partial(load_requested, settings=settings)
    with session.stage("loading"):
        # Defenses apply to the evaluated models only, not to a baseline.
        models, baseline = with_baseline(
            [apply_defenses(load(model), defenses) for model in settings.models],
            settings.baseline,
            load,
        )
        settings = replace(settings, baseline=baseline)
        index = None if settings.shard is None else Path(settings.out or "") / INDEX_FILE
        images = source.load(settings.plan, progress, index)
    if not images.has_large:
        # Kept blocks of large images would leave gaps as large as the images.
        keep_freed_memory()
    return settings, EvaluationInputs(models, images, image_device(device)), defenses


def with_notes(
    results: Results, settings: EvaluateSettings, defenses: "Sequence[Defense]", images: ImageSet
) -> Results:
    """Return the results with notes on corruptions that are left out, and on defenses."""
    notes = (*left_out_notes(settings.plan.left_out()), *results.warnings)
    more = crop_of_crop_note(defenses, images.sizes)
    return results.model_copy(update={"warnings": (*notes, more) if more else notes})


def load_requested(model: "OneModel", settings: EvaluateSettings) -> Model:
    """Return the model; load it with these settings if it is not loaded yet."""
    if isinstance(model, Model):
        return model
    load = partial(
        load_model,
        model,
        trust=settings.trust,
        download=settings.download,
        label_maps=settings.loaded_maps,
    )
    loaded = load(find_devices(settings.device)[0])
    # Anything but a name may have been changed since it was made, so that it is copied.
    if isinstance(model, str):
        loaded.origin = ModelOrigin(load, loaded.identity)
    return loaded


def stimulus_of(settings: EvaluateSettings) -> str:
    """Return the requested stimulus, or by default the stimulus of a given test set."""
    if settings.stimulus == AUTO and settings.testset is not None:
        recorded = read_testset(settings.testset).header.stimulus
        # The test set was sampled with its window, which need not be given again.
        return with_window(recorded, settings.window)
    return with_window(settings.stimulus, settings.window)


def predict_and_score(
    settings: EvaluateSettings, inputs: EvaluationInputs, out: Path, progress: Progress
) -> Results:
    """Compute the predictions that `out` lacks, and return the results of all predictions."""
    # These models were trained with the labels of these images, possibly without success.
    settings = replace(settings, accept_labels=True)
    with Session() as session:
        devices = [inputs.device, *(model.device for model in inputs.models)]
        session.measure(*find_meters(devices, settings.watts))
        results, _ = _run(settings, inputs, out, session, progress)
        return _with_cost(results, settings, out, session)


def _with_cost(
    results: Results, settings: EvaluateSettings, out: Path, session: Session
) -> Results:
    """Return the results with time and energy of this session and all earlier ones of the run."""
    session.write()
    return results.with_cost(kept_cost(out), settings.carbon_intensity)


def _run(
    settings: EvaluateSettings,
    inputs: EvaluationInputs,
    out: Path,
    session: Session,
    progress: Progress,
) -> tuple[Results, EvaluationRun]:
    run, warnings = _predict(settings, inputs, out, session, progress)
    sentences = [warning.sentence for warning in warnings]
    return score_predictions(run, sentences, out, session, progress), run


def _predict(
    settings: EvaluateSettings,
    inputs: EvaluationInputs,
    out: Path,
    session: Session,
    progress: Progress,
) -> tuple[EvaluationRun, list[ModelWarning]]:
    """Compute the predictions that `out` lacks; return the run, and what the self-test found."""
    # Doubtful models are reported before anything that takes long.
    check_names(inputs.models)
    with session.stage("self-test"):
        warnings = self_test(inputs.models, inputs.images, progress, settings.strict)
    with session.stage("plan"):
        settings, run_plan = plan_run(settings, inputs, out)
        plan = plan_task(settings, inputs).plan
        check_labels(plan, inputs.models, inputs.images)
        # Before the plan is shown, so that an error is the only output.
        choice = check_baseline(settings, plan, inputs)
        lines = _plan_lines(settings, run_plan, choice)
        is_accepted = settings.accept_labels or settings.dry_run
        lines += check_matching(inputs.models, inputs.images, plan.labels, is_accepted)
    if settings.dry_run:
        _show(lines, progress)
        raise PlanOnly
    with session.stage("sampling"):
        # The plan is shown after the checks of `prepare`, so that an error is the only output.
        run = prepare(settings, inputs, out)
        # Only now is the folder known to belong to this run.
        session.keep_in(run.folder.parent)
        _show(lines, progress)
        if run_plan is not None:
            run = with_pilot(run, run_plan, out, progress)
    if settings.shard is not None:
        run = replace(run, task=part_of(run.task, settings.shard))
        # Small datasets may have no image in a shard.
        if not run.task.groups:
            return run, warnings
    # An unstable model cannot be compared with its recorded predictions.
    unstable = {warning.model for warning in warnings if warning.is_unstable}
    stable = [model for model in inputs.models if model.name not in unstable]
    uncertain = [model for model in stable if model.is_code or not model.identity]
    with session.stage("predictions"):
        reject_changed(run.task, run.folder, uncertain)
        step = progress.begin("predictions", run.task.n_samples)
        predict(run.task, run.folder, step, settings)
    return run, warnings


def _plan_lines(
    settings: EvaluateSettings, run_plan: RunPlan | None, choice: BaselineChoice
) -> list[str]:
    """Return the plan in words: what is computed, what CE is computed against, and the preset."""
    if run_plan is None:
        # A given test set, or corrupted images in files.
        lines = [f"Plan: {choice.title}."] if choice.title else []
    else:
        lines = run_plan.sentences(choice.title)
    if settings.preset is not None:
        n_corruptions = len(settings.plan.entries())
        lines.append(preset_line(settings.preset, TESTS, vars(settings), n_corruptions))
    return lines


def _show(lines: Sequence[str], progress: Progress) -> None:
    if lines:
        progress.begin("plan", 1)(1, "\n".join(lines))
