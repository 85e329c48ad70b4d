"""Match the labels of a dataset with the outputs of a model, or with the 16 categories."""

import operator
from collections.abc import Iterable, Sequence

import numpy as np

from eyechart.core.arguments import short_repr
from eyechart.core.arrays import IntArray
from eyechart.core.errors import UsageError
from eyechart.images.labels.imagenet import (
    CATEGORIES,
    CLASSES,
    NONE,
    category_name,
    class_index,
    wordnet_ids,
)
from eyechart.images.labels.imagenet import class_names as imagenet_names

LARGER = (1001, 10450, 11221, 21841, 21842, 21843)
"""Output counts of common models that have more classes than ImageNet-1k, in a different order."""

BY_NUMBER = "by number"


def native_labels(
    labels: Sequence[str | None],
    classes: int,
    class_names: Sequence[str] | None = None,
    dataset_names: Sequence[str] | None = None,
) -> IntArray:
    """Return the output index of each label for a model with `classes` outputs; −1 for None.

    WordNet ids are mapped to ImageNet's classes, and integers are output indices. Other names are
    assigned in the order that the dataset declares, or else in alphabetical order, if their number
    equals the number of outputs. If the model's outputs have names, the labels must either all
    be among these names or all be output indices.

    Args:
        labels: one label per image.
        classes: the number of outputs of the model.
        class_names: the names of the outputs; None if they are unknown.
        dataset_names: the classes of the dataset in order; None if it declares no order.

    Raises:
        UsageError: If a label cannot be assigned to an output.

    Example:
        >>> native_labels(["dog", "cat", None], 2).tolist()
        [1, 0, -1]
    """
    _, table = match_labels(labels, classes, class_names, dataset_names)
    return np.array([NONE if label is None else table[label] for label in labels], dtype=np.int64)


def match_labels(
    labels: Sequence[str | None],
    classes: int,
    class_names: Sequence[str] | None = None,
    dataset_names: Sequence[str] | None = None,
) -> tuple[str, dict[str, int]]:
    """Return how `native_labels` matches labels with outputs, and the output of each label.

    The arguments are those of `native_labels`.

    Example:
        >>> match_labels(["dog", "cat", None], 2)
        ('in alphabetical order', {'cat': 0, 'dog': 1})
    """
    names = sorted({label for label in labels if label is not None})
    if class_names is None:
        _check_order(names, classes)
        rule, table = _native_table(names, classes, dataset_names)
    else:
        rule, table = _named_table(names, class_names)
    unknown = [name for name in names if name not in table]
    if unknown:
        count = sum(label is not None and label not in table for label in labels)
        images = "1 image has a label" if count == 1 else f"{count:,} images have labels"
        must = (
            f"all be ImageNet's WordNet ids, all be output numbers 0 to {classes - 1}, or be"
            f" {classes} names"
            if class_names is None
            else f"be among the names of its outputs ({class_names[0]}, {class_names[1]}, …)"
        )
        raise UsageError(
            f"{images} unknown to a model with {classes} classes (such as {unknown[0]!r}): labels"
            f" must {must}; a manifest can leave labels empty."
        )
    return rule, {name: table[name] for name in names}


