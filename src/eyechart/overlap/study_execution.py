"""Run an overlap study: create its folder, run its jobs on one or more devices, write results."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.queues import Queue
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from eyechart.core.arguments import resolved_path
from eyechart.core.devices import find_device
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import NO_PROGRESS, Progress, counted_to, no_advance
from eyechart.core.storage.parts import read_parquet
from eyechart.core.storage.run_folder import RECORD, Settings, open_run_folder, read_settings
from eyechart.core.storage.shards import POLL_SECONDS, Shard, work_off
from eyechart.corruptions.suites.suite import Suite
from eyechart.corruptions.suites.suite_file import write_suite
from eyechart.overlap.accuracy_table import FILE, AccuracyTable, write_accuracies
from eyechart.overlap.overlap_study import (
    MODELS,
    TESTS,
    OverlapStudy,
    Tester,
    Trainer,
    TrainingJob,
    data_to_train_on,
)
from eyechart.training.data import LabeledImages, TrainingSources, training_data
from eyechart.training.state import is_finished

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

SUITE, STUDY = "suite.yaml", "study"


def run_study(
    study: OverlapStudy,
    sources: TrainingSources,
    devices: Sequence[str],
    out: Path,
    progress: Progress,
    shard: Shard | None = None,
) -> AccuracyTable | None:
    """Run all trainings and tests that are missing in `out`, and return the accuracy table.

    Jobs are distributed over the devices, with one process on each. With a shard, only its networks
    are trained and tested; None is returned unless those of all other shards are done, too.
    """
    study.check()
    if shard is not None and len(devices) > 1:
        raise UsageError(
            f"A shard runs on one device, got {len(devices)}: start a shard for each device."
        )
    # Under torchrun every process would run the whole study.
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "An overlap study cannot run under torchrun: start it without torchrun, and pass "
            "--device cuda:0,cuda:1 to use several devices."
        )
    for name in devices:
        find_device(name)
    for folder in (sources.images, sources.train_images):
        if folder is not None and out.exists() and resolved_path(out) == resolved_path(folder):
            raise UsageError(f"{out} contains the images: choose another --out.")
    train_data, test_data = _load(study, sources, progress)
    trainer = Trainer(study, train_data, find_device(devices[0]), out)
    # Before the folder is created: a network that cannot be loaded leaves nothing behind.
    trainer.start(study.seeds[0])
    # From here on with the benchmarks that an earlier command added to the study.
    study = open_study(out, study, study.settings(train_data, test_data))
    trainer.study = study
    for job in study.jobs():
        # Before any training: a checkpoint may have a different configuration.
        if job.path(out).exists():
            is_finished(job.path(out), trainer.training(job).settings())
    if len(devices) == 1:
        _run_jobs(trainer, test_data, progress, shard)
    else:
        _share(trainer, test_data, devices, progress)
    tests = list(study.tests())
    if shard is None:
        for path in (path for test in tests for path in test.shard_paths(out)):
            # Their columns are in the files of the tests now.
            path.unlink(missing_ok=True)
    else:
        tester = Tester(study, test_data, trainer.device, out)
        if not all(tester.is_tested(test) for test in tests):
            return None
        # Write the tests of all models from those of all shards.
        for test in tests:
            tester(test, no_advance)
    return collect(study, out)


def _load(
    study: OverlapStudy, sources: TrainingSources, progress: Progress
) -> tuple[LabeledImages, LabeledImages]:
    train, test = sources.load(progress)
    train_data = data_to_train_on(study, train, test)
    test_data = training_data(test, train_data.class_names, min_per_class=1)
    if train_data.size != test_data.size:
        raise UsageError(
            f"Training images are {train_data.size[1]} × {train_data.size[0]} px, but test images"
            f" are {test_data.size[1]} × {test_data.size[0]} px: pass --stimulus 224, or another"
            " size."
        )
    return train_data, test_data


def open_study(out: Path, study: OverlapStudy, settings: Settings) -> OverlapStudy:
    """Create the folder of a study, or check that it contains the same study.

    The returned study also includes benchmarks that an earlier command added.
    """
    record = out / RECORD
    before = read_settings(record).get("together") if record.is_file() else None
    # Benchmarks may be added to a finished study, but are never dropped.
    known = before if isinstance(before, dict) else {}
    together = {name: tuple(members) for name, members in {**known, **study.together}.items()}
    open_run_folder(
        out,
        settings,
        work="study",
        folders=(MODELS, TESTS),
        files=(FILE,),
        growing={"together": together},
    )
    # The corruptions and their strengths as a suite, for selecting a benchmark later.
    entries = tuple(replace(entry, suite=STUDY) for entry in study.entries)
    title = "The corruptions of an overlap study"
    try:
        write_suite(Suite(STUDY, title, "eyechart overlap run", entries), out / SUITE)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror or error}.") from None
    return replace(study, together=together)


def _run_jobs(
    trainer: Trainer, test_data: LabeledImages, progress: Progress, shard: Shard | None = None
) -> None:
    """Run jobs that no other process has claimed, or a shard's; first trainings, then tests."""
    study, out = trainer.study, trainer.out
    tester = Tester(study, test_data, trainer.device, out, shard)
    images_per_training = study.recipe.length(len(trainer.data)).images
    n_networks = len(tester.jobs)
    title = f"training {count_of(n_networks, 'network')}"
    step = progress.begin(title, n_networks * images_per_training)

    def run_training(job: TrainingJob) -> None:
        with counted_to(images_per_training, step) as count:
            if not job.path(out).exists():
                trainer(job, count)

    work_off(study.jobs(), lambda job: job.path(out), run_training, shard)
    tests = list(study.tests())
    n_tests = n_networks * (1 + len(study.entries))
    step = progress.begin(f"{n_tests:,} tests", n_tests)
    if shard is None:
        work_off(tests, lambda test: test.path(out), lambda test: tester(test, step))
    else:
        # A shard tests its own networks, so that it need not wait for others.
        for test in tests:
            tester(test, step)


