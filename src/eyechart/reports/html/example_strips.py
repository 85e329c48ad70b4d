"""Strips of example images along visual change, with each model's predictions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from eyechart.reports.hidden_paths import IMAGES
from eyechart.reports.html.embedded_images import Key
from eyechart.reports.html.html_table import NumberCell, Numbers, delta, numbers_of, percent
from eyechart.reports.series.image_strips import StripImage, image_strip
from eyechart.reports.series.report import ModelEntry, Part, Report
from eyechart.reports.titles import corruption_title, listed
from eyechart.results.schema import ExampleImage
from eyechart.testsets.plan import CLEAN

MARKS = {
    "right": ("✓", "right"),
    "wrong": ("✗", "wrong"),
    "same": ("=", "same prediction as for the clean image"),
    "other": ("≠", "prediction differs from the clean image’s"),
    "unknown": ("?", "unknown"),
}
"""Symbol and words for the outcome of a prediction, so that no outcome is shown by color alone."""


@dataclass(frozen=True)
class PredictionView:
    """A model's prediction. `mark`: key of MARKS; `fails_first`: whether it is the first error."""

    model: ModelEntry
    text: str
    confidence: NumberCell
    mark: str
    fails_first: bool

    @property
    def sign(self) -> str:
        """Symbol that shows the outcome."""
        return MARKS[self.mark][0]

    @property
    def words(self) -> str:
        """Words that describe the outcome."""
        return MARKS[self.mark][1]


@dataclass(frozen=True)
class Frame:
    """One image of a strip. `image`: a data URI, "" if the file is missing."""

    image: str
    alt: str
    is_clean: bool
    truth: str
    delta_v: NumberCell
    strength: Markup
    predictions: tuple[PredictionView, ...]


@dataclass(frozen=True)
class Strip:
    """The images of a corruption, from mild to strong. `note`: a remark, "" for none."""

    frames: tuple[Frame, ...]
    note: str

    @property
    def axis(self) -> str:
        """The quantity by which the images are ordered."""
        measured = any(frame.delta_v.value for frame in self.frames)
        return "visual change (Δv)" if measured else "severity"


def example_keys(report: Report) -> Iterator[Key]:
    """Yield the key of every example image in the strips."""
    for part in report.parts:
        run = report.runs.index(part.runs[0])
        yield from ((run, example.file) for example in part.runs[0].results.examples)


def strip_of(report: Report, part: Part, corruption: str, images: Mapping[Key, str]) -> Strip:
    """Return the strip of a corruption: the clean image first, then ordered by visual change."""
    if IMAGES in report.hidden:
        return Strip((), "The example images are hidden in this report.")
    strip = image_strip(report, part, corruption)
    if not strip.images:
        return Strip((), "This run stored no example images of this corruption.")
    if not any((image.run, image.example.file) in images for image in strip.images):
        return Strip((), "The example images are no longer next to results.json.")
    failures = {model.name: strip.first_failure(model) for model in part.models}
    frames = tuple(
        _frame(report, image, {name for name, index in failures.items() if index == number}, images)
        for number, image in enumerate(strip.images)
    )
    notes = []
    if not strip.is_one_image:
        notes.append(
            "These are different images: no single image has enough strengths, so the"
            " first failure is not a threshold."
        )
    predicted = {name for image in strip.images for name in image.predictions}
    silent = [model.short for model in part.models if model.name not in predicted]
    if silent:
        notes.append(
            f"{listed(silent)} ran separately from the others and stored no predictions for these "
            "images."
        )
    return Strip(frames, " ".join(notes))


def _frame(
    report: Report, image: StripImage, failing: set[str], images: Mapping[Key, str]
) -> Frame:
    """Return one image; `failing` contains the models whose first failure is on this image."""
    numbers, example = Numbers(image.run, report.runs[image.run].results), image.example
    return Frame(
        images.get((image.run, example.file), ""),
        _alt(example),
        image.is_clean,
        example.truth,
        numbers.cell(delta, "examples", image.index, "delta_v"),
        _strength(numbers, example, image.index),
        tuple(
            PredictionView(
                prediction.model,
                prediction.prediction.prediction,
                numbers_of(report, prediction.model).cell(
                    percent, "examples", prediction.index, "predictions", name, "confidence"
                ),
                prediction.verdict,
                name in failing,
            )
            for name, prediction in image.predictions.items()
        ),
    )


def _alt(example: ExampleImage) -> str:
    title = example.truth or "an image without a label"
    if example.corruption == CLEAN:
        return f"Clean image: {title}"
    how = "not measurable" if example.delta_v is None else delta(example.delta_v)
    return f"{corruption_title(example.corruption)}, visual change {how}: {title}"


def _strength(numbers: Numbers, example: ExampleImage, index: int) -> Markup:
    """Return the severity or the parameters of a corrupted image."""
    if example.corruption == CLEAN:
        return Markup("")
    parts = []
    if example.severity is not None:
        cell = numbers.cell(_short, "examples", index, "severity")
        parts.append(Markup("severity {}").format(cell))
    for name in example.parameters:
        cell = numbers.cell(_short, "examples", index, "parameters", name)
        parts.append(Markup("{} {}").format(name.replace("_", " "), cell))
    return Markup(", ").join(parts)


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
