"""Accuracy on seen and unseen subclasses against accuracy on ImageNet-1K, in percent.

This is Fig. 6 of the ImageNet-C paper, with intervals. Only models whose ImageNet-1K accuracy is
known are included.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from eyechart.core.arguments import regular_file
from eyechart.reports.titles import short_names
from eyechart.structure.study_results import (
    RESULTS,
    SUPERCLASS,
    SuperclassModelScore,
    SuperclassResults,
    read_study,
)

X_TITLE, Y_TITLE = "ImageNet-1K accuracy (%)", "superclass accuracy (%)"


def models_with_accuracy(
    models: Sequence[SuperclassModelScore],
) -> list[tuple[str, float, SuperclassModelScore]]:
    """Return the short name, the ImageNet-1K accuracy in percent and the scores of each model.

    Models whose accuracy on ImageNet-1K is unknown are left out.
    """
    names = short_names([model.name for model in models])
    return [
        (name, 100 * float(model.imagenet_accuracy), model)
        for name, model in zip(names, models, strict=True)
        if model.imagenet_accuracy is not None
    ]


def superclass_studies(folders: Sequence[Path]) -> list[SuperclassResults]:
    """Return the results of the superclass studies in these folders, in order."""
    return [
        read_study(folder, SuperclassResults)
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
