"""From the labels of a data set to the numbers of a model's outputs, or to the 16 categories."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eyechart.core.errors import UsageError
from eyechart.labels.categories import CATEGORIES, CLASSES, NONE
from eyechart.labels.imagenet import category_name, class_index

SPACES = ("native", "entry16", "none")
"""The data set's own classes, the people's 16, or no labels at all."""

Places = NDArray[np.int64]


def native_labels(labels: Sequence[str | None], classes: int) -> Places:
    """Return the output of a model with so many classes that stands for each label; −1 for None.

    WordNet ids are ImageNet's classes, and whole numbers are outputs. Other names are taken in
    alphabetical order if there are as many as outputs. A label that cannot be placed is an error.
    """
    names = sorted({label for label in labels if label is not None})
    table = _native_table(names, classes)
    unknown = [name for name in names if name not in table]
    if unknown:
        count = sum(label in unknown for label in labels)
        pictures = "1 picture has a label" if count == 1 else f"{count} pictures have labels"
        raise UsageError(
            f"{pictures} unknown to a model of {classes} classes, such as {unknown[0]!r}: labels"
            f" must all be ImageNet's WordNet ids, or all output numbers 0 to {classes - 1}, or"
            f" {classes} names; a manifest can leave labels empty."
        )
    return np.array([NONE if label is None else table[label] for label in labels], dtype=np.int64)


def _native_table(names: Sequence[str], classes: int) -> dict[str, int]:
    if classes == CLASSES and any(name in class_index() for name in names):
        return {name: class_index()[name] for name in names if name in class_index()}
    if names and all(name.isdecimal() for name in names):
        return {name: int(name) for name in names if int(name) < classes}
    if len(names) == classes:
        return {name: place for place, name in enumerate(names)}
    return {}


def category_labels(labels: Sequence[str | None], categories: Sequence[str | None]) -> Places:
    """Return the category of each picture, −1 for those outside the 16.

    `categories` are those that the data set names itself; the others follow from their labels:
    WordNet ids, numbers of ImageNet's classes, or the categories' own names.
    """
    table: dict[str | None, int] = {name: place for place, name in enumerate(CATEGORIES)}
    found = []
    for label, own in zip(labels, categories, strict=True):
        name = own or (label if label in table else _of_class(label))
        found.append(table.get(name, NONE))
    return np.array(found, dtype=np.int64)


def _of_class(label: str | None) -> str | None:
    if label is None:
        return None
    index = class_index().get(label)
    if index is None and label.isdecimal():
        index = int(label)
    return None if index is None else category_name(index)
