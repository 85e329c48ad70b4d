"""ImageNet's 1,000 classes: WordNet ids in the order of a model's outputs, and short names."""

from functools import cache

from eyechart.core.csv_table import packaged_rows
from eyechart.labels.categories import CATEGORIES, CLASSES, NONE, category_of


@cache
def wordnet_ids() -> tuple[str, ...]:
    """Return the WordNet ids in their order, which is that of the outputs."""
    return tuple(row["wnid"] for row in _rows())


@cache
def class_names() -> tuple[str, ...]:
    """Return a short name for each class; two names stand for two classes each."""
    return tuple(row["name"] for row in _rows())


@cache
def class_index() -> dict[str, int]:
    """Return the class of each WordNet id."""
    return {wnid: index for index, wnid in enumerate(wordnet_ids())}


@cache
def category_name(index: int) -> str | None:
    """Return the everyday category of a class (0 … 999), or None if it has none."""
    import torch

    if not 0 <= index < CLASSES:
        return None
    position = int(category_of(torch.tensor(index)))
    return None if position == NONE else CATEGORIES[position]


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return tuple(packaged_rows("eyechart.labels", "data", "imagenet.csv"))
