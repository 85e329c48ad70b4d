"""The meaning of a model's outputs if they are not ImageNet's 1,000 classes in order."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from eyechart.core.arguments import regular_file
from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import CLASSES, class_index
from eyechart.models.probabilities import log_probabilities

BACKGROUND_FIRST = "background-first"
"""TensorFlow's order: an output for "background", then ImageNet's classes."""

IMAGENET = "imagenet"
"""ImageNet's classes in order, for models that name their outputs differently."""

NOTHING = ("", "-")
"""Entries of a label map file for outputs that do not represent any class."""

COLUMNS = ("wnid", "imagenet_index", "index", "label", "class", "name")
"""Accepted columns of a CSV file with a header; the first one that exists is read."""


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
        if self.is_plain:
            return scores
        # A subset of probabilities does not sum to 1 and would be mistaken for logits.
        return log_probabilities(scores).index_select(1, _indices(self.picked, scores.device))

    @property
    def is_plain(self) -> bool:
        """Whether all outputs are kept in their order."""
        return self.picked == tuple(range(self.length))

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
    return map_of(_entries(path), str(path))


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
        number = _class_of(entry)
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
    places, names = zip(*kept, strict=True)
    return LabelMap(source, len(entries), places, names)


def read_names(path: Path) -> tuple[str, ...]:
    """Return the names in a file with one name per line."""
    return tuple(_entries(path))


def _class_of(entry: str) -> int | None:
    """Return the ImageNet class index of an entry, or None if it is not an ImageNet class."""
    if entry.isascii() and entry.isdecimal() and int(entry) < CLASSES:
        return int(entry)
    return class_index().get(entry)


def _entries(path: Path) -> list[str]:
    try:
        text = regular_file(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} must be a text file in UTF-8 with a line per output.") from None
    lines = text.splitlines()
    if path.suffix.lower() == ".csv":
        return _column(lines)
    return [line.strip() for line in lines]


def _column(lines: list[str]) -> list[str]:
    # An empty row is an output without a meaning.
    rows = [row or [""] for row in csv.reader(lines)]
    heading = [cell.strip().lower() for cell in rows[0]] if rows else []
    wanted = next((heading.index(name) for name in COLUMNS if name in heading), None)
    if wanted is None:
        return [row[0].strip() for row in rows]
    return [row[wanted].strip() if wanted < len(row) else "" for row in rows[1:]]
