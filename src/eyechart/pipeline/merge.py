"""`merge`: from the predictions of all shards of a run to its results."""

import os
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from eyechart.core.arguments import as_folder, resolved_path
from eyechart.core.arrays import IntArray
from eyechart.core.cost import Session, find_meters, kept_cost, total_cost
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import NO_PROGRESS, Progress
from eyechart.core.storage.locks import lock_folder
from eyechart.core.storage.parts import PartFiles, file_name, write_parquet
from eyechart.core.storage.run_folder import RECORD, first_change, read_settings
from eyechart.core.storage.shards import Shard
from eyechart.models.defenses import read_defenses
from eyechart.pipeline.evaluate import Finished, stimulus_of, with_notes
from eyechart.pipeline.evaluation_run import EvaluationRun
from eyechart.pipeline.image_source import find_source
from eyechart.pipeline.prepare import EvaluationInputs, plan_task, with_samples
from eyechart.pipeline.run_plan import read_plan
from eyechart.pipeline.scoring.score import score_predictions
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.pipeline.shard_folder import (
    INDEX_FILE,
    SHARDS_FOLDER,
    ShardRecord,
    part_of,
    read_shards,
)
from eyechart.predictions.batches import BLANK
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import UNREADABLE, left_out, reject_unless_few
from eyechart.results.results_file import write_results
from eyechart.results.schema import PREDICTIONS_FOLDER, Results
from eyechart.testsets.pilot import with_strengths


def merge(out: str | os.PathLike[str]) -> Results:
    """Score a run whose shards are finished, and write its results, like `eyechart merge`.

    Args:
        out: Folder in which `eyechart evaluate --shard` wrote the shards.

    Returns:
        The results, which equal those of the same run in one process, except for the block `run`.

    Raises:
        UsageError: If a shard is missing, unfinished, present twice or from another run.

    Example:
        >>> import eyechart as ec
        >>> try:
        ...     ec.merge("no-such-folder")
        ... except ec.UsageError as error:
        ...     print(error)
        No such folder: no-such-folder.
    """
    folder = as_folder(out, "out")
    finished = merge_shards(folder)
    write_results(finished.results, folder)
    return finished.results


def merge_shards(out: Path, progress: Progress = NO_PROGRESS) -> Finished:
    """Merge the predictions of all shards into one folder, and return the results of the run."""
    with Session() as session:
        session.measure(*find_meters([torch.device("cpu")]))
        return _merge(out, session, progress)


def _merge(out: Path, session: Session, progress: Progress) -> Finished:
    records = read_shards(out)
    # Settings of the shards are read in the folder in which they were typed.
    out = resolved_path(out)
    _check_same_run(out, records)
    first = next(iter(records.values()))
    with _in_folder(Path(first.working_folder)):
        with session.stage("merge"):
            run = _merge_predictions(out, records, progress)
        session.keep_in(out)
        settings, task = run.settings, run.task
        warnings = list(
            dict.fromkeys(warning for record in records.values() for warning in record.warnings)
        )
        results = score_predictions(run, warnings, out, session, progress)
        results = with_notes(results, settings, read_defenses(first.defenses), task.images)
    session.write()
    folders = [*(_shard_folder(out, shard) for shard in records), out]
    cost = total_cost(map(kept_cost, folders))
    devices = dict.fromkeys(title for record in records.values() for title in record.devices)
    results = results.with_cost(cost, settings.carbon_intensity).with_device(", ".join(devices))
    return Finished(results.kept_in(out), None, settings.score_limits)


def _merge_predictions(
    out: Path, records: Mapping[Shard, ShardRecord], progress: Progress
) -> EvaluationRun:
    """Write the predictions of all shards to one folder, and return their run."""
    first = next(iter(records.values()))
    settings = _settings_of(first, out)
    task = _task_of(settings, first, out, progress)
    change = first_change(read_settings(out / RECORD), task.settings())
    if change is not None:
        raise UsageError(
            f"{out} is from another state of the data or of eyechart ({change}): evaluate again"
            " into another folder."
        )
    step = progress.begin("merge", len(task.names))
    folder = out / PREDICTIONS_FOLDER
    with lock_folder(folder):
        for name in task.names:
            folders = {shard: _predictions(out, shard) for shard in records}
            _merge_table(name, task, folders, folder)
            step(1, "")
    reject_unless_few(left_out(folder), task.images)
    return EvaluationRun(settings, task, folder)


