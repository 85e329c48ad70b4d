"""The example images of a corruption, from mild to strong, and each model's prediction.

The image files are read by the renderers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eyechart.reports.series.report import ModelEntry, Report, TestSection
from eyechart.results.schema import EXAMPLES_FOLDER, ExampleImage, ExamplePrediction
from eyechart.testsets.plan import CLEAN


def outcome_of(prediction: ExamplePrediction) -> str:
    """Return the outcome of a prediction: "right", "wrong", "same", "other" or "unknown".

    Without a label, the outcome is "same" if the prediction equals the prediction for the clean
    image, otherwise "other". Without a prediction for the clean image, it is "unknown".
    """
    if prediction.correct is not None:
        return "right" if prediction.correct else "wrong"
    if prediction.consistent is not None:
        return "same" if prediction.consistent else "other"
    return "unknown"


def has_failed(prediction: ExamplePrediction) -> bool:
    """Return whether a prediction is incorrect or, without a label, differs from the clean one."""
    return outcome_of(prediction) in ("wrong", "other")


@dataclass(frozen=True, eq=False)
class StripImage:
    """An example with predictions by model; `run` is the index of its run in the report."""

    run: int
    path: Path
    example: ExampleImage
    predictions: Mapping[str, ExamplePrediction]

    @property
    def is_clean(self) -> bool:
        """Whether no corruption was applied."""
        return self.example.corruption == CLEAN


@dataclass(frozen=True, eq=False)
class ImageStrip:
    """The examples of a corruption, mild to strong; if all share a clean image, it comes first."""

    images: tuple[StripImage, ...]

    def first_failure(self, model: ModelEntry) -> int | None:
        """Return the index of the first corrupted image on which a model fails."""
        for index, image in enumerate(self.images):
            prediction = image.predictions.get(model.name)
            if prediction is not None and has_failed(prediction) and not image.is_clean:
                return index
        return None

    def spread_over(self, count: int) -> "ImageStrip":
        """Return at most `count` of the corrupted images, spaced evenly from mild to strong."""
        present = [
            (image.example.delta_v, image)
            for image in self.images
            if not image.is_clean and image.example.delta_v is not None and image.path.is_file()
        ]
        present.sort(key=lambda pair: pair[0])
        # Evenly by rank, including the mildest and the strongest image.
        indices = np.linspace(0, len(present) - 1, min(count, len(present))).round().astype(int)
        return ImageStrip(tuple(present[index][1] for index in indices))


def image_strip(report: Report, section: TestSection, corruption: str) -> ImageStrip:
    """Return the examples of a corruption that the first run of a test stored."""
    run = report.runs.index(section.runs[0])
    examples = section.runs[0].results.examples
    indices = [index for index, example in enumerate(examples) if example.corruption == corruption]
    images = {examples[index].image for index in indices}
    clean = [
        index
        for index, example in enumerate(examples)
        # With several source images, no single clean image belongs to the strip.
        if example.corruption == CLEAN and images == {example.image}
    ]
    folder = section.runs[0].folder / EXAMPLES_FOLDER
    return ImageStrip(
        tuple(
            StripImage(
                run,
                # The name alone: a results.json from elsewhere must not lead out of the folder.
                folder / Path(examples[index].file).name,
                examples[index],
                _predictions(report, section, examples[index], run, index),
            )
            for index in [*clean, *indices]
        )
    )


def _predictions(
    report: Report, section: TestSection, example: ExampleImage, run: int, index: int
) -> dict[str, ExamplePrediction]:
    """Return the models' predictions for an example, each from the model's run."""
    predictions = {}
    for model in section.models:
        examples = report.runs[model.run].results.examples
        # Another run may have stored its examples in a different order.
        for position in (index,) if model.run == run else range(len(examples)):
            other = examples[position]
            samples = {(one.corruption, one.row, one.image) for one in (example, other)}
            if len(samples) == 1 and model.name in other.predictions:
                predictions[model.name] = other.predictions[model.name]
                break
    return predictions