def output_names(
    labels: Sequence[str | None],
    classes: int,
    class_names: Sequence[str] | None = None,
    dataset_names: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return a display name for each of the outputs, consistent with `native_labels`."""
    if class_names is not None:
        return tuple(class_names)
    names = sorted({label for label in labels if label is not None})
    # without labels 1,000 outputs are assumed to be ImageNet's
    if classes == CLASSES and (not names or any(name in class_index() for name in names)):
        return imagenet_names()
    if dataset_names is not None and len(dataset_names) == classes:
        return tuple(dataset_names)
    if not are_numbers(names) and len(names) == classes and dataset_names is None:
        return tuple(names)
    return imagenet_names() if classes == CLASSES else tuple(map(str, range(classes)))


def map_hint(classes: int | None) -> str:
    """Return advice for users of a model whose outputs are not ImageNet's 1,000 classes."""
    if classes == CLASSES + 1:
        return "give --label-map background-first if they are TensorFlow's, with background first"
    return "give --label-map FILE, with one line per output that names its class"


def _check_order(names: Sequence[str], classes: int) -> None:
    """Raise an error if labels are ImageNet's but the order of the outputs is unknown."""
    ids = [name for name in names if name in class_index()]
    # ImageNet class numbers would pass as output indices, but each would be off by one or more
    numbered = classes in LARGER and are_numbers(names) and max(map(int, names)) < CLASSES
    if classes not in (CLASSES, len(names)) and (ids or numbered):
        raise UsageError(
            f"The images have ImageNet's labels, such as {(ids or names)[0]!r}, but the model has"
            f" {classes:,} outputs of unknown meaning: {map_hint(classes)}."
        )


def are_numbers(names: Sequence[str]) -> bool:
    """Return whether there are labels and all of them are class numbers."""
    # isdecimal alone accepts the digits of other scripts
    return bool(names) and all(name.isascii() and name.isdecimal() for name in names)


def _named_table(names: Sequence[str], class_names: Sequence[str]) -> tuple[str, dict[str, int]]:
    outputs = list(class_names)
    # names such as "7" take precedence over output indices
    if not set(names) & set(outputs) and are_numbers(names):
        return BY_NUMBER, {name: int(name) for name in names if int(name) < len(outputs)}
    for name in names:
        if outputs.count(name) > 1:
            raise UsageError(
                f"The label {name!r} is the name of {outputs.count(name)} outputs of the model:"
                " give them different names."
            )
    return "by name", {name: outputs.index(name) for name in names if name in outputs}


def _native_table(
    names: Sequence[str], classes: int, dataset_names: Sequence[str] | None = None
) -> tuple[str, dict[str, int]]:
    if classes == CLASSES and any(name in class_index() for name in names):
        table = {name: class_index()[name] for name in names if name in class_index()}
        return "in ImageNet's order", table
    if dataset_names is not None and len(dataset_names) == classes:
        return "in the dataset's order", {name: index for index, name in enumerate(dataset_names)}
    if are_numbers(names):
        return BY_NUMBER, {name: int(name) for name in names if int(name) < classes}
    # a declared order of more or fewer classes does not say which outputs these are
    if dataset_names is None and len(names) == classes:
        # alphabetical, as torchvision's ImageFolder numbers class folders
        return "in alphabetical order", {name: index for index, name in enumerate(names)}
    return "", {}


def category_labels(labels: Sequence[str | None], categories: Sequence[str | None]) -> IntArray:
    """Return the category index of each image, −1 for images outside the 16 categories.

    Args:
        labels: one label per image: a WordNet id, an ImageNet class number or a category's name.
        categories: the categories that the dataset itself declares; they take precedence.

    Example:
        >>> category_labels(["n02132136", "clock", "7"], [None, None, "bird"]).tolist()
        [1, 9, 3]
    """
    table: dict[str | None, int] = {name: index for index, name in enumerate(CATEGORIES)}
    # each label is looked up once, since many images have the same
    by_label = {label: label if label in table else _of_class(label) for label in set(labels)}
    # categories that the dataset declares take precedence over those that follow from its labels
    indices = [
        table.get(category or by_label[label], NONE)
        for label, category in zip(labels, categories, strict=True)
    ]
    return np.array(indices, dtype=np.int64)


def _of_class(label: str | None) -> str | None:
    if label is None:
        return None
    index = class_index().get(label, int(label) if label.isdecimal() else NONE)
    return category_name(index)


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
                f" {short_repr(first)} and {short_repr(label)}."
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
            f"The labels of {source} must be whole numbers or strings, got {short_repr(value)} for"
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
