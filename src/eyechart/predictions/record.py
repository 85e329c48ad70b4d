"""What is recorded of a model's answer: enough that the rule from classes to categories can change.

A row is one model's answer to one picture of the test set, and carries the test set's columns.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from eyechart.labels.categories import CATEGORIES, CLASSES, category_scores
from eyechart.models.probabilities import log_probabilities
from eyechart.testsets.manifest import SCHEMA as ROWS

VERSION = 2
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
        ("category_max", SCORES),
        ("category_sum", SCORES),
    ]
)
"""`answer`: the class with the highest score. `margin`: by how much its log-probability exceeds the
next. `confidence`: its probability, 0…1. `category_max` and `category_sum`: for each of the 16
categories, the log of the likeliest class's probability and of the sum; null where the model does
not have ImageNet's 1,000 classes."""

SCHEMA = pa.schema([*ROWS, *ANSWERS])


@dataclass(frozen=True, eq=False)
class BatchRecord:
    """What is recorded of a model's scores on a batch, one row per image.

    Columns: answer, margin, confidence, 2 × 16 categories.
    """

    numbers: Tensor
    has_categories: bool

    def on_cpu(self) -> "BatchRecord":
        """Return the same record in the CPU's memory."""
        return BatchRecord(self.numbers.cpu(), self.has_categories)


def record_scores(scores: Tensor) -> BatchRecord:
    """Return what is recorded of scores (B, K), on their device: one tensor, one way home."""
    logs = log_probabilities(scores)
    best, _ = logs.topk(2, dim=1)
    # of equally good answers the first, which topk does not promise
    best_class = logs.argmax(dim=1, keepdim=True)
    columns = [best_class.to(torch.float32), best[:, :1] - best[:, 1:], best[:, :1].exp()]
    has_categories = scores.shape[1] == CLASSES
    if has_categories:
        columns += [
            category_scores(logs, "max"),
            category_scores(logs.exp(), "sum").clamp_min(1e-30).log(),
        ]
    return BatchRecord(torch.cat(columns, dim=1), has_categories)


def predictions_table(rows: pa.Table, model: str, record: BatchRecord) -> pa.Table:
    """Return the rows with a model's answers to them; `record` is on the CPU."""
    numbers = record.numbers.numpy()
    columns = [
        pa.array([model] * len(numbers), pa.string()),
        pa.array(numbers[:, 0].astype(np.int32)),
        pa.array(numbers[:, 1]),
        pa.array(numbers[:, 2]),
    ]
    for kind in range(2):
        start = 3 + kind * SIXTEEN
        if record.has_categories:
            flat = np.ascontiguousarray(numbers[:, start : start + SIXTEEN]).ravel()
            offsets = np.arange(0, len(flat) + 1, SIXTEEN, dtype=np.int32)
            columns.append(pa.ListArray.from_arrays(offsets, pa.array(flat)))
        else:
            columns.append(pa.nulls(len(numbers), SCORES))
    return pa.Table.from_arrays([*rows.columns, *columns], schema=SCHEMA)
