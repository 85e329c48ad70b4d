"""What a model's outputs mean: logits or probabilities, of ImageNet's 1,000 classes or others."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import CLASSES, class_index, class_names, wordnet_ids

BACKGROUND_FIRST = "background-first"
"""TensorFlow's order: an output for "background", then ImageNet's classes."""

IMAGENET = "imagenet"
"""ImageNet's classes in order, for models that name their outputs differently."""

NOTHING = ("", "-")
"""Entries of a label map file for outputs that do not represent any class."""

COLUMNS = ("wnid", "imagenet_index", "index", "label", "class", "name")
"""Accepted columns of a CSV file with a header; the first one that exists is read."""


TOLERANCE = 5e-3
"""Tolerance for the sum of probabilities: bfloat16 represents 0.998 with an error of up to 0.002.
"""

AGREEMENT = 0.5
"""Fraction of output names that must match ImageNet's class names in order. If the outputs had any
other order, hardly any would match.
"""


@dataclass(frozen=True)
class LabelMap:
    """Which of `length` outputs are kept, and in which order.

    `picked`: indices of the kept outputs. `names`: their names, None if they are ImageNet's classes
    in order. `source`: the map's name or file.
    """

    source: str
    length: int
    picked: tuple[int, ...]
    names: tuple[str, ...] | None = None

    def __call__(self, scores: Tensor) -> Tensor:
        """Return log-probabilities (B, K) of the kept outputs.

        The probabilities may sum to less than 1. Normalizing them later distributes the probability
        of dropped outputs proportionally over the others.
        """
        # All outputs are kept in their order.
        if self.picked == tuple(range(self.length)):
            return scores
        # A subset of probabilities does not sum to 1 and would be mistaken for logits.
        return log_probabilities(scores).index_select(1, _indices(self.picked, scores.device))

    def __str__(self) -> str:
        classes = "ImageNet's classes" if self.names is None else "other classes"
        return f"{len(self.picked):,} of {self.length:,}, {classes} ({self.source})"


@cache
def _indices(picked: tuple[int, ...], device: torch.device) -> Tensor:
    # Cached on the device: copying them for every batch would synchronize a GPU.
    return torch.tensor(picked, device=device)


def find_map(name: str, folder: Path | None = None) -> LabelMap:
    """Return the label map with this name or in this file; `folder` is searched as well."""
    if name == BACKGROUND_FIRST:
        return LabelMap(name, CLASSES + 1, tuple(range(1, CLASSES + 1)))
    if name == IMAGENET:
        return LabelMap(name, CLASSES, tuple(range(CLASSES)))
    path = Path(name) if folder is None else folder / name
    if not path.exists():
        raise UsageError(
            f"A label map must be {BACKGROUND_FIRST}, {IMAGENET} or a file with a line per output, "
            f"but the file {path} does not exist."
        )
    return map_of(read_names(path), str(path))


def map_of(entries: list[str], source: str) -> LabelMap:
    """Return the label map with one entry for each output.

    An entry is a WordNet id, an ImageNet class index, any other name, or "" or "-" for an
    output that is not a class.
    """
    kept = [(position, entry) for position, entry in enumerate(entries) if entry not in NOTHING]
    if len(kept) < 2:
        raise UsageError(f"{source} must name at least 2 outputs, got {len(kept)}.")
    outputs: dict[int, int] = {}
    for position, entry in kept:
        is_number = entry.isascii() and entry.isdecimal() and int(entry) < CLASSES
        number = int(entry) if is_number else class_index().get(entry)
        if number is None:
            continue
        if number in outputs:
            raise UsageError(
                f"{source} names {entry} in lines {outputs[number] + 1} and {position + 1}: if"
                " one of these outputs is not a class, write only - in its line."
            )
        outputs[number] = position
    # All ImageNet classes are present: reorder them, so that the 16 categories can be used.
    if len(outputs) == CLASSES:
        picked = tuple(outputs[number] for number in range(CLASSES))
        return LabelMap(source, len(entries), picked)
    indices, names = zip(*kept, strict=True)
    return LabelMap(source, len(entries), indices, names)


