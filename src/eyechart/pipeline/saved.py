"""What results.json holds: records whose fields have the names of the file's, and their reading.

Numbers that do not exist are null in the file and None here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from eyechart.core.errors import UsageError
from eyechart.core.plain import from_plain
from eyechart.scores.evaluation import SCHEMA_VERSION, Example, Said

RESULTS_FILE = "results.json"
EXAMPLES_FOLDER = "examples"

SavedExample: TypeAlias = Example
SavedAnswer: TypeAlias = Said

Ends = tuple[float | None, float | None]
Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Number:
    """A score with the intervals that hold it in 95 % and in 83 % of resampled sets of pictures."""

    value: float | None
    interval95: Ends
    interval83: Ends


@dataclass(frozen=True)
class Line:
    """A curve at `delta_v`, with its pointwise bands."""

    delta_v: Numbers
    values: Numbers
    low95: Numbers
    high95: Numbers
    low83: Numbers
    high83: Numbers


@dataclass(frozen=True)
class SavedCurve(Line):
    """A model's curve, and the bins that it was fitted to. `bin_rates`: None in empty ones."""

    bin_edges: Numbers
    bin_counts: Numbers
    bin_rates: Numbers
    smoothing: float | None
    left_anchor: float | None
    right_anchor: float | None


@dataclass(frozen=True)
class SavedLead:
    """A range of Δv in which `who`, "model" or "people", is ahead."""

    start: float
    end: float
    who: str


@dataclass(frozen=True)
class SavedAreas:
    """The four areas: below people's and the model's curve, and between them where one is ahead."""

    human: float | None
    model: float | None
    human_ahead: float | None
    model_ahead: float | None


@dataclass(frozen=True)
class SavedPeople:
    """A model next to people.

    `line`: people's curve. `model_line`: the model's on the same scale, which is another than its
    own curve's where both are corrected for chance. `significant`: where 83 % bands are apart;
    `tested`: where one is ahead by the test behind `scenario`. `p_people` and `p_model`: of either
    being ahead anywhere, by that test, corrected for the number of corruptions. `human_bins`: how
    many bins humans' curve was fitted to, and its anchors at Δv 0 and 1, None where there is none;
    all three are missing in files from before humans were fitted as models are. `reference`,
    `experiment`: whose curve it is, by name, and `observers`: of how many humans, 0 if that is
    unknown; missing in files from before there could be several references.
    """

    about: str
    kind: str
    hmri: Number
    hmri_bounds: Ends
    mrsi: Number
    scenario: str
    corrected_for_chance: bool
    areas: SavedAreas
    leads: tuple[SavedLead, ...]
    significant: tuple[SavedLead, ...]
    tested: tuple[SavedLead, ...]
    p_people: float
    p_model: float
    line: Line
    model_line: Line
    human_bins: int | None = None
    human_left_anchor: float | None = None
    human_right_anchor: float | None = None
    reference: str = ""
    experiment: str = ""
    observers: int = 0


@dataclass(frozen=True)
class SavedProperty:
    """Accuracy or consistency under one corruption; see `scores.evaluation.PropertyScore`."""

    rate: Number
    answers: int
    robustness: Number | None
    bounds: Ends | None
    observed: tuple[tuple[float, float], ...]
    note: str
    people: SavedPeople | None
    people_note: str
    curve: SavedCurve | None


@dataclass(frozen=True)
class SavedCorruption:
    """One model under one corruption, in one label space."""

    unmeasurable: int
    error: Number | None
    clean_error: Number | None
    error_by_severity: Mapping[str, float]
    accuracy: SavedProperty | None
    consistency: SavedProperty | None

    @property
    def properties(self) -> dict[str, SavedProperty]:
        """What there is, by the letter of its score: a, p."""
        both = {"a": self.accuracy, "p": self.consistency}
        return {letter: own for letter, own in both.items() if own is not None}


@dataclass(frozen=True)
class SavedErrors:
    """CE and relative CE by corruption, as shares of 1, and their means."""

    baseline: str
    ce: Mapping[str, Number]
    mce: Number | None
    relative_ce: Mapping[str, Number]
    relative_mce: Number | None
    note: str


@dataclass(frozen=True)
class SavedSimilar:
    """How much higher a model scores under the first of two corruptions that look alike.

    `property`: "a" or "p". `human_curves`: 2 if humans responded to both, 1 if one curve stands for
    both.
    """

    first: str
    second: str
    delta_hmri: float | None
    hmri_interval: Ends
    delta_mrsi: float | None
    mrsi_interval: Ends
    ranges: tuple[SavedLead, ...]
    property: str = "a"
    human_curves: int = 1


@dataclass(frozen=True)
class SavedClass:
    """One class of pictures: how often a model is right, clean and corrupted.

    `label`: its number among the answers.

    `corrupted`: over all answers to corrupted pictures. `worst`: the corruption with the lowest
    rate, and `worst_rate`. `instead`: what it says most often when it is wrong, and the share of
    all its wrong answers of this class that say so; "" and None if it never is.
    """

    label: int
    name: str
    pictures: int
    answers: int
    clean: float | None
    corrupted: Number
    worst: str
    worst_rate: float | None
    instead: str
    instead_share: float | None


