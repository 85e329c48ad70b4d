"""Run models on images in batches, and record what they predict.

The batch size is halved when memory runs out. The caller decides what is corrupted and measured,
and what is kept of the scores; the record of a prediction suffices to compute other mappings to
categories later. A row is one model's prediction for one sample, with the test set's columns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.core.devices import to_device
from eyechart.core.errors import UsageError, is_out_of_memory
from eyechart.core.progress import Advance, no_advance
from eyechart.core.randomness import ImageRandom, hash64
from eyechart.images.imageset import ImageSet
from eyechart.images.labels.imagenet import CATEGORIES, CLASSES, category_maxima, category_sums
from eyechart.models.label_map import log_probabilities
from eyechart.models.model import Model
from eyechart.testsets.manifest_rows import SCHEMA as ROWS
from eyechart.testsets.plan import Plan
from eyechart.testsets.stimuli import images_at_once

Kept = TypeVar("Kept")
Known = TypeVar("Known")

BLANK = "destroyed"
"""Name under which predictions for images without content are stored. Their noise depends on it."""

N_BLANK = 16
"""Number of images without content."""

BLANK_ROWS = -1 - np.arange(N_BLANK)
"""Row numbers of images without content; no sample of a test set has them."""

RECORD_VERSION = 1
"""Version of the records, increased with every change, so that runs of another are not resumed."""

SIXTEEN = len(CATEGORIES)

# Variable length, although it is always 16: pyarrow 25 cannot read nulls of fixed-size lists.
SCORES = pa.list_(pa.float32())

PREDICTIONS = pa.schema(
    [
        ("model", pa.string()),
        ("prediction", pa.int32()),
        ("margin", pa.float32()),
        ("confidence", pa.float32()),
        ("rank", pa.int32()),
        ("category_max", SCORES),
        ("category_sum", SCORES),
    ]
)
"""`prediction`: the class with the highest score. `margin`: difference between the two highest
log-probabilities. `confidence`: the probability of `prediction`, 0…1. `rank`: rank of the true
label among all classes by score, 1 if it is `prediction`; ties are broken in favor of the first
class, as for `prediction`; null if the image has no label among the model's classes, or the run is
not scored in these classes. `category_max` and `category_sum`: for each of the 16 categories, the
log of its likeliest class's probability, and the log of its classes' summed probability; null if
the model does not have ImageNet's 1,000 classes.
"""

RECORD_SCHEMA = pa.schema([*ROWS, *PREDICTIONS])

RANK = 3
"""Column of the rank in a `BatchRecord`."""


@dataclass(frozen=True, eq=False)
class StimulusSource(Generic[Known]):
    """Images for which models make predictions, produced one batch at a time.

    `size`: height and width of the largest image in px. `make`: a function that is called with the
    first index and the index after the last one; it returns these images, uint8 (B, 3, H, W) on the
    device, and their metadata (such as their visual change; None if nothing is measured). It is
    called again with fewer images if memory runs out.
    """

    n_images: int
    size: tuple[int, int]
    make: Callable[[int, int], tuple[Tensor, Known]]


@dataclass(eq=False)
class BatchSize:
    """Number of images per batch; halved permanently when memory runs out."""

    n_images: int


@dataclass(frozen=True, eq=False)
class PredictedBatch(Generic[Known, Kept]):
    """The metadata of images `start` … `stop` − 1, and what is kept of each model's scores."""

    start: int
    stop: int
    known: Known
    records: tuple[Kept, ...]