def _share(
    trainer: Trainer, test_data: LabeledImages, devices: Sequence[str], progress: Progress
) -> None:
    """Run one process per device, and report progress from the files that they write.

    Images in memory are shared between processes, not copied.
    """
    # CUDA cannot be used in forked processes.
    context = torch.multiprocessing.get_context("spawn")
    errors: Queue[str] = context.Queue()
    study, out = trainer.study, trainer.out
    workers: list[SpawnProcess] = [
        context.Process(target=_work, args=(study, trainer.data, test_data, name, out, errors))
        for name in devices
    ]
    for worker in workers:
        worker.start()
    paths = [
        *(job.path(out) for job in study.jobs()),
        *(test.path(out) for test in study.tests()),
    ]
    step = progress.begin(f"{len(paths):,} trainings and tests", len(paths))
    done = 0
    try:
        while any(worker.is_alive() for worker in workers):
            time.sleep(POLL_SECONDS)
            now = sum(path.exists() for path in paths)
            step(now - done, "")
            done = now
            if not errors.empty():
                raise UsageError(errors.get())
    finally:
        for worker in workers:
            # Time to finish and write the current job before it is terminated.
            worker.join(timeout=60)
            if worker.is_alive():
                worker.terminate()
    # A process may have failed after the queue was last checked.
    if not errors.empty():
        raise UsageError(errors.get())
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise UsageError(
            f"A process ended before its work was done ({missing[0].name} is missing): run the same"
            " command again to resume."
        )


def _work(
    study: OverlapStudy,
    train_data: LabeledImages,
    test_data: LabeledImages,
    device: str,
    out: Path,
    errors: "Queue[str]",
) -> None:
    try:
        _run_jobs(Trainer(study, train_data, find_device(device), out), test_data, NO_PROGRESS)
    except UsageError as error:
        errors.put(str(error))
    except KeyboardInterrupt:
        # Exit status of a process that was interrupted (128 + SIGINT).
        sys.exit(130)


def collect(study: OverlapStudy, out: Path) -> AccuracyTable:
    """Return the accuracies of a finished study, and write them to `accuracies.csv`."""
    shares = []
    for test in study.tests():
        hits = read_parquet(test.path(out))
        shares.append([hits[model].to_numpy().mean() for model in study.models])
    shape = (len(study.seeds), 1 + len(study.entries), len(study.models))
    # Tests come seed by seed, then test by test; in the table, models come before tests.
    values = np.array(shares).reshape(shape).swapaxes(1, 2)
    seeds = tuple(map(str, study.seeds)) if len(study.seeds) > 1 else ("",)
    table = AccuracyTable(study.names, study.models, values, seeds)
    write_accuracies(table, out / FILE)
    return table
