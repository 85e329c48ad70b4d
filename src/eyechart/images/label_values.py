"""Labels as datasets store them (numbers, strings, class names), converted to label strings."""

import operator
from collections.abc import Iterable, Sequence

from eyechart.core.arguments import brief
from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import class_names as imagenet_names
from eyechart.images.labels.imagenet import wordnet_ids

MATCHING = 0.5
"""A dataset with 1,000 classes has ImageNet's classes if at least this fraction of names match."""


def label_texts(
    values: Iterable[object], source: str, class_names: Sequence[str] | None = None
) -> list[str | None]:
    """Return the labels of a dataset as strings; None and −1 mean "no label".

    Args:
        values: One label per image: strings, or integers of Python, NumPy or torch.
        source: Name of the dataset, for messages.
        class_names: The names of the classes, which replace their numbers.

    Raises:
        UsageError: If a label is neither a whole number nor a string, if both occur, or if a number
            has no name.

    Example:
        >>> label_texts([1, 0, -1], "data", ["cat", "dog"])
        ['dog', 'cat', None]
    """
    texts: list[str | None] = []
    first: object = None
    for position, value in enumerate(values):
        label = _label(value, position, source)
        if label is None:
            texts.append(None)
            continue
        first = label if first is None else first
        if type(label) is not type(first):
            raise UsageError(
                f"The labels of {source} must all be whole numbers or all be strings, got"
                f" {brief(first)} and {brief(label)}."
            )
        if isinstance(label, int) and class_names is not None:
            if not 0 <= label < len(class_names):
                raise UsageError(
                    f"The labels of {source} must be 0 to {len(class_names) - 1}, since it has"
                    f" {len(class_names)} classes, got {label} for image {position}."
                )
            label = class_names[label]
        texts.append(str(label))
    return texts


def _label(value: object, position: int, source: str) -> int | str | None:
    """Return one label; None if there is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value) or None
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(
            f"The labels of {source} must be whole numbers or strings, got {brief(value)} for"
            f" image {position}."
        ) from None
    if number < -1:
        raise UsageError(
            f"The labels of {source} must be class numbers from 0, or -1 for no label, got {number}"
            f" for image {position}."
        )
    return None if number == -1 else number


def dataset_classes(names: Iterable[object], source: str) -> tuple[str, ...]:
    """Return the class names of a dataset in order; WordNet ids if they are ImageNet's classes.

    Args:
        names: For each class, a name or several synonyms; only the first synonym is used.
        source: Name of the dataset, for messages.

    Raises:
        UsageError: If two classes have the same name.

    Example:
        >>> dataset_classes(["cat", ("dog", "hound")], "data")
        ('cat', 'dog')
    """
    classes = tuple(str(n[0] if isinstance(n, tuple | list) and n else n) for n in names)
    # ImageNet's names are spelled in many ways, but their order is always the same.
    pairs = zip(classes, imagenet_names(), strict=False)
    matches = sum(name.partition(",")[0].casefold() == short.casefold() for name, short in pairs)
    if len(classes) == len(wordnet_ids()) and matches >= MATCHING * len(classes):
        return wordnet_ids()
    if len(set(classes)) < len(classes):
        twice = next(name for name in classes if classes.count(name) > 1)
        raise UsageError(f"{source} has two classes named {twice!r}: give them different names.")
    return classes
