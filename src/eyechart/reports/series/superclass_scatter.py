"""Accuracy on seen and unseen subclasses against accuracy on ImageNet-1K, in percent.

This is Fig. 6 of the ImageNet-C paper, with intervals. Only models whose ImageNet-1K accuracy is
known are included.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eyechart.core.arguments import regular_file
from eyechart.reports.titles import short_names
from eyechart.structure.study_results import (
    RESULTS,
    SUPERCLASS,
    SuperclassModelScore,
    SuperclassResults,
    read_superclass_results,
)

KINDS = ("seen", "unseen")


@dataclass(frozen=True)
class SuperclassPoint:
    """A model's accuracy on seen or unseen subclasses, with its interval, and on ImageNet-1K."""

    model: str
    imagenet_accuracy: float
    accuracy: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class SuperclassScatter:
    """The points of "seen" and "unseen" subclasses, in the models' order, and a description."""

    seen: tuple[SuperclassPoint, ...]
    unseen: tuple[SuperclassPoint, ...]
    words: str
    x_title: str = "ImageNet-1K accuracy (%)"
    y_title: str = "superclass accuracy (%)"


def superclass_scatter(models: Sequence[SuperclassModelScore]) -> SuperclassScatter | None:
    """Return the models whose accuracy on ImageNet-1K is known, or None if there are none."""
    names = short_names([model.name for model in models])
    known = [
        (name, model)
        for name, model in zip(names, models, strict=True)
        if model.imagenet_accuracy is not None
    ]
    if not known:
        return None
    points: dict[str, list[SuperclassPoint]] = {kind: [] for kind in KINDS}
    for name, model in known:
        imagenet_accuracy = 100 * float(model.imagenet_accuracy or 0)
        for kind, share in zip(KINDS, (model.seen, model.unseen), strict=True):
            low, high = share.interval
            points[kind].append(
                SuperclassPoint(name, imagenet_accuracy, 100 * share.value, (100 * low, 100 * high))
            )
    words = "; ".join(
        f"{name}: {model.seen.value:.2f} seen, {model.unseen.value:.2f} unseen"
        for name, model in known
    )
    return SuperclassScatter(tuple(points["seen"]), tuple(points["unseen"]), words)


def superclass_studies(folders: Sequence[Path]) -> list[SuperclassResults]:
    """Return the results of the superclass studies in these folders, in order."""
    return [
        read_superclass_results(folder)
        for folder in dict.fromkeys(folders)
        if is_superclass_study(folder)
    ]


def is_superclass_study(folder: Path) -> bool:
    """Return whether a folder has a superclass study; False if its results cannot be read."""
    try:
        content = json.loads(regular_file(folder / RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("kind") == SUPERCLASS