def read_names(path: Path) -> list[str]:
    """Return the names in a file with one name per line, or in a column of a CSV file."""
    try:
        text = regular_file(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} must be a text file in UTF-8 with a line per output.") from None
    lines = text.splitlines()
    if path.suffix.lower() != ".csv":
        return [line.strip() for line in lines]
    # An empty row is an output without a meaning.
    rows = [row or [""] for row in csv.reader(lines)]
    heading = [cell.strip().lower() for cell in rows[0]] if rows else []
    wanted = next((heading.index(name) for name in COLUMNS if name in heading), None)
    if wanted is None:
        return [row[0].strip() for row in rows]
    return [row[wanted].strip() if wanted < len(row) else "" for row in rows[1:]]


def log_probabilities(scores: Tensor) -> Tensor:
    """Return the natural logarithms of the class probabilities, float32 (B, K).

    If all rows are non-negative and sum to 1, the scores are taken as probabilities, otherwise as
    logits. Probabilities are clamped to at least float32's smallest normal number, 1.2e-38.

    Example:
        >>> log_probabilities(torch.tensor([[0.25, 0.75]])).exp()
        tensor([[0.2500, 0.7500]])
        >>> log_probabilities(torch.tensor([[0.0, 0.0]])).exp()
        tensor([[0.5000, 0.5000]])
    """
    scores = scores.float()
    is_normalized = are_probabilities(scores)
    # Without the floor, a probability of 0 would become −∞.
    logarithms = scores.clamp(min=torch.finfo(torch.float32).tiny).log()
    # Both are computed, so that choosing between them does not synchronize a GPU.
    return torch.where(is_normalized, logarithms, scores.log_softmax(dim=1))


def reject_probabilities(scores: Tensor, name: str = "The network") -> None:
    """Raise a UsageError if scores are probabilities: cross-entropy needs logits."""
    if bool(are_probabilities(scores.float())):
        raise UsageError(
            f"{name} returns probabilities, but training needs logits: give the network without"
            " its softmax."
        )


def are_probabilities(scores: Tensor) -> Tensor:
    """Return whether all rows (B, K) are non-negative and sum to 1, as a tensor with one value."""
    return (scores >= 0).all() & ((scores.sum(dim=1) - 1).abs() <= TOLERANCE).all()


def meaning_of(
    labels: Sequence[str], source: str
) -> tuple[LabelMap | None, tuple[str, ...] | None]:
    """Return which outputs to keep, and their names if they are not ImageNet's.

    1,000 outputs are ImageNet's if their labels are ImageNet's or generic (LABEL_0, …). If there is
    one extra output at the front, as in models from TensorFlow, it is dropped. If there are more
    outputs and their labels include all of ImageNet's WordNet ids, these are selected.
    """
    # LABEL_0, LABEL_1, … is what transformers writes for classes without names.
    are_generic = all(re.fullmatch(r"(LABEL_)?\d*", label) for label in labels)
    if len(labels) == CLASSES and (are_generic or _are_imagenet(labels)):
        return None, None
    if len(labels) == CLASSES + 1 and _are_imagenet(labels[1:]):
        return find_map(BACKGROUND_FIRST), None
    if set(wordnet_ids()) <= set(labels):
        return map_of(list(labels), source), None
    return None, tuple(labels)


def _are_imagenet(labels: Sequence[str]) -> bool:
    """Return whether most labels contain the class's WordNet id or its name."""
    # Zoos spell names differently, so not every name has to match.
    same = sum(
        wnid in label or _plain(name) in map(_plain, label.split(","))
        for label, wnid, name in zip(labels, wordnet_ids(), class_names(), strict=True)
    )
    return same >= AGREEMENT * len(labels)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name).strip().lower()
