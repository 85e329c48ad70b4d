"""The record of a prediction, from which other mappings to categories can be computed later.

A row is one model's prediction for one sample of the test set, with the test set's columns.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.images.labels.imagenet import CATEGORIES, CLASSES, category_maxima, category_sums
from eyechart.models.probabilities import log_probabilities
from eyechart.testsets.manifest_rows import SCHEMA as ROWS

VERSION = 1
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

SCHEMA = pa.schema([*ROWS, *PREDICTIONS])


RANK = 3
"""Column of the rank in a `BatchRecord`."""


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
    return pa.Table.from_arrays([*rows.columns, *columns], schema=SCHEMA)
