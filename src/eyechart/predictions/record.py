"""What is recorded of a model's answer: enough that the rule from classes to categories can change.

A row is one model's answer to one picture of the test set, and carries the test set's columns.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.labels.categories import CATEGORIES, CLASSES, category_maxima, category_sums
from eyechart.models.probabilities import log_probabilities
from eyechart.testsets.manifest_rows import SCHEMA as ROWS

VERSION = 3
"""Of what is recorded; grows with every change, so that other records are not gone on with."""

SIXTEEN = len(CATEGORIES)

# Of no fixed length, though it is always 16: pyarrow 25 cannot read back a null of a fixed one.
SCORES = pa.list_(pa.float32())

ANSWERS = pa.schema(
    [
        ("model", pa.string()),
        ("answer", pa.int32()),
        ("margin", pa.float32()),
        ("confidence", pa.float32()),
        ("rank", pa.int32()),
        ("category_max", SCORES),
        ("category_sum", SCORES),
    ]
)
"""`answer`: the class with the highest score. `margin`: by how much its log-probability exceeds the
next. `confidence`: its probability, 0…1. `rank`: of the true label among all classes by score, 1 if
it is the answer; of equal scores the first class is ahead, as in the answer; null where the picture
has no label among the model's classes, or the run does not go by them. `category_max` and
`category_sum`: for each of the 16 categories, the log of the likeliest class's probability and of
the sum; null where the model does not have ImageNet's 1,000 classes."""

SCHEMA = pa.schema([*ROWS, *ANSWERS])


@dataclass(frozen=True, eq=False)
class BatchRecord:
    """What is recorded of a model's scores on a batch, one row per image.

    Columns: answer, margin, confidence, rank (0 for none), 2 × 16 categories.
    """

    numbers: Tensor
    has_categories: bool

    def on_cpu(self) -> "BatchRecord":
        """Return the same record in the CPU's memory."""
        return BatchRecord(self.numbers.cpu(), self.has_categories)


def record_scores(scores: Tensor, labels: Tensor | None = None) -> BatchRecord:
    """Return what is recorded of scores (B, K), on their device: one tensor, one way home.

    `labels`: the true class of each image, (B,), −1 for none.
    """
    logs = log_probabilities(scores)
    best, _ = logs.topk(2, dim=1)
    # of equally good answers the first, which topk does not promise
    best_class = logs.argmax(dim=1, keepdim=True)
    columns = [
        best_class.to(torch.float32),
        best[:, :1] - best[:, 1:],
        best[:, :1].exp(),
        rank_of(logs, labels).to(torch.float32)[:, None],
    ]
    has_categories = scores.shape[1] == CLASSES
    if has_categories:
        columns += [
            category_maxima(logs),
            category_sums(logs.exp()).clamp_min(1e-30).log(),
        ]
    return BatchRecord(torch.cat(columns, dim=1), has_categories)


def rank_of(scores: Tensor, labels: Tensor | None) -> Tensor:
    """Return the rank of the true class among scores (B, K): 1 for the best, 0 without a label.

    Of equal scores the first class is ahead, as `argmax` has it.

    Example:
        >>> rank_of(torch.tensor([[0.1, 0.7, 0.7], [0.1, 0.7, 0.7]]), torch.tensor([2, -1]))
        tensor([2, 0])
    """
    if labels is None:
        return torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    label = labels[:, None]
    label_score = scores.gather(1, label.clamp_min(0))
    classes = torch.arange(scores.shape[1], device=scores.device)
    is_ahead = (scores > label_score) | ((scores == label_score) & (classes < label))
    return torch.where(labels < 0, 0, 1 + is_ahead.sum(dim=1))


def predictions_table(rows: pa.Table, model: str, record: BatchRecord) -> pa.Table:
    """Return the rows with a model's answers to them; `record` is on the CPU."""
    numbers = record.numbers.numpy()
    columns = [
        pa.array([model] * len(numbers), pa.string()),
        pa.array(numbers[:, 0].astype(np.int32)),
        pa.array(numbers[:, 1]),
        pa.array(numbers[:, 2]),
        pa.array(numbers[:, 3].astype(np.int32), mask=numbers[:, 3] == 0),
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
