"""The prediction loop: corrupt, measure visual change and predict on the same tensor, and record.

A work item is a set of samples, given by their row numbers; items are independent of each other. An
engine determines which process runs which item.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.arrays import IntArray
from eyechart.core.devices import in_stream, stream_beside
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.progress import Advance
from eyechart.core.version import __version__
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import NONE
from eyechart.images.labels.matching import native_labels
from eyechart.models.model import Model
from eyechart.predictions.batches import (
    BLANK,
    BLANK_ROWS,
    RANK,
    RECORD_VERSION,
    BatchRecord,
    BatchSize,
    PredictedBatch,
    StimulusSource,
    predict_batches,
    predict_blank_images,
    predictions_table,
    record_scores,
)
from eyechart.predictions.reading import UNREADABLE, LeftOut
from eyechart.testsets.manifest_rows import VERSION, samples_table
from eyechart.testsets.plan import Plan
from eyechart.testsets.samples import Samples
from eyechart.testsets.stimuli import (
    CorruptedImages,
    LoadedSamples,
    group_by_size,
    iterate_samples,
)
from eyechart.visual_change.registry import find_ruler

# Halved automatically when memory runs out.
BATCH = {"cpu": 32, "cuda": 512}
"""Default batch size for each device type."""


_Measured = tuple[Samples, CorruptedImages]
"""The samples of a batch, with their images and visual change."""

WorkItem = IntArray
"""Row numbers of some samples of a test set; images without content have `BLANK_ROWS`."""

Write = Callable[[str, pa.Table], None]
"""A function that stores rows under the name of their corruption: in part files, or in memory."""


@dataclass(frozen=True, eq=False)
class PredictionTask:
    """What to predict: the samples of a test set, the models and the device.

    `groups`: the samples of each corruption. `testset`: a digest of the samples if they were given,
    "" if they follow from the plan.
    """

    images: ImageSet
    plan: Plan
    groups: Sequence[Samples]
    models: Sequence[Model]
    device: torch.device
    batch_size: int | None = None
    testset: str = ""

    def settings(self) -> dict[str, object]:
        """Return everything that determines the predictions, as plain values."""
        return {
            "schema": VERSION,
            "record": RECORD_VERSION,
            "eyechart": __version__,
            "ruler_version": find_ruler(self.plan.ruler).version,
            "stimulus": self.images.stimulus.name,
            "clean": self._size_of_clean(),
            **self.plan.settings(),
            "images": self.images.fingerprint,
            "models": {m.name: f"{m.identity} {m.dtype}".strip() for m in self.models},
            "testset": self.testset,
        }

    def _size_of_clean(self) -> int | str | None:
        """Return how clean images were resized; "" unless corrupted images come from files."""
        if self.images.files is None:
            return ""
        if not self.images.has_clean:
            return None
        how = self.images.stimulus
        return how.crop or ("native" if how.size is None else "x".join(map(str, how.size)))

    @property
    def names(self) -> list[str]:
        """The names under which predictions are stored."""
        return [*(samples.name for samples in self.groups), BLANK, UNREADABLE]

    @property
    def first_batch_size(self) -> BatchSize:
        """The batch size until memory runs out."""
        return BatchSize(self.batch_size or BATCH.get(self.device.type, BATCH["cpu"]))

    @property
    def n_samples(self) -> int:
        """The number of samples over all corruptions."""
        return sum(map(len, self.groups))

    def items(self, done: IntArray) -> list[WorkItem]:
        """Return the remaining work items; `done`: row numbers of samples that have predictions.

        Samples of the same images stay together, so that each image is read and analyzed once.
        """
        left = [
            samples.select(np.flatnonzero(~np.isin(samples.row, done))) for samples in self.groups
        ]
        rows = np.concatenate([samples.row for samples in left])
        image = np.concatenate([samples.image for samples in left])
        # Blocks of all images of the task, not of those that are left: a resumed run has the same
        # blocks, and so the same batches.
        used = np.unique(np.concatenate([samples.image for samples in self.groups]))
        block = np.empty(len(self.images), dtype=np.int64)
        for number, indices in enumerate(group_by_size(self.images, used, self.device)):
            block[indices] = number
        # A stable sort keeps the order of samples within a block, so that items do not vary.
        order = np.argsort(block[image], kind="stable")
        starts = np.flatnonzero(np.diff(block[image][order])) + 1
        items = [part for part in np.split(rows[order], starts) if len(part)]
        if not np.isin(BLANK_ROWS, done).all():
            items.insert(0, BLANK_ROWS)
        return items

    def samples(self, items: Sequence[WorkItem]) -> list[list[Samples]]:
        """Return each work item's samples by corruption; images without content have none."""
        rows = np.concatenate(items)
        numbers = np.repeat(np.arange(len(items)), [len(item) for item in items])
        order = np.argsort(rows)
        rows, numbers = rows[order], numbers[order]
        samples_of_items: list[list[Samples]] = [[] for _ in items]
        # Sorted once for all items: searching all samples for each item's rows takes seconds.
        for samples in self.groups:
            # searchsorted gives len(rows) for rows beyond the last one.
            nearest = np.minimum(np.searchsorted(rows, samples.row), len(rows) - 1)
            number = np.where(rows[nearest] == samples.row, numbers[nearest], -1)
            # Samples of no item have −1 and come before those of the first item.
            by_item = np.argsort(number, kind="stable")
            starts = np.searchsorted(number[by_item], np.arange(len(items) + 1))
            for item_samples, start, stop in zip(
                samples_of_items, starts[:-1], starts[1:], strict=True
            ):
                if stop > start:
                    item_samples.append(samples.select(by_item[start:stop]))
        return samples_of_items