def predict_batches(
    stimuli: StimulusSource[Known],
    models: Sequence[Model],
    keep: Callable[[Model, Tensor, Known], Kept],
    batch_size: BatchSize,
    advance: Advance = no_advance,
) -> Iterator[PredictedBatch[Known, Kept]]:
    """Yield the predictions of all models, in batches of nearly equal size.

    Args:
        stimuli: The images.
        models: The models. A GPU is not synchronized, so non-finite scores are not detected here.
        keep: Called with a model, its scores (B, K) and the metadata; returns what to keep, on the
            device of the scores.
        batch_size: Halved when memory runs out.
        advance: Receives a message when the batch size is halved.

    Raises:
        UsageError: If memory runs out on a single image.
    """
    start = 0
    while start < stimuli.n_images:
        most = images_at_once(batch_size.n_images, stimuli.size, models[0].device)
        # Batches of nearly equal size, rather than a small one at the end.
        n_left = stimuli.n_images - start
        stop = start + -(-n_left // -(-n_left // most))
        try:
            images, known = stimuli.make(start, stop)
            records = tuple(keep(model, _scores(model, images, most), known) for model in models)
        # The CPU allocator and TorchScript raise a plain RuntimeError when memory runs out.
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # A batch of one cannot be halved, but the network may have got a padded one.
            if stop - start == 1 and batch_size.n_images == 1:
                height, width = stimuli.size
                raise UsageError(
                    f"Out of memory on a single image of {width} × {height} px (width × height):"
                    " use smaller images, a smaller model or another device."
                ) from None
            batch_size.n_images = max(1, (stop - start) // 2)
            advance(0, f"Out of memory: continuing with batches of {batch_size.n_images}.")
            # Return cached blocks to the device: the smaller batch may not fit into fragments that
            # the larger one left.
            torch.cuda.empty_cache()
            continue
        yield PredictedBatch(start, stop, known, records)
        start = stop


def _scores(model: Model, images: Tensor, batch_size: int) -> Tensor:
    height, width = images.shape[2:]
    size = model.network_batch(batch_size, height * width)
    parts = [images[start : start + size] for start in range(0, len(images), size)]
    return torch.cat([model(part, wait=False, padded_to=size) for part in parts])


def predict_classes(
    stimuli: StimulusSource[None],
    models: Sequence[Model],
    batch_size: BatchSize,
    advance: Advance = no_advance,
) -> list[Tensor]:
    """Return the class that each model predicts for each image, (N,) int64 on its device.

    Nothing is measured or written. A GPU is synchronized once, at the end. `advance` is called for
    every batch with its number of images.
    """
    classes: list[list[Tensor]] = [[] for _ in models]
    finite: list[list[Tensor]] = [[] for _ in models]
    for batch in predict_batches(stimuli, models, _top_class, batch_size, advance):
        for number, (top_class, is_finite) in enumerate(batch.records):
            classes[number].append(top_class)
            finite[number].append(is_finite)
        advance(batch.stop - batch.start, "")
    for model, are_finite in zip(models, finite, strict=True):
        # Reading a flag waits for the GPU, so this is done once at the end.
        if not bool(torch.stack(are_finite).all()):
            raise model.reject()
    return [torch.cat(batches) for batches in classes]


def _top_class(_model: Model, scores: Tensor, _known: None) -> tuple[Tensor, Tensor]:
    """Return the highest-scoring class (the first if tied), and whether all scores are finite."""
    return scores.argmax(dim=1), scores.isfinite().all()


def blank_images(height: int, width: int, indices: Sequence[int] = range(N_BLANK)) -> Tensor:
    """Return images without content, uint8 (B, 3, H, W): of 16, eight uniform gray, eight noise.

    `indices`: which of the 16; all by default.
    """
    half = N_BLANK // 2
    # From dark to bright gray, without pure black and white.
    levels = torch.linspace(16, 239, half).round().to(torch.uint8)
    images = torch.empty((len(indices), 3, height, width), dtype=torch.uint8)
    # One at a time, because the random numbers take eight times the memory of an image.
    for image, place in zip(images, indices, strict=True):
        if place < half:
            image[:] = levels[place]
            continue
        # Fixed keys: every model of every run gets the same noise.
        random = ImageRandom(torch.tensor([place - half]), [hash64(BLANK)], torch.device("cpu"))
        image[:] = random.integers("pixels", (3, height, width), 256)[0]
    return images


def predict_blank_images(
    images: ImageSet, plan: Plan, models: Sequence[Model], device: torch.device
) -> pa.Table:
    """Return every model's predictions for images without content, sized like the first image."""
    size = images.sizes[0]

    def make(start: int, stop: int) -> tuple[Tensor, None]:
        return to_device(blank_images(*size, range(start, stop)), device), None

    known = {
        "row": pa.array(BLANK_ROWS),
        "image": pa.array(
            [f"{'gray' if i < N_BLANK // 2 else 'noise'} {i}" for i in range(N_BLANK)]
        ),
        "suite": pa.array([plan.suite] * N_BLANK),
        "corruption": pa.array([BLANK] * N_BLANK),
    }
    rows = pa.table(
        [known.get(field.name, pa.nulls(N_BLANK, field.type)) for field in ROWS], schema=ROWS
    )
    tables = []
    for model in models:
        stimuli = StimulusSource(N_BLANK, size, make)
        batches = predict_batches(stimuli, [model], _all_scores, BatchSize(N_BLANK))
        scores = torch.cat([batch.records[0] for batch in batches])
        if not bool(scores.isfinite().all()):
            raise model.reject()
        tables.append(predictions_table(rows, model.name, record_scores(scores).on_cpu()))
    return pa.concat_tables(tables)


def _all_scores(_model: Model, scores: Tensor, _known: None) -> Tensor:
    return scores


@dataclass(frozen=True, eq=False)
class BatchRecord:
    """The record of a model's scores on a batch, one row per image.

    Columns: prediction, margin, confidence, rank (0 for none), two values per category.
    """

    numbers: Tensor
    has_categories: bool

    def on_cpu(self) -> "BatchRecord":
        """Return the same record in CPU memory."""
        return BatchRecord(self.numbers.cpu(), self.has_categories)


def record_scores(scores: Tensor, labels: Tensor | None = None) -> BatchRecord:
    """Return the record of scores (B, K), on their device.

    All columns are in one tensor, so that one copy transfers them to the CPU. `labels`: the true
    class of each image, (B,), −1 for none.
    """
    logs = log_probabilities(scores)
    best, _ = logs.topk(2, dim=1)
    # The first of equal scores, which topk does not guarantee.
    best_class = logs.argmax(dim=1, keepdim=True)
    columns = [
        # float32 holds every class index below 2²⁴ exactly.
        best_class.to(torch.float32),
        best[:, :1] - best[:, 1:],
        best[:, :1].exp(),
        rank_of(logs, labels).to(torch.float32)[:, None],
    ]
    has_categories = scores.shape[1] == CLASSES
    if has_categories:
        columns += [
            category_maxima(logs),
            # The floor keeps the log finite where all probabilities of a category underflow to 0.
            category_sums(logs.exp()).clamp_min(1e-30).log(),
        ]
    return BatchRecord(torch.cat(columns, dim=1), has_categories)


def rank_of(scores: Tensor, labels: Tensor | None) -> Tensor:
    """Return the rank of the true class among scores (B, K): 1 for the best, 0 without a label.

    Ties are broken in favor of the first class, as for `argmax`.

    Example:
        >>> rank_of(torch.tensor([[0.1, 0.7, 0.7], [0.1, 0.7, 0.7]]), torch.tensor([2, -1]))
        tensor([2, 0])
    """
    if labels is None:
        return torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    label = labels[:, None]
    # −1 (no label) is not a valid index; these rows are set to 0 below.
    label_score = scores.gather(1, label.clamp_min(0))
    classes = torch.arange(scores.shape[1], device=scores.device)
    is_ahead = (scores > label_score) | ((scores == label_score) & (classes < label))
    return torch.where(labels < 0, 0, 1 + is_ahead.sum(dim=1))


def predictions_table(rows: pa.Table, model: str, record: BatchRecord) -> pa.Table:
    """Return the rows with a model's predictions added; `record` must be on the CPU."""
    numbers = record.numbers.numpy()
    columns = [
        pa.array([model] * len(numbers), pa.string()),
        pa.array(numbers[:, 0].astype(np.int32)),
        pa.array(numbers[:, 1]),
        pa.array(numbers[:, 2]),
        # Rank 0 means no label and is stored as null.
        pa.array(numbers[:, RANK].astype(np.int32), mask=numbers[:, RANK] == 0),
    ]
    for kind in range(2):
        start = 4 + kind * SIXTEEN
        if record.has_categories:
            flat = np.ascontiguousarray(numbers[:, start : start + SIXTEEN]).ravel()
            offsets = np.arange(0, len(flat) + 1, SIXTEEN, dtype=np.int32)
            columns.append(pa.ListArray.from_arrays(offsets, pa.array(flat)))
        else:
            columns.append(pa.nulls(len(numbers), SCORES))
    return pa.Table.from_arrays([*rows.columns, *columns], schema=RECORD_SCHEMA)