def _check_same_run(out: Path, records: Mapping[Shard, ShardRecord]) -> None:
    """Raise a UsageError if a shard is from another run, or differs in what determines scores."""
    whole = read_settings(out / RECORD)
    first = next(iter(records.values()))
    for shard, record in records.items():
        folder = _shard_folder(out, shard)
        change = first_change(read_settings(folder / RECORD), whole) or first_change(
            first.settings, record.settings
        )
        if change is not None:
            raise UsageError(
                f"{folder} is from another run ({change}): delete it, and run the same command as"
                f" for the other shards with --shard {shard}."
            )


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Work in the folder in which the shards were started, if this machine has it.

    Settings contain paths as they were typed, which are also in the results.
    """
    if not folder.is_dir():
        yield
        return
    with chdir(folder):
        yield


def _settings_of(record: ShardRecord, out: Path) -> EvaluateSettings:
    stored: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.settings.items()
    }
    return EvaluateSettings(
        **stored,
        images=None if record.images is None else Path(record.images),
        baseline=record.baseline,
        defenses=record.defenses,
        out=out,
    )


def _task_of(
    settings: EvaluateSettings, record: ShardRecord, out: Path, progress: Progress
) -> PredictionTask:
    """Return what all shards together have predicted."""
    source = find_source(settings.images, stimulus_of(settings), settings.clean, out)
    images = source.load(settings.plan, progress, out / INDEX_FILE)
    models = [model.model() for model in record.models]
    inputs = EvaluationInputs(models, images, torch.device("cpu"))
    task = with_samples(plan_task(settings, inputs))
    plan = read_plan(out)
    if plan is None:
        return task
    return replace(task, groups=with_strengths(images, task.groups, task.plan, plan.maps))


def _shard_folder(out: Path, shard: Shard) -> Path:
    return out / SHARDS_FOLDER / shard.folder


def _predictions(out: Path, shard: Shard) -> Path:
    return _shard_folder(out, shard) / PREDICTIONS_FOLDER


def _merge_table(
    name: str, task: PredictionTask, folders: Mapping[Shard, Path], target: Path
) -> None:
    """Write the rows of one corruption of all shards to one file.

    Raises:
        UsageError: If a row is missing, twice, or in a shard to which its image does not belong.
    """
    tables = []
    for shard, folder in folders.items():
        parts = PartFiles(folder)
        has_rows = file_name(name) in parts.names()
        if has_rows:
            table = parts.read(name)
            tables.append(table)
        if name not in (BLANK, UNREADABLE):
            rows = table["row"].to_numpy() if has_rows else np.empty(0, dtype=np.int64)
            _check_rows(name, part_of(task, shard), shard, rows, folder)
        elif name == BLANK and tables:
            # Every shard predicts the few images without content.
            break
    if tables:
        write_parquet(
            pa.concat_tables(tables).sort_by("row"), target / f"{file_name(name)}.parquet"
        )


def _check_rows(
    name: str, task: PredictionTask, shard: Shard, rows: IntArray, folder: Path
) -> None:
    expected = [samples.row for samples in task.groups if samples.name == name]
    wanted = expected[0] if expected else np.empty(0, dtype=np.int64)
    unreadable = np.empty(0, dtype=np.int64)
    if UNREADABLE in PartFiles(folder).names():
        unreadable = PartFiles(folder).read(UNREADABLE, ["row"])["row"].to_numpy()
    found, counts = np.unique(rows, return_counts=True)
    missing = np.setdiff1d(wanted, np.union1d(found, unreadable))
    if len(missing):
        raise UsageError(
            f"Shard {shard} lacks {count_of(len(missing), 'sample')} of {name}: run the same"
            f" command with --shard {shard} to resume."
        )
    if len(np.setdiff1d(found, wanted)) or (counts != len(task.models)).any():
        raise UsageError(
            f"{folder} contains samples of {name} twice or of another shard: delete"
            f" {folder.parent}, and run the same command with --shard {shard}."
        )
