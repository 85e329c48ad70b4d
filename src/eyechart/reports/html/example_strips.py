"""Strips of example images along visual change, with each model's predictions."""

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup
from PIL import Image, UnidentifiedImageError

from eyechart.core.phrases import listed
from eyechart.reports.html.html_table import delta, number, percent
from eyechart.reports.html.page import image_uri
from eyechart.reports.series.image_strips import image_strip, outcome_of
from eyechart.reports.series.report import Report, TestSection
from eyechart.reports.titles import corruption_title
from eyechart.results.schema import EXAMPLES_FOLDER, ExampleImage, ExamplePrediction
from eyechart.testsets.plan import CLEAN

SIDES = ((224, 75), (160, 70), (160, 50), (128, 45), (96, 45), (80, 40), (56, 35))
"""Pairs of a maximum side in px and a JPEG quality; the first that saves enough is used."""

Key = tuple[int, str]
"""Key of an image: the index of its run, and its file name."""

MARKS = {
    "right": ("✓", "right"),
    "wrong": ("✗", "wrong"),
    "same": ("=", "same prediction as for the clean image"),
    "other": ("≠", "prediction differs from the clean image’s"),
    "unknown": ("?", "unknown"),
}
"""Symbol and words for the outcome of a prediction, so that no outcome is shown by color alone."""

FIRST_FAILURE = Markup(' <strong class="first">first failure</strong>')


def strip_of(
    report: Report, section: TestSection, corruption: str, images: Mapping[Key, str]
) -> dict[str, object]:
    """Return the strip of a corruption: the clean image first, then ordered by visual change.

    The page names its contents: each frame has an image (a data URI, "" if the file is missing) and
    a line for each model's prediction; a note is "" for none.
    """
    strip = image_strip(report, section, corruption)
    if not strip.images:
        return {"frames": (), "note": "This run stored no example images of this corruption."}
    if not any((image.run, image.example.file) in images for image in strip.images):
        return {"frames": (), "note": "The example images are no longer next to results.json."}
    failures = {model.name: strip.first_failure(model) for model in section.models}
    frames = tuple(
        {
            "image": images.get((image.run, image.example.file), ""),
            "alt": _alt(image.example),
            "example": image.example,
            "is_clean": image.is_clean,
            "delta_v": number(delta, image.example.delta_v),
            "strength": _strength(image.example),
            "predictions": tuple(
                (name, _prediction_line(prediction, is_first_failure=failures[name] == index))
                for name, prediction in image.predictions.items()
            ),
        }
        for index, image in enumerate(strip.images)
    )
    notes = []
    if len({image.example.image for image in strip.images}) > 1:
        notes.append(
            "These are different images: no single image has enough strengths, so the"
            " first failure is not a threshold."
        )
    predicted = {name for image in strip.images for name in image.predictions}
    silent = [model.short for model in section.models if model.name not in predicted]
    if silent:
        notes.append(
            f"{listed(silent)} ran separately from the others and stored no predictions for these "
            "images."
        )
    # The quantity by which the images are ordered.
    is_measured = any(image.example.delta_v for image in strip.images)
    axis = "visual change (Δv)" if is_measured else "severity"
    return {"frames": frames, "note": " ".join(notes), "axis": axis}


def _prediction_line(prediction: ExamplePrediction, is_first_failure: bool) -> Markup:
    """Return a model's prediction with its confidence and whether it is correct."""
    outcome = outcome_of(prediction)
    sign, words = MARKS[outcome]
    line = Markup('<b class="{}">{} {}</b> <q>{}</q> <i>{} confidence</i>').format(
        outcome,
        sign,
        words,
        prediction.prediction,
        number(percent, prediction.confidence),
    )
    return line + (FIRST_FAILURE if is_first_failure else Markup(""))


def _alt(example: ExampleImage) -> str:
    title = example.truth or "an image without a label"
    if example.corruption == CLEAN:
        return f"Clean image: {title}"
    how = "not measurable" if example.delta_v is None else delta(example.delta_v)
    return f"{corruption_title(example.corruption)}, visual change {how}: {title}"


def _strength(example: ExampleImage) -> Markup:
    """Return the severity or the parameters of a corrupted image."""
    if example.corruption == CLEAN:
        return Markup("")
    parts = []
    if example.severity is not None:
        parts.append(Markup("severity {}").format(number(_short, example.severity)))
    for name, value in example.parameters.items():
        parts.append(Markup("{} {}").format(name.replace("_", " "), number(_short, value)))
    return Markup(", ").join(parts)


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def embedded(report: Report, most: int) -> dict[Key, str]:
    """Return data URIs of the images in the strips, if possible with at most `most` bytes in total.

    A file that is missing or not an image is left out.
    """
    opened = {}
    for run in (section.runs[0] for section in report.sections):
        for example in run.results.examples:
            # The name alone: a results.json from elsewhere must not lead out of the folder.
            image = _open(run.folder / EXAMPLES_FOLDER / Path(example.file).name)
            if image is not None:
                opened[report.runs.index(run), example.file] = image
    collected: dict[Key, str] = {}
    for side, quality in SIDES:
        collected = {key: _uri(image, side, quality) for key, image in opened.items()}
        # Data URIs are ASCII, so that characters are bytes.
        if sum(map(len, collected.values())) <= most:
            break
    return collected


def _open(path: Path) -> Image.Image | None:
    try:
        with Image.open(path) as file:
            return file.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError):
        return None


def _uri(image: Image.Image, side: int, quality: int) -> str:
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image_uri(small, quality=quality, optimize=True)
