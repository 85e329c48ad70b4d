"""Strips of example pictures along visual change, with what each model said to them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from eyechart.reports.html.cells import Cell, Numbers, delta, percent
from eyechart.reports.html.embedded_images import Key
from eyechart.reports.series.report import Part, Report, Shown
from eyechart.reports.words import corruption_title, listed
from eyechart.results.schema import ExampleImage, ExamplePrediction
from eyechart.testsets.plan import CLEAN

MARKS = {
    "right": ("✓", "right"),
    "wrong": ("✗", "wrong"),
    "same": ("=", "same answer as clean"),
    "other": ("≠", "other answer than clean"),
    "unknown": ("?", "not known whether right"),
}
"""A sign and words for how an answer is: never colour alone."""


@dataclass(frozen=True)
class Said:
    """What a model said to a picture. `mark`: of MARKS; `fails_first`: on the way to stronger."""

    model: Shown
    text: str
    confidence: Cell
    mark: str
    fails_first: bool

    @property
    def sign(self) -> str:
        """The sign of the mark."""
        return MARKS[self.mark][0]

    @property
    def words(self) -> str:
        """The words of the mark."""
        return MARKS[self.mark][1]


@dataclass(frozen=True)
class Frame:
    """One picture of a strip. `image`: a data URI, "" where the file is missing."""

    image: str
    alt: str
    is_clean: bool
    picture: str
    truth: str
    delta_v: Cell
    strength: Markup
    said: tuple[Said, ...]


@dataclass(frozen=True)
class Strip:
    """The pictures of a corruption, from mild to strong. `note`: why there is none, or several."""

    frames: tuple[Frame, ...]
    note: str

    @property
    def axis(self) -> str:
        """What they are in the order of."""
        measured = any(frame.delta_v.value for frame in self.frames)
        return "visual change (Δv)" if measured else "severity"


def example_keys(report: Report) -> Iterator[Key]:
    """Yield every example picture that strips show."""
    for part in report.parts:
        run = report.runs.index(part.runs[0])
        yield from ((run, example.file) for example in part.runs[0].results.examples)


def strip_of(report: Report, part: Part, corruption: str, images: Mapping[Key, str]) -> Strip:
    """Return the strip of a corruption: the clean picture first, then along visual change."""
    run = report.runs.index(part.runs[0])
    examples = part.runs[0].results.examples
    own = [place for place, each in enumerate(examples) if each.corruption == corruption]
    if not own:
        return Strip((), "This run kept no example pictures of this corruption.")
    pictures = {examples[place].picture for place in own}
    clean = [
        place
        for place, each in enumerate(examples)
        if each.corruption == CLEAN and pictures == {each.picture}
    ]
    places = [*clean, *own]
    if not any((run, examples[place].file) in images for place in places):
        return Strip((), "The example pictures are no longer beside results.json.")
    frames = tuple(_frames(report, part, run, places, images))
    notes = []
    if len(pictures) > 1:
        notes.append(
            "These are different photographs: no single one was drawn at enough strengths, so the"
            " first failure is no threshold."
        )
    answered = {said.model.name for frame in frames for said in frame.said}
    silent = [shown.short for shown in part.models if shown.name not in answered]
    if silent:
        notes.append(
            f"{listed(silent)} ran apart from the others, and kept no answers to these pictures."
        )
    return Strip(frames, " ".join(notes))


def _frames(
    report: Report, part: Part, run: int, places: list[int], images: Mapping[Key, str]
) -> Iterator[Frame]:
    numbers = Numbers(run, report.runs[run].results)
    failed: set[str] = set()
    for place in places:
        example = numbers.results.examples[place]
        said = []
        for shown in part.models:
            own = _answer(report, shown, example, place if shown.run == run else None)
            if own is None:
                continue
            found, answer = own
            mark = _mark(answer)
            is_clean = example.corruption == CLEAN
            fails = mark in ("wrong", "other") and not is_clean and shown.name not in failed
            failed |= {shown.name} if fails else set()
            path = ("examples", found, "answers", shown.name, "confidence")
            confidence = Numbers(shown.run, report.runs[shown.run].results).cell(percent, *path)
            said.append(Said(shown, answer.said, confidence, mark, fails))
        yield Frame(
            images.get((run, example.file), ""),
            _alt(example),
            example.corruption == CLEAN,
            example.picture,
            example.truth,
            numbers.cell(delta, "examples", place, "delta_v"),
            _strength(numbers, example, place),
            tuple(said),
        )


def _answer(
    report: Report, shown: Shown, example: ExampleImage, place: int | None
) -> tuple[int, ExamplePrediction] | None:
    """Return a model's answer to an example and the example's place in the model's own run."""
    examples = report.runs[shown.run].results.examples
    places = range(len(examples)) if place is None else (place,)
    for each in places:
        other = examples[each]
        same = (other.corruption, other.row, other.picture) == (
            example.corruption,
            example.row,
            example.picture,
        )
        if same and shown.name in other.answers:
            return each, other.answers[shown.name]
    return None


def _mark(answer: ExamplePrediction) -> str:
    if answer.correct is not None:
        return "right" if answer.correct else "wrong"
    if answer.consistent is not None:
        return "same" if answer.consistent else "other"
    return "unknown"


def _alt(example: ExampleImage) -> str:
    what = example.truth or "a picture without a label"
    if example.corruption == CLEAN:
        return f"Clean picture: {what}"
    how = "not measurable" if example.delta_v is None else f"{example.delta_v:.2f}"
    return f"{corruption_title(example.corruption)}, visual change {how}: {what}"


def _strength(numbers: Numbers, example: ExampleImage, place: int) -> Markup:
    """Return the severity, or the parameters, of a corrupted picture."""
    if example.corruption == CLEAN:
        return Markup("")
    parts = []
    if example.severity is not None:
        cell = numbers.cell(_short, "examples", place, "severity")
        parts.append(Markup("severity {}").format(cell))
    for name in example.parameters:
        cell = numbers.cell(_short, "examples", place, "parameters", name)
        parts.append(Markup("{} {}").format(name.replace("_", " "), cell))
    return Markup(", ").join(parts)


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