def predict_items(
    task: PredictionTask,
    items: Sequence[WorkItem],
    write: Write,
    advance: Advance,
    batch_size: BatchSize | None = None,
) -> None:
    """Predict the samples of work items, in this process.

    After an interrupt, everything that was computed is kept.

    Args:
        task: What to predict.
        items: The work items.
        write: Stores predictions.
        advance: Called for each sample when it is stored.
        batch_size: The task's, by default. Halved when memory runs out; a worker that runs items
            one by one passes the same object every time, so that this happens once.
    """
    if not items:
        return
    if np.isin(BLANK_ROWS, np.concatenate(items)).any():
        table = predict_blank_images(task.images, task.plan, task.models, task.device)
        write(BLANK, table)
    groups = [samples for samples in task.samples(items) if samples]
    if groups:
        with ThreadPoolExecutor(1, "eyechart-write") as writer:
            _Loop(task, write, writer, advance, batch_size).run(groups)


@dataclass(frozen=True, eq=False)
class _ComputedBatch:
    """Results of one batch that are being copied from the device to the CPU."""

    samples: Samples
    delta_v: Tensor
    pixels: Tensor
    scales: int
    records: tuple[BatchRecord, ...]
    ready: Callable[[], None]


class _Loop:
    """The state of the loop: batch size, results in flight, and where they are written."""

    def __init__(
        self,
        task: PredictionTask,
        write: Write,
        writer: ThreadPoolExecutor,
        advance: Advance,
        batch_size: BatchSize | None,
    ) -> None:
        self.task, self.write = task, write
        self.writer, self.advance = writer, advance
        self.batch_size = batch_size or task.first_batch_size
        self.left_out = LeftOut(task.images)
        self.labels: dict[str, Tensor] = {}
        self.beside = _stream_beside(task.device)
        self.computed: _ComputedBatch | None = None
        self.written: Future[tuple[int, str]] | None = None

    def run(self, items: Sequence[Sequence[Samples]]) -> None:
        task = self.task
        coming = iterate_samples(task.images, items, task.plan, task.device)
        try:
            while (loaded := self._next(coming)) is not None:
                self._leave_out(loaded)
                self._predict(loaded)
        finally:
            # Everything that was computed is stored, even after an interrupt.
            self._write()
            self._wait()

    def _next(self, coming: Iterator[LoadedSamples]) -> LoadedSamples | None:
        with in_stream(self.beside):
            return next(coming, None)

    def _leave_out(self, loaded: LoadedSamples) -> None:
        n_unreadable = len(loaded.unreadable)
        if n_unreadable:
            self.write(UNREADABLE, self.left_out.table(loaded))
            self.left_out.check()
            self.advance(n_unreadable, "")

    def _predict(self, loaded: LoadedSamples) -> None:
        samples = loaded.samples

        def make(start: int, stop: int) -> tuple[Tensor, _Measured]:
            # On a GPU the next batch is prepared while earlier ones are computed and stored.
            if self.beside is None:
                self._wait()
            part = samples.select(np.arange(start, stop))
            read = None if loaded.from_files is None else loaded.from_files[start:stop]
            with in_stream(self.beside):
                corrupted = loaded.clean_images.make(part, read)
            _hand_over(self.beside, (corrupted.images, corrupted.delta_v, corrupted.pixels))
            return corrupted.images, (part, corrupted)

        size = self.task.images.sizes[int(loaded.clean_images.indices[0])]
        stimuli = StimulusSource(len(samples), size, make)
        for batch in predict_batches(
            stimuli, self.task.models, self._record, self.batch_size, self.advance
        ):
            # The previous batch is written while the device works on this one.
            computed = _on_cpu(batch)
            self._write()
            self.computed = computed
            # On the CPU results are complete at once, so there is nothing to wait for.
            if self.task.device.type == "cpu":
                self._write()

    def _record(self, model: Model, scores: Tensor, measured: _Measured) -> BatchRecord:
        samples, _ = measured
        # The number of classes is only known once the model has been called.
        if model.name not in self.labels:
            self.labels[model.name] = _labels_of(self.task, model, scores.shape[1])
        labels = self.labels[model.name][torch.from_numpy(samples.image)]
        if scores.is_cuda:
            # From pinned memory, since a plain copy would wait until the model finishes this batch.
            labels = labels.pin_memory().to(scores.device, non_blocking=True)
        return record_scores(scores, labels)

    def _write(self) -> None:
        self._wait()
        if self.computed is not None:
            computed, self.computed = self.computed, None
            self.written = self.writer.submit(self._store, computed)

    def _wait(self) -> None:
        if self.written is not None:
            written, self.written = self.written, None
            # `result` raises the error of a failed write here, in the thread of the loop.
            self.advance(*written.result())

    def _store(self, computed: _ComputedBatch) -> tuple[int, str]:
        """Store a batch; return its number of samples, and a message or ""."""
        self.write(computed.samples.name, _table_of(self.task, computed))
        return len(computed.samples), _first_figures(self.task, computed)


