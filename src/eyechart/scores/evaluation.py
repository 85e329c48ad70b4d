"""What an evaluation finds: records of scores, each with its intervals, ready to be written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from eyechart.core.errors import UsageError
from eyechart.curves.curve import Curve
from eyechart.humans.reference import Point
from eyechart.scores.by_class import ClassScore
from eyechart.scores.people import Areas
from eyechart.scores.registry import values_of
from eyechart.scores.significance import Difference, Lead
from eyechart.scores.similar import SimilarClass
from eyechart.stats.estimate import Estimate, complement, mean_estimate

TOO_FEW = "too few photographs for a claim"


@dataclass(frozen=True, eq=False)
class PeopleScore:
    """A model's curve next to people's.

    `about`: whose answers; `corrected`: whether both curves, `curve` of people and `model_curve`,
    are for chance. `hmri_bounds`: between
    what HMRI lies whatever the model's curve does where nothing was observed, sampling error aside.
    `leads`: ranges of Δv where either curve is above the other; `significant`: those where their
    83 % intervals do not overlap; `tested`: those where one is ahead by the test behind `scenario`.
    `p_people` and `p_model`: of either being ahead anywhere, by that test, corrected for the number
    of corruptions that a model is compared under once all are scored. `reference`, `experiment`:
    by name, whose curve it is; `observers`: of how many humans, 0 if that is unknown.
    """

    about: str
    kind: str
    hmri: Estimate
    hmri_bounds: tuple[float, float]
    mrsi: Estimate
    areas: Areas
    scenario: str
    leads: tuple[Lead, ...]
    significant: tuple[Lead, ...]
    curve: Curve
    model_curve: Curve
    corrected: bool = False
    tested: tuple[Lead, ...] = ()
    p_people: float = 1.0
    p_model: float = 1.0
    reference: str = ""
    experiment: str = ""
    observers: int = 0


@dataclass(frozen=True, eq=False)
class PropertyScore:
    """Accuracy or consistency of one model under one corruption, in one label space.

    `rate`: over all answers. `curve` and `robustness` (its area) are None where there is no curve,
    and `why` says why; so is `people`, and `why_no_people` says why. `bounds`: between what the
    robustness lies whatever happens where nothing was observed. `observed`: ranges of Δv.
    """

    rate: Estimate
    answers: int
    curve: Curve | None = None
    robustness: Estimate | None = None
    bounds: tuple[float, float] | None = None
    observed: tuple[tuple[float, float], ...] = ()
    why: str = ""
    people: PeopleScore | None = None
    why_no_people: str = ""


@dataclass(frozen=True, eq=False)
class CorruptionScore:
    """One model under one corruption, in one label space.

    `error_by_severity`: share of wrong answers at each published level, where there are levels.
    `clean_error`: of the clean pictures, each counting as often as it is among the answers.
    `unmeasurable`: answers to pictures without a visual change. `consistency`: None where there
    were no clean pictures.
    """

    corruption: str
    accuracy: PropertyScore | None
    consistency: PropertyScore | None
    error_by_severity: Mapping[float, float]
    unmeasurable: int
    clean_error: Estimate | None = None

    @cached_property
    def error(self) -> Estimate | None:
        """The share of wrong answers over all strengths, if there are labels."""
        return None if self.accuracy is None else complement(self.accuracy.rate)

    @property
    def properties(self) -> dict[str, PropertyScore]:
        """What there is, by the letter of its score."""
        both = {"a": self.accuracy, "p": self.consistency}
        return {letter: score for letter, score in both.items() if score is not None}


@dataclass(frozen=True, eq=False)
class Normalised:
    """Errors of a model divided by a baseline's: CE, and relative CE (what clean pictures add off).

    `baseline`: whose. `ce` and `relative_ce`: of each corruption that the baseline has, as shares;
    the means over all corruptions of the suite, mCE and relative mCE, are None where one is missing
    or there is no clean error; `note` says what is.
    """

    baseline: str
    ce: Mapping[str, Estimate]
    relative_ce: Mapping[str, Estimate]
    mce: Estimate | None
    relative_mce: Estimate | None
    note: str = ""

    @property
    def tables(self) -> dict[str, Mapping[str, Estimate]]:
        """Both scores of all corruptions, by name."""
        return {"ce": self.ce, "relative_ce": self.relative_ce}

    @property
    def means(self) -> dict[str, Estimate]:
        """The means that there are, by name."""
        both = {"mce": self.mce, "relative_mce": self.relative_mce}
        return {name: own for name, own in both.items() if own is not None}


@dataclass(frozen=True, eq=False)
class SpaceScore:
    """One model in one label space: "native" classes, or the 16 categories of people.

    `classes` of `pictures` are scored; `left_out` pictures have no place in this space.
    `clean_accuracy`: every class counts as much, if pictures were drawn so.
    `verdict`: empty, or that there are too few photographs. `counted`: the corruptions that means
    are over, all if empty. `by_class`: each class by itself; `class_names`: of all answers.
    """

    space: str
    pictures: int
    classes: int
    left_out: int
    clean_accuracy: Estimate | None
    corruptions: tuple[CorruptionScore, ...]
    verdict: str
    similar: tuple[tuple[str, str, SimilarClass], ...] = ()
    normalised: Normalised | None = None
    counted: tuple[str, ...] = ()
    by_class: tuple[ClassScore, ...] = ()
    class_names: tuple[str, ...] = ()

    @cached_property
    def means(self) -> dict[str, Estimate]:
        """The mean over corruptions of every score there is, by its name (r_a, hmri_a, error)."""
        found: dict[str, list[Estimate]] = {}
        for score in self.corruptions:
            if self.counted and score.corruption not in self.counted:
                continue
            for name, value in values_of(score).items():
                found.setdefault(name, []).append(value)
        return {name: mean_estimate(each, self.pictures) for name, each in found.items()}


@dataclass(frozen=True, eq=False)
class ModelScore:
    """One model, in every label space that was asked for or that people's answers need.

    `category`: as studies group models, "" if that is not known. `outputs`: what its answers are
    called, none if they are ImageNet's classes. `trained_on`: the corruptions that it was trained
    on, as its file says; `marked`: those of this test that count as such.
    """

    name: str
    identity: str
    classes: int
    spaces: tuple[SpaceScore, ...]
    category: str = ""
    outputs: tuple[str, ...] = ()
    trained_on: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()

    def space(self, name: str) -> SpaceScore | None:
        """Return the scores in a label space, if there are any."""
        return next((space for space in self.spaces if space.space == name), None)


@dataclass(frozen=True)
class Paired:
    """Two models on the same test set: how the first differs from the second, and by how much.

    `intervals_overlap`: whether the 83 % intervals of the areas do, the published rule.
    """

    space: str
    corruption: str
    property: str
    first: str
    second: str
    difference: Difference
    intervals_overlap: bool


@dataclass(frozen=True)
class Agreement:
    """Whether a model errs on the same pictures as another, or as people: error consistency κ.

    1: on the very same, 0: as often as chance has it. `trials`: answers that were compared.
    """

    space: str
    first: str
    second: str
    kappa: Estimate
    trials: int


@dataclass(frozen=True, eq=False)
class Experiment:
    """What people answered in one experiment: curves, and the rates of conditions behind them.

    `kind`: the class of corruptions that look alike to people, "" for none. `members`: bare names
    of the corruptions that the answers speak for. `size`: how many people gave how many answers.
    `curves` and `points` by "accuracy" and "consistency". `tested`: whether anyone tested if it
    looks like other corruptions; without a test, no class means nothing. `evidence`: how the class
    is known. `reference`: by name.
    """

    name: str
    title: str
    kind: str
    members: tuple[str, ...]
    size: str
    curves: Mapping[str, Curve]
    points: Mapping[str, tuple[Point, ...]]
    tested: bool = False
    evidence: str = ""
    reference: str = ""


@dataclass(frozen=True)
class Said:
    """What a model said to one picture. `confidence`: the probability it gave its answer, 0…1.

    `correct` and `consistent` (same answer as on the clean picture): None where it is not known.
    """

    said: str
    confidence: float | None
    correct: bool | None
    consistent: bool | None


@dataclass(frozen=True)
class Example:
    """One picture of the test set, kept to be looked at, with the answers of all models.

    `corruption`: "clean" for clean ones. `file`: in the run's folder `examples`. `truth`: what it
    shows, "" if nobody says. `delta_v`: None where it cannot be measured.
    """

    corruption: str
    row: int
    picture: str
    truth: str
    delta_v: float | None
    severity: float | None
    parameters: Mapping[str, float]
    file: str
    answers: Mapping[str, Said]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All that one run found; `write_results` and `draw_curves` make files of it.

    `config`: what was asked for. `images`: what was looked at. `coverage`: of each corruption.
    `warnings`: sentences that a reader must know. `people`: the curves of those that models were
    compared with, by experiment. `examples`: clean ones, then by corruption from mild to strong.
    """

    config: Mapping[str, Any]
    images: Mapping[str, Any]
    models: tuple[ModelScore, ...]
    coverage: Mapping[str, Mapping[str, Any]]
    paired: tuple[Paired, ...]
    warnings: tuple[str, ...]
    agreements: tuple[Agreement, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    people: tuple[Experiment, ...] = ()
    examples: tuple[Example, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(model.name for model in self.models)
        return f"<Evaluation of {names} on {self.images['source']}>"


def check_evaluation(evaluation: Any) -> None:
    """Raise a UsageError for what is not the result of `evaluate`."""
    if not isinstance(evaluation, Evaluation):
        raise UsageError(
            f"evaluation must be what evaluate returns, got {type(evaluation).__name__}."
        )
