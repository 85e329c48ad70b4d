"""One evaluation: settings, prediction task, folder, and the label spaces of its scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from eyechart.core.arrays import IntArray
from eyechart.core.devices import device_title, find_devices
from eyechart.corruptions.suites.suite import Entry
from eyechart.humans.combined import References
from eyechart.images.labels.imagenet import CATEGORIES, NONE
from eyechart.images.labels.matching import category_labels, native_labels, output_names
from eyechart.images.labels.spaces import ENTRY16
from eyechart.models.model import Model
from eyechart.pipeline.human_references import find_humans
from eyechart.pipeline.settings import EvaluateSettings
from eyechart.predictions.loop import PredictionTask
from eyechart.predictions.reading import PredictionReader


@dataclass(frozen=True, eq=False)
class LabelSpace:
    """The classes in which predictions are scored.

    `labels` contains each image's label, or −1 for none. `class_names` contains the class names.
    """

    name: str
    labels: IntArray
    class_names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EvaluationRun:
    """An evaluation with its `folder` of predictions, which may be incomplete."""

    settings: EvaluateSettings
    task: PredictionTask
    folder: Path

    @cached_property
    def humans(self) -> tuple[References | None, str]:
        """Human references to compare with; if there are none, None and the reason."""
        # A given test set has its own plan, which may differ from the settings.
        return find_humans(self.settings.with_plan(self.task.plan))

    @cached_property
    def entries(self) -> list[Entry]:
        """Corruptions of the test."""
        return [samples.entry for samples in self.task.groups if samples.entry is not None]

    @property
    def device_titles(self) -> tuple[str, ...]:
        """The devices on which models run; they are loaded on the first of several."""
        devices = [model.device for model in self.task.models]
        if len(self.settings.devices) > 1:
            devices += find_devices(self.settings.device)
        return tuple(dict.fromkeys(map(device_title, devices)))

    @property
    def means_over(self) -> list[str]:
        """Corruptions to average over: the suite if all of it was tested, otherwise those tested.

        ImageNet-C's extra corruptions may be tested in addition.
        """
        names, suite = [entry.name for entry in self.entries], self.task.plan.all_names()
        return suite if set(suite) <= set(names) else names

    @cached_property
    def used_images(self) -> IntArray:
        """Indices of the images in the test set."""
        images = np.concatenate([samples.image for samples in self.task.groups])
        return np.flatnonzero(np.bincount(images))

    @property
    def is_sampled(self) -> bool:
        """Whether strengths were sampled, instead of using published severities or files."""
        return self.task.images.files is None and not self.task.plan.is_at_levels

    def spaces(self, model: Model) -> Iterator[LabelSpace]:
        """Yield the label spaces to score a model in, the primary one first."""
        images, asked = self.task.images, self.task.plan.labels
        given = images.labels
        unlabeled = np.full(len(images), NONE)
        if asked != ENTRY16:
            labels = unlabeled
            if asked == "native":
                labels = native_labels(
                    given, model.classes or 0, model.class_names, images.class_names
                )
            yield LabelSpace("native", labels, self.output_names(model))
        # Only ImageNet's classes can be mapped to the 16 categories, and only humans need them.
        if model.has_imagenet and (asked == ENTRY16 or self.settings.human_names):
            labels = category_labels(given, images.categories)
            if asked == "none":
                labels = unlabeled
            has_labels = bool((labels[self.used_images] != NONE).any())
            # Without images of a category there is nothing to score, unless consistency needs no
            # labels.
            if asked == ENTRY16 or has_labels or self._compares_without_labels(labels):
                yield LabelSpace(ENTRY16, labels, CATEGORIES)

    def output_names(self, model: Model) -> tuple[str, ...]:
        """Return the name of each output of a model."""
        images = self.task.images
        return output_names(
            images.labels, model.classes or 0, model.class_names, images.class_names
        )

    def _compares_without_labels(self, labels: IntArray) -> bool:
        """Whether human consistency can be compared although there are no labels."""
        references, has_labels = self.humans[0], bool((labels != NONE).any())
        return not has_labels and references is not None and references.has_consistency

    def reader(self, space: LabelSpace) -> PredictionReader:
        """Return the recorded predictions with the labels of a label space."""
        images = self.task.images
        names = [image.name for image in images.listed]
        labels = dict(zip(names, space.labels.tolist(), strict=True))
        rule = self.settings.rule if space.name == ENTRY16 else None
        return PredictionReader(self.folder, labels, rule, images.has_clean)