def _stream_beside(device: torch.device) -> torch.cuda.Stream | None:
    """Return a CUDA stream for everything but the models; None, which means no stream, on a CPU.

    The device corrupts and measures the next batch while models run on this one. The host has to
    wait for some of these steps; it does not wait for the models then.
    """
    beside = stream_beside(device)
    if beside is not None:
        beside.wait_stream(torch.cuda.current_stream(device))
    return beside


def _hand_over(stream: torch.cuda.Stream | None, tensors: Sequence[Tensor]) -> None:
    """Let the current stream use tensors of another one, once they are complete."""
    if stream is None:
        return
    current = torch.cuda.current_stream(stream.device)
    current.wait_stream(stream)
    for tensor in tensors:
        # Otherwise its memory is reused as soon as the stream it belongs to is done with it.
        tensor.record_stream(current)


def _labels_of(task: PredictionTask, model: Model, n_classes: int) -> Tensor:
    """Return each image's true class as an output index of a model, (n_images,); −1 if unknown."""
    labels = np.full(len(task.images), NONE)
    if task.plan.labels == "native":
        # Labels unknown to the model are rejected later, if they are used for scores.
        with suppress(UsageError):
            labels = native_labels(
                task.images.labels, n_classes, model.class_names, task.images.class_names
            )
    return torch.from_numpy(labels)


def _on_cpu(batch: PredictedBatch[_Measured, BatchRecord]) -> _ComputedBatch:
    """Return the results of a batch in CPU memory, possibly with the copy still in progress."""
    (samples, corrupted), records = batch.known, batch.records
    tensors = [corrupted.delta_v, corrupted.pixels, *(record.numbers for record in records)]
    (delta_v, pixels, *numbers), ready = _copied(tensors)
    kept = tuple(
        BatchRecord(tensor, record.has_categories)
        for tensor, record in zip(numbers, records, strict=True)
    )
    return _ComputedBatch(samples, delta_v, pixels, corrupted.scales, kept, ready)


def _table_of(task: PredictionTask, computed: _ComputedBatch) -> pa.Table:
    """Return the samples of a batch with the predictions of all models."""
    computed.ready()
    for model, record in zip(task.models, computed.records, strict=True):
        # Column 1 is the margin, which is NaN if a score is NaN or positive infinity.
        if not bool(record.numbers[:, 1].isfinite().all()):
            raise model.reject()
    rows = samples_table(
        task.images,
        task.plan,
        computed.samples,
        computed.delta_v.numpy(),
        computed.pixels.numpy(),
        computed.scales,
    )
    tables = [
        predictions_table(rows, model.name, record)
        for model, record in zip(task.models, computed.records, strict=True)
    ]
    return pa.concat_tables(tables)


def _first_figures(task: PredictionTask, computed: _ComputedBatch) -> str:
    """Return the accuracy on the first batch of clean images; "" for other batches."""
    samples = computed.samples
    # One batch of the whole run has the first row, whichever process predicts it.
    if samples.entry is not None or task.groups[0].row[0] not in samples.row:
        return ""
    ranks = [record.numbers[:, RANK] for record in computed.records]
    if not ranks or not bool((ranks[0] > 0).all()):
        return ""
    counts = [
        f"{model.name} {int((rank == 1).sum())}"
        for model, rank in zip(task.models, ranks, strict=True)
    ]
    return f"Correct for the first {count_of(len(samples), 'clean image')}: {', '.join(counts)}."


def _copied(tensors: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
    """Return copies on the CPU, and a function that waits until the copies are complete."""
    if tensors[0].device.type == "cpu":
        return list(tensors), lambda: None
    copies = [torch.empty(source.shape, dtype=source.dtype, pin_memory=True) for source in tensors]
    for target, source in zip(copies, tensors, strict=True):
        target.copy_(source, non_blocking=True)
    # Wait for this copy only, not for the batches that are queued after it.
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copies, event.synchronize
