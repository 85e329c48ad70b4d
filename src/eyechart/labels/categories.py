"""The 16 everyday categories that people answer in, and how a model's 1,000 classes become them."""

from functools import cache

import torch
from torch import Tensor

from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name

CLASSES = 1000

# Indices of ImageNet-1k's classes, counted from 0 in the order of their WordNet ids: the lists of
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
"""In alphabetical order; a category is known by its place here."""

RULES = ("max", "mean", "sum", "top1")
"""How classes become categories: see `to_categories`."""

NONE = -1
"""No category: a class outside the 207 that have one."""


@cache
def members(category: str) -> tuple[int, ...]:
    """Return the indices of the classes that belong to a category."""
    if category not in _INDICES:
        raise unknown_name("category", category, CATEGORIES)
    indices: list[int] = []
    for part in _INDICES[category].split():
        first, _, last = part.partition("-")
        indices += range(int(first), int(last or first) + 1)
    return tuple(indices)


def category_of(classes: Tensor) -> Tensor:
    """Return the category of each class (any shape, 0 … 999), or −1."""
    return _table().to(classes.device)[classes]


def category_scores(probabilities: Tensor, rule: str = "max") -> Tensor:
    """Return one score per category, (B, 16), from the probabilities of all classes, (B, 1000).

    "max": of its likeliest class. "mean" and "sum": over its classes. "top1": 1 for the category of
    the likeliest class of all, if it has one.
    """
    if rule not in RULES:
        raise unknown_name("rule", str(rule), RULES)
    if probabilities.ndim != 2 or probabilities.shape[1] != CLASSES:
        raise UsageError(
            f"probabilities must be (B, {CLASSES}), got {tuple(probabilities.shape)}:"
            " the 16 categories are made of ImageNet's classes."
        )
    if rule == "top1":
        best = category_of(probabilities.argmax(dim=1))
        return (best[:, None] == torch.arange(16, device=best.device)).to(probabilities.dtype)
    indices, inside = _padded(probabilities.device)
    member_scores = probabilities[:, indices]
    if rule == "max":
        return member_scores.masked_fill(~inside, -torch.inf).amax(dim=2)
    total = member_scores.masked_fill(~inside, 0).sum(dim=2)
    return total if rule == "sum" else total / inside.sum(dim=1)


def to_categories(probabilities: Tensor, rule: str = "max") -> Tensor:
    """Return the category (B,) that a model's probabilities (B, 1000) stand for.

    "max", the default: that of the likeliest of the 207 classes that have one. "mean": the largest
    mean over a category's classes, which puts categories of many classes at a disadvantage. "sum":
    the largest sum. "top1": that of the likeliest of all 1,000 classes, −1 if it has none.
    """
    scores = category_scores(probabilities, rule)
    best = scores.argmax(dim=1)
    return torch.where(scores.amax(dim=1) > 0, best, NONE) if rule == "top1" else best


@cache
def _padded(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the classes of each category, (16, 109), filled up with 0, and which are its own."""
    most = max(len(members(category)) for category in CATEGORIES)
    indices = torch.zeros(len(CATEGORIES), most, dtype=torch.int64)
    inside = torch.zeros(len(CATEGORIES), most, dtype=torch.bool)
    for position, category in enumerate(CATEGORIES):
        class_indices = members(category)
        indices[position, : len(class_indices)] = torch.tensor(class_indices)
        inside[position, : len(class_indices)] = True
    return indices.to(device), inside.to(device)


@cache
def _table() -> Tensor:
    table = torch.full((CLASSES,), NONE)
    for position, category in enumerate(CATEGORIES):
        table[list(members(category))] = position
    return table
