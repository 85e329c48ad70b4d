"""ImageNet's 1,000 classes in the order of model outputs, and the 16 everyday categories."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from eyechart.core.csv_table import packaged_rows
from eyechart.core.registry import unknown_name

CLASSES = 1000

# Indices of ImageNet-1k's classes, from 0 in the order of their WordNet ids: the lists of
# Geirhos et al. 2018, which the VCR study and model-vs-human use too.
_INDICES = {
    "airplane": "404",
    "bear": "294-297",
    "bicycle": "444 671",
    "bird": "8 10-16 18-20 22-24 80-83 87-96 98-100 127-133 135-145",
    "boat": "472 554 625 814 914",
    "bottle": "440 720 737 898 899 901 907",
    "car": "436 511 817",
    "cat": "281-286",
    "chair": "423 559 765 857",
    "clock": "409 530 892",
    "dog": "152-191 193-203 205-226 228-241 243-250 252-257 259 261-263 265-268",
    "elephant": "385 386",
    "keyboard": "508 878",
    "knife": "499",
    "oven": "766",
    "truck": "555 569 656 675 717 734 864 867",
}

CATEGORIES = tuple(_INDICES)
"""The categories in alphabetical order; a category's number is its index here."""

NONE = -1
"""Value for an ImageNet class in none of the 16 categories, which cover only 207 classes."""


@cache
def members(category: str) -> tuple[int, ...]:
    """Return the class indices that belong to a category.

    Example:
        >>> members("bear")
        (294, 295, 296, 297)
    """
    if category not in _INDICES:
        raise unknown_name("category", category, CATEGORIES)
    indices: list[int] = []
    for part in _INDICES[category].split():
        first, _, last = part.partition("-")
        indices += range(int(first), int(last or first) + 1)
    return tuple(indices)


def category_of(classes: Tensor) -> Tensor:
    """Return the category index of each class index (0 … 999, any shape); −1 for no category.

    Example:
        >>> category_of(torch.tensor([0, 294, 404])).tolist()
        [-1, 1, 0]
    """
    return _table().to(classes.device)[classes]


def category_maxima(values: Tensor) -> Tensor:
    """Return the maximum value among the classes of each category, (B, 16), from (B, 1000)."""
    indices, inside = _padded(values.device)
    # padding must never be the maximum
    return values[:, indices].masked_fill(~inside, -torch.inf).amax(dim=2)


def category_sums(values: Tensor) -> Tensor:
    """Return the sum of values over the classes of each category, (B, 16), from (B, 1000)."""
    indices, inside = _padded(values.device)
    return values[:, indices].masked_fill(~inside, 0).sum(dim=2)


@cache
def _padded(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return each category's classes padded with 0, (16, 109), and a mask that excludes padding."""
    classes = [torch.tensor(members(category)) for category in CATEGORIES]
    indices = pad_sequence(classes, batch_first=True, padding_value=NONE).to(device)
    return indices.clamp(min=0), indices != NONE


@cache
def _table() -> Tensor:
    table = torch.full((CLASSES,), NONE)
    for position, category in enumerate(CATEGORIES):
        table[list(members(category))] = position
    return table


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
    return next((category for category in CATEGORIES if index in members(category)), None)


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return tuple(packaged_rows("eyechart.images.labels", "data", "imagenet.csv"))
