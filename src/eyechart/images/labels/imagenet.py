"""ImageNet's 1,000 classes: WordNet ids in the order of model outputs, and short names."""

from functools import cache

from eyechart.core.csv_table import packaged_rows
from eyechart.images.labels.categories import CATEGORIES, CLASSES, NONE, category_of


@cache
def wordnet_ids() -> tuple[str, ...]:
    """Return the 1,000 WordNet ids in the order of model outputs.

    Example:
        >>> wordnet_ids()[0]
        'n01440764'
    """
    return tuple(row["wnid"] for row in _rows())


@cache
def class_names() -> tuple[str, ...]:
    """Return a short name for each class; two of the names are each used for two classes."""
    return tuple(row["name"] for row in _rows())


@cache
def class_index() -> dict[str, int]:
    """Return the class index of each WordNet id."""
    # torchvision sorts class folders the same way
    return {wnid: index for index, wnid in enumerate(wordnet_ids())}


@cache
def category_name(index: int) -> str | None:
    """Return the category of the class with this index, or None if the class has no category.

    Example:
        >>> category_name(294)
        'bear'
    """
    import torch  # slow to import, and the other functions here do not need it

    if not 0 <= index < CLASSES:
        return None
    position = int(category_of(torch.tensor(index)))
    return None if position == NONE else CATEGORIES[position]


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return tuple(packaged_rows("eyechart.images.labels", "data", "imagenet.csv"))
