"""The one loop: corrupt, measure visual change and predict from the same tensor, record.

Pictures come in chunks, so that the clean side is made once; rows of a chunk and a corruption come
in batches, and every batch is on disk before the next but one is begun.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.locks import lock_folder
from eyechart.core.parts import Parts
from eyechart.core.progress import Advance
from eyechart.core.version import __version__
from eyechart.images.imageset import ImageSet
from eyechart.models.model import Model, is_out_of_memory
from eyechart.predictions.destroyed import (
    DESTROYED,
    DESTROYED_ROWS,
    predict_destroyed,
    too_large,
)
from eyechart.predictions.record import VERSION as RECORD_VERSION
from eyechart.predictions.record import Answers, answers_of, to_table
from eyechart.predictions.unreadable import UNREADABLE, LeftOut
from eyechart.testsets.manifest import VERSION
from eyechart.testsets.manifest import to_table as rows_table
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples
from eyechart.testsets.stimuli import CleanImages, LoadedSamples, iterate_samples

BATCH = {"cpu": 32, "cuda": 512}
"""How many pictures are predicted at once, unless told otherwise."""


@dataclass(frozen=True, eq=False)
class PredictionTask:
    """What is to be predicted: the rows of a test set, by which models, and where.

    `testset`: a digest of rows that were given, "" for those that follow from the plan.
    """

    images: ImageSet
    plan: Plan
    groups: Sequence[Samples]
    models: Sequence[Model]
    device: torch.device
    batch: int | None = None
    testset: str = ""

    def settings(self) -> dict[str, Any]:
        """Return all that decides the predictions, as plain values."""
        return {
            "schema": VERSION,
            "record": RECORD_VERSION,
            "eyechart": __version__,
            "stimulus": self.images.stimulus.name,
            **self._about_files(),
            **self.plan.settings(),
            "images": self.images.fingerprint,
            "models": {m.name: f"{m.identity} {m.dtype}".strip() for m in self.models},
            "testset": self.testset,
        }

    def _about_files(self) -> dict[str, Any]:
        """Return what decides predictions from files besides: how clean pictures came to size."""
        if self.images.files is None:
            return {}
        how = self.images.stimulus
        size = "native" if how.size is None else "x".join(map(str, how.size))
        return {"clean": (how.crop or size) if self.images.has_clean else None}


@dataclass(frozen=True, eq=False)
class Batch:
    """Results of one batch on their way from the device to the disk."""

    samples: Samples
    delta_v: Tensor
    pixels: Tensor
    scales: int
    answers: tuple[Answers, ...]
    ready: Callable[[], None]


def predict(job: PredictionTask, folder: Path, step: Advance) -> None:
    """Predict every row that is not yet in `folder`; `step` is told of each when it is on disk.

    Out of memory halves the batch from there on. An interrupt loses nothing that was computed.
    """
    with lock_folder(folder):
        parts = parts_of(job, folder)
        for note in parts.notes():
            step(0, note)
        _predict(job, parts, step)


def parts_of(job: PredictionTask, folder: Path) -> Parts:
    """Return the predictions of a job in a folder; Parquet files of other names are strays."""
    return Parts(folder, [*(samples.name for samples in job.groups), DESTROYED, UNREADABLE])


def _predict(job: PredictionTask, parts: Parts, step: Advance) -> None:
    # what could not be read may have been mended
    parts.drop(UNREADABLE)
    done = parts.done()
    left = [samples.take(np.flatnonzero(~np.isin(samples.row, done))) for samples in job.groups]
    step(sum(map(len, job.groups)) - sum(map(len, left)), "")
    left = [samples for samples in left if len(samples)]
    if not np.isin(DESTROYED_ROWS, done).all():
        parts.write(DESTROYED, predict_destroyed(job.images, job.plan, job.models, job.device))
    if left:
        with ThreadPoolExecutor(1, "eyechart-write") as writer:
            _Loop(job, parts, writer, step).run(left)
    parts.merge()


class _Loop:
    """The loop's state: its batch size, what is on its way, and where it goes."""

    def __init__(
        self, job: PredictionTask, parts: Parts, writer: ThreadPoolExecutor, step: Advance
    ) -> None:
        self.job, self.parts, self.writer, self.step = job, parts, writer, step
        self.size = job.batch or BATCH.get(job.device.type, BATCH["cpu"])
        self.left_out = LeftOut(job.images, parts)
        self.computed: Batch | None = None
        self.written: Future[int] | None = None

    def run(self, groups: Sequence[Samples]) -> None:
        try:
            for work in iterate_samples(self.job.images, groups, self.job.plan, self.job.device):
                self.step(self.left_out.add(work), "")
                self._work(work)
        finally:
            # also when interrupted: what was computed is kept
            self._write()
            self._wait()

    def _work(self, work: LoadedSamples) -> None:
        samples, start = work.samples, 0
        while start < len(samples):
            # at most one batch that was computed is not on disk
            self._wait()
            # batches of equal size rather than a small one at the end
            rest = len(samples) - start
            size = -(-rest // -(-rest // self.size))
            part = samples.take(np.arange(start, start + size))
            read = None if work.read is None else work.read[start : start + size]
            try:
                batch = compute(self.job, work.chunk, part, read)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(part) == 1:
                    raise too_large(self.job.images.sizes[int(part.image[0])]) from None
                self.size = max(1, len(part) // 2)
                self.step(0, f"Out of memory: going on with batches of {self.size}.")
                torch.cuda.empty_cache()
                continue
            # the batch before goes to disk while the device works on this one
            self._write()
            self.computed = batch
            start += len(part)
            if self.job.device.type == "cpu":
                self._write()

    def _write(self) -> None:
        self._wait()
        if self.computed is not None:
            batch, self.computed = self.computed, None
            self.written = self.writer.submit(self._store, batch)

    def _wait(self) -> None:
        if self.written is not None:
            written, self.written = self.written, None
            self.step(written.result(), "")

    def _store(self, batch: Batch) -> int:
        self.parts.write(batch.samples.name, table_of(self.job, batch))
        return len(batch.samples)


def compute(
    job: PredictionTask, chunk: CleanImages, samples: Samples, read: Tensor | None = None
) -> Batch:
    """Make the pictures of some rows, if they were not read, measure them, and have answers."""
    made = chunk.make(samples, read)
    answers = tuple(answers_of(model(made.pictures, wait=False)) for model in job.models)
    own = [made.delta_v, made.pixels, *(each.numbers for each in answers)]
    home, ready = _bring_home(own)
    kinds = (each.has_categories for each in answers)
    back = tuple(Answers(*pair) for pair in zip(home[2:], kinds, strict=True))
    return Batch(samples, home[0], home[1], made.scales, back, ready)


def table_of(job: PredictionTask, batch: Batch) -> pa.Table:
    """Return the rows of a batch with the answers of all models."""
    batch.ready()
    for model, answers in zip(job.models, batch.answers, strict=True):
        if not bool(answers.numbers[:, 1].isfinite().all()):
            raise model.refuse()
    rows = rows_table(
        job.images,
        job.plan,
        batch.samples,
        batch.delta_v.numpy(),
        batch.pixels.numpy(),
        batch.scales,
    )
    tables = [
        to_table(rows, model.name, answers)
        for model, answers in zip(job.models, batch.answers, strict=True)
    ]
    return pa.concat_tables(tables)


def _bring_home(tensors: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
    """Return copies on the CPU, and a function that waits until they hold what they should."""
    if tensors[0].device.type == "cpu":
        return list(tensors), lambda: None
    home = [torch.empty(each.shape, dtype=each.dtype, pin_memory=True) for each in tensors]
    for target, source in zip(home, tensors, strict=True):
        target.copy_(source, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return home, event.synchronize