@dataclass(frozen=True)
class SavedSpace:
    """One model in one label space: "native", or "entry16" for people's 16 categories."""

    pictures: int
    classes: int
    left_out: int
    verdict: str
    clean_accuracy: Number | None
    means: Mapping[str, Number]
    corruptions: Mapping[str, SavedCorruption]
    corruption_error: SavedErrors | None
    similar: tuple[SavedSimilar, ...]
    by_class: tuple[SavedClass, ...]


@dataclass(frozen=True)
class SavedModel:
    """One model. `category`: as the study's figures group models, "" if that is not known.

    `outputs`: what its answers are called, none if they are ImageNet's classes. `trained_on`: the
    corruptions that it was trained on, as its file says; `marked`: those of this test that count as
    such, none in files from before there were marks.
    """

    name: str
    identity: str
    classes: int
    category: str
    outputs: tuple[str, ...]
    spaces: Mapping[str, SavedSpace]
    trained_on: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()


@dataclass(frozen=True)
class SavedCoverage:
    """What a corruption covers of Δv; see `testsets.coverage.Coverage`. `histogram`: 39 bins."""

    rows: int
    paper: float
    equal: float
    reached: float
    largest: float
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class SavedDamaged:
    """A picture that was left out, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class SavedImages:
    """What was looked at: `used` of `pictures` from `source`. `digests`: SHA-256 by name."""

    source: str
    digest: str
    pictures: int
    used: int
    stimulus: str
    damaged: tuple[SavedDamaged, ...]
    digests: Mapping[str, str]


@dataclass(frozen=True)
class SavedProvenance:
    """What made the results. `command`: as typed, "" if it was no command. `made`: ISO date."""

    versions: Mapping[str, str]
    git: str | None
    device: str
    command: str
    made: str


@dataclass(frozen=True)
class SavedDifference:
    """By how much the first area exceeds the second, and where curves are farthest apart."""

    area_difference: float | None
    interval: Ends
    narrow_interval: Ends
    p_value: float | None
    largest: float | None
    place: float | None
    p_value_largest: float | None
    paired: bool


@dataclass(frozen=True)
class SavedPair:
    """Two models under one corruption, by one property: "a" or "p"."""

    space: str
    corruption: str
    property: str
    first: str
    second: str
    difference: SavedDifference
    intervals_overlap: bool


@dataclass(frozen=True)
class SavedAgreement:
    """Error consistency κ of two models, or of a model and people."""

    space: str
    first: str
    second: str
    kappa: Number
    trials: int


@dataclass(frozen=True)
class SavedPoint:
    """People's answers in one condition or bin; `delta_v`: 5th, 50th and 95th percentile."""

    delta_v: tuple[float, float, float]
    answers: int
    rate: float
    interval95: tuple[float, float]
    interval83: tuple[float, float]


@dataclass(frozen=True)
class PeopleLine:
    """People's curve in one experiment, and the rates behind it."""

    line: Line
    points: tuple[SavedPoint, ...]


@dataclass(frozen=True)
class SavedExperiment:
    """What people saw. `kind`: the class of corruptions that look alike, "" for none.

    `members`: bare names of the corruptions that the answers speak for. `tested`: whether likeness
    to others was tested at all; `evidence`: how the class is known. `reference`: by name.
    """

    name: str
    title: str
    kind: str
    members: tuple[str, ...]
    size: str
    accuracy: PeopleLine | None
    consistency: PeopleLine | None
    tested: bool = False
    evidence: str = ""
    reference: str = ""


@dataclass(frozen=True)
class Results:
    """A whole results.json. `examples`: clean ones, then by corruption from mild to strong."""

    schema: int
    config: Mapping[str, Any]
    provenance: SavedProvenance
    images: SavedImages
    warnings: tuple[str, ...]
    coverage: Mapping[str, SavedCoverage]
    models: tuple[SavedModel, ...]
    paired: tuple[SavedPair, ...]
    agreements: tuple[SavedAgreement, ...]
    people: tuple[SavedExperiment, ...]
    examples: tuple[SavedExample, ...]

    def model(self, name: str) -> SavedModel | None:
        """Return the model of that name, if it is there."""
        return next((own for own in self.models if own.name == name), None)


def read_results(folder: Path) -> Results:
    """Return what a finished run in a folder found."""
    path = folder / RESULTS_FILE
    if folder.is_file():
        raise UsageError(f"Give the folder of a run, {folder.parent}, not the file {folder.name}.")
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no finished run (there is no {RESULTS_FILE}): give the --out of an"
            " eyechart evaluate that came to its end."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
    version = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(version, int):
        raise UsageError(f"{path} was not written by eyechart evaluate: give another folder.")
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written by another version of eyechart (schema {version}, not"
            f" {SCHEMA_VERSION}): evaluate again into another folder."
        )
    try:
        return from_plain(Results, found)
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}): run the evaluation again.") from None
