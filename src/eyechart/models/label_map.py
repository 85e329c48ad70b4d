"""What a model's outputs stand for, where they are not ImageNet's 1,000 classes in their order."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.labels.categories import CLASSES
from eyechart.labels.imagenet import class_index
from eyechart.models.probabilities import log_probabilities

BACKGROUND_FIRST = "background-first"
"""TensorFlow's order: an output for "nothing of all this", then ImageNet's classes."""

IMAGENET = "imagenet"
"""ImageNet's classes in their order, said of outputs that have names of their own."""

NOTHING = ("", "-")
"""How a file says that an output means nothing here."""

COLUMNS = ("wnid", "imagenet_index", "index", "label", "class", "name")
"""Which column of a CSV file with a heading is read: the first of these that it has."""


@dataclass(frozen=True)
class LabelMap:
    """Which of `length` outputs are kept, and in which order.

    `picked`: the kept outputs. `names`: what they are called, None if they are ImageNet's classes
    in their order. `source`: the map's name or file.
    """

    source: str
    length: int
    picked: tuple[int, ...]
    names: tuple[str, ...] | None = None

    def __call__(self, scores: Tensor) -> Tensor:
        """Return the scores (B, K) of the kept outputs, as logarithms that need not sum to 1.

        What the dropped ones had goes to the others in proportion, once probabilities are wanted.
        """
        if self.is_plain:
            return scores
        # Probabilities of which some are missing would be taken for logits.
        return log_probabilities(scores).index_select(1, _indices(self.picked, scores.device))

    @property
    def is_plain(self) -> bool:
        """Whether all outputs are kept where they are."""
        return self.picked == tuple(range(self.length))

    def __str__(self) -> str:
        classes = "of ImageNet" if self.names is None else "with names of their own"
        return f"{len(self.picked):,} of {self.length:,}, {classes} ({self.source})"


@cache
def _indices(picked: tuple[int, ...], device: torch.device) -> Tensor:
    # Kept on the device: copying them for every batch would make a GPU wait.
    return torch.tensor(picked, device=device)


def find_map(name: str, folder: Path | None = None) -> LabelMap:
    """Return the map of that name, or of the file of that name, which may lie in `folder`."""
    if name == BACKGROUND_FIRST:
        return LabelMap(name, CLASSES + 1, tuple(range(1, CLASSES + 1)))
    if name == IMAGENET:
        return LabelMap(name, CLASSES, tuple(range(CLASSES)))
    path = Path(name) if folder is None else folder / name
    if not path.exists():
        raise UsageError(
            f"A label map must be {BACKGROUND_FIRST}, {IMAGENET} or a file with a line per output,"
            f" and there is no file {path}."
        )
    return map_of(_entries(path), str(path))


def map_of(entries: list[str], source: str) -> LabelMap:
    """Return the map that has one entry for each output.

    An entry is a WordNet id, a number of ImageNet's classes, any other name, or "" or "-".
    """
    kept = [(position, entry) for position, entry in enumerate(entries) if entry not in NOTHING]
    if len(kept) < 2:
        raise UsageError(f"{source} must name at least 2 outputs, it names {len(kept)}.")
    outputs: dict[int, int] = {}
    for position, entry in kept:
        number = _class_of(entry)
        if number is None:
            continue
        if number in outputs:
            raise UsageError(
                f"{source} names {entry} in lines {outputs[number] + 1} and {position + 1}: an"
                " output that means nothing here is a line with - alone."
            )
        outputs[number] = position
    if len(outputs) == CLASSES:
        picked = tuple(outputs[number] for number in range(CLASSES))
        return LabelMap(source, len(entries), picked)
    places, names = zip(*kept, strict=True)
    return LabelMap(source, len(entries), places, names)


def read_names(path: Path) -> tuple[str, ...]:
    """Return the names in a file, one a line."""
    return tuple(_entries(path))


def _class_of(entry: str) -> int | None:
    """Return which of ImageNet's classes an entry is, None if it is none."""
    if entry.isascii() and entry.isdecimal() and int(entry) < CLASSES:
        return int(entry)
    return class_index().get(entry)


def _entries(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} must be a text file in UTF-8 with a line per output.") from None
    lines = text.splitlines()
    if path.suffix.lower() == ".csv":
        return _column(lines)
    return [line.strip() for line in lines]


def _column(lines: list[str]) -> list[str]:
    # A row without anything in it is an output that means nothing.
    rows = [row or [""] for row in csv.reader(lines)]
    heading = [cell.strip().lower() for cell in rows[0]] if rows else []
    wanted = next((heading.index(name) for name in COLUMNS if name in heading), None)
    if wanted is None:
        return [row[0].strip() for row in rows]
    return [row[wanted].strip() if wanted < len(row) else "" for row in rows[1:]]
