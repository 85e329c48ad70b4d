"""Records of one model in results.json: by label space and by corruption.

Records of the whole run are in `schema`; nothing is computed here.
"""

from collections.abc import Mapping, Sequence
from html import escape

from pydantic import Field, PrivateAttr

from eyechart.core.arguments import as_text
from eyechart.core.records import NamedRecords, NullableFloat, Record
from eyechart.core.registry import unknown_name
from eyechart.results.curve_results import Ends, HumanComparison, ModelCurve
from eyechart.scores.break_point import BreakPoint
from eyechart.scores.registry import DECLARED, OVERALL, SCORES, Score, find, values_of
from eyechart.scores.similar import SimilarDifference
from eyechart.stats.estimate import Estimate

BAR = "rgba(70, 130, 180, 0.3)"
"""Color of bars: transparent, so that the text stays readable on light and on dark pages."""


def html_table(
    head: str,
    rows: Mapping[str, Mapping[str, Estimate]],
    scores: Sequence[Score],
    note: str = "",
) -> str:
    """Return a table with a row per name and a column per score that any of the rows has.

    Args:
        head: Title of the first column.
        rows: Scores of each row, by row name and score name.
        scores: Declarations of the scores, in the order of the columns.
        note: A note on insufficient data, shown above the table.
    """
    columns = [score for score in scores if any(score.name in row for row in rows.values())]
    titles = "".join(f"<th>{escape(score.symbol)}</th>" for score in columns)
    lines = [
        f"<tr><td>{escape(name)}</td>{''.join(_cell(row, score) for score in columns)}</tr>"
        for name, row in rows.items()
    ]
    caption = f"<caption>{escape(note[:1].upper() + note[1:])}</caption>" if note else ""
    return f"<table>{caption}<tr><th>{escape(head)}</th>{titles}</tr>{''.join(lines)}</table>"


def _cell(scores: Mapping[str, Estimate], score: Score) -> str:
    estimate = scores.get(score.name)
    if estimate is None or not estimate.is_known:
        return "<td>–</td>"
    value, low, high = map(score.text, (estimate.value, *estimate.interval()))
    interval = f" ({low}–{high})" if estimate.has_interval else ""
    # A bar shows the value on a scale from 0 to 1, or from 0 to 100 %.
    share = f"{100 * min(1.0, max(0.0, estimate.value)):.0f}%"
    bar = f"linear-gradient(90deg, {BAR} {share}, transparent {share})"
    return f'<td style="background: {bar}">{value}{interval}</td>'


class PropertyResults(Record):
    """Accuracy or consistency of one model under one corruption, in one label space."""

    rate: Estimate
    """Fraction of correct (or consistent) predictions over all samples."""
    n_samples: int
    """Number of samples."""
    robustness: Estimate | None = None
    """Area below the curve, R_a or R_p; null where there is no curve."""
    bounds: Ends | None = None
    """Bounds of the area over all possible shapes of the curve outside the observed ranges."""
    break_point: BreakPoint | None = None
    """Visual change at which the curve has fallen halfway to chance; null without a curve."""
    observed: tuple[tuple[float, float], ...] = ()
    """Ranges of Δv with enough samples."""
    note: str = ""
    """Why there is no curve; "" if there is one."""
    humans: HumanComparison | None = None
    """The comparison with humans; null where there is none."""
    human_note: str = ""
    """Why there is no comparison with humans; "" if there is one."""
    curve: ModelCurve | None = None
    """The curve over visual change; null where there is none."""


class Scored(Record):
    """A record with scores as attributes, named as declared in `scores.registry`."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """Available scores by name."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Estimate:
        # pydantic stores private attributes behind its own __getattr__; their names begin with _.
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc,no-any-return]
        scores = self.scores
        if name in scores:
            return scores[name]
        # A known score that is missing here gets a reason; an unknown name gets suggestions.
        if name in SCORES:
            raise AttributeError(self._why_missing(SCORES[name]))
        known = [*SCORES, *type(self).model_fields]
        raise AttributeError(str(unknown_name("attribute", name, known)))

    def __dir__(self) -> list[str]:
        # Makes scores visible to tab completion.
        return [*super().__dir__(), *self.scores]

    def _why_missing(self, score: Score) -> str:
        return f"There is no {score.name} here: it needs {', '.join(score.needs)}."


class ConditionResults(Record):
    """Rates at a single condition of a corruption, such as a quarter turn."""

    condition: str
    """Name of the condition, such as 90° (clockwise)."""
    n_samples: int
    """Number of samples."""
    accuracy: Estimate | None
    """Fraction of correct predictions; null without labels."""
    consistency: Estimate | None
    """Fraction of predictions equal to that for the clean image; null without clean images."""
    human_accuracy: float | None = None
    """Published human accuracy in this condition; null if unknown, or in another label space."""
    human_trials: int | None = None
    """Number of human trials."""
    human_source: str = ""
    """Publication of the human accuracy."""


class CorruptionResults(Scored):
    """Results of one model under one corruption, in one label space.

    Every score is an attribute: `results["resnet50"]["gaussian_noise"].r_a`.
    """

    unmeasurable: int
    """Number of samples whose visual change cannot be measured."""
    error: Estimate | None
    """Error rate over all samples; null without labels."""
    clean_error: Estimate | None
    """Error rate on the clean images, each weighted by its number of samples."""
    computed_scores: Mapping[str, Estimate] = Field(default_factory=dict)
    """Scores that the registry computes from the predictions, by name: top5_accuracy, ece."""
    error_by_severity: Mapping[str, float]
    """Error rate at each published severity; empty if the corruption has none."""
    accuracy: PropertyResults | None
    """Results for the accuracy of predictions; null without labels."""
    consistency: PropertyResults | None
    """Results for agreement with the clean image's prediction; null without clean images."""
    conditions: tuple[ConditionResults, ...] = ()
    """Rates at single conditions: quarter turns, or the only condition of a corruption."""

    @property
    def properties(self) -> dict[str, PropertyResults]:
        """Accuracy and consistency, where available, by the letter of their scores: a, p."""
        both = {"a": self.accuracy, "p": self.consistency}
        return {letter: score for letter, score in both.items() if score is not None}

    _baseline_scores: Mapping[str, Estimate] = PrivateAttr(default_factory=dict)
    """CE and relative CE, which the file stores by baseline rather than by corruption."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """Available scores by name: r_a, r_p, hmri_a, mrsi_a, error, ce."""
        return values_of(self) | dict(self._baseline_scores)

    def with_baseline_scores(self, scores: Mapping[str, Estimate]) -> "CorruptionResults":
        """Return the results with CE and relative CE among the scores."""
        # Records are frozen; private attributes are set on a copy.
        results = self.model_copy()
        results._baseline_scores = scores
        return results

    def _why_missing(self, score: Score) -> str:
        results = self.properties.get(score.letter)
        note = "" if results is None else results.note or results.human_note
        return f"There is no {score.name} here: {note}." if note else super()._why_missing(score)


class NormalizedErrors(Record):
    """A model's errors divided by a baseline's errors: CE and relative CE, as ratios."""

    baseline: str
    """Name of the baseline."""
    ce: Mapping[str, Estimate]
    """Corruption error of each corruption for which the baseline has an error rate."""
    mce: Estimate | None
    """Mean CE over all corruptions of the suite; null if the CE of any corruption is missing."""
    relative_ce: Mapping[str, Estimate]
    """Relative CE of each corruption, computed from the increase over the clean error."""
    relative_mce: Estimate | None
    """Mean relative CE over all corruptions of the suite; null if any relative CE is missing."""
    note: str = ""
    """Why a mean is missing; "" if no mean is missing."""

    @property
    def tables(self) -> dict[str, Mapping[str, Estimate]]:
        """CE and relative CE of all corruptions, by the name of the score."""
        return {"ce": self.ce, "relative_ce": self.relative_ce}

    @property
    def means(self) -> dict[str, Estimate]:
        """Available mCE and relative mCE, by name."""
        # Means are None where a corruption of the suite is missing.
        both = {"mce": self.mce, "relative_mce": self.relative_mce}
        return {name: mean for name, mean in both.items() if mean is not None}


class SimilarPair(SimilarDifference):
    """How a model's scores differ between two visually similar corruptions."""

    first: str
    """The first corruption."""
    second: str
    """The second corruption."""
    property: str
    """"a" for accuracy, "p" for consistency."""


class ClassResults(Record):
    """A model's accuracy on the clean and corrupted images of one class."""

    label: int
    """Index of the class."""
    name: str
    """Name of the class."""
    n_images: int
    """Number of images."""
    n_samples: int
    """Number of corrupted samples."""
    clean: NullableFloat
    """Accuracy on clean images; null if the class has no clean images."""
    corrupted: Estimate
    """Accuracy over all corrupted samples."""
    worst: str
    """The corruption with the lowest accuracy."""
    worst_rate: NullableFloat
    """The accuracy under the corruption `worst`."""
    instead: str
    """The most frequent incorrect prediction; "" if there is none."""
    instead_share: float | None
    """Fraction of incorrect predictions that equal `instead`; null if all are correct."""


class SpaceResults(Scored, NamedRecords[CorruptionResults]):
    """Results of one model in a label space: "native", or "entry16" for the 16 human categories.

    A mapping from corruptions to their scores. Every overall score is an attribute, such as `.r_a`
    or `.mce`: a mean over corruptions, or one value for the whole test.
    """

    n_images: int
    """Number of images."""
    classes: int
    """Number of classes to which the images belong."""
    left_out: int
    """Number of images without a label in this label space."""
    verdict: str
    """A note on insufficient data, with which no claim is made; "" if the data suffice."""
    clean_accuracy: Estimate | None
    """Accuracy on clean images; null without labels or clean images."""
    means: Mapping[str, Estimate]
    """Mean of each score over corruptions, by name: r_a, r_p, hmri_a, mrsi_a, error, …"""
    corruptions: Mapping[str, CorruptionResults]
    """The scores by corruption."""
    corruption_error: NormalizedErrors | None
    """CE and relative CE; null without a baseline."""
    similar: tuple[SimilarPair, ...]
    """Differences between visually similar corruptions; empty with insufficient data."""
    by_class: tuple[ClassResults, ...]
    """Results for each class of images."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """Available scores over all corruptions, by name: clean_accuracy, r_a, mce."""
        # Paths come from the registry, so that a new score needs no change here.
        values = {score.name: find(self, score.overall_path) for score in OVERALL}
        return {name: estimate for name, estimate in values.items() if estimate is not None}

    def find(self, corruption: str) -> str:
        """Return the full name of a corruption; `fog` means vcr/fog if it is the only match."""
        if as_text(corruption, "corruption") in self.corruptions:
            return corruption
        # A bare name is accepted only if it is unambiguous.
        same = [name for name in self.corruptions if name.rpartition("/")[2] == corruption]
        if len(same) != 1:
            raise unknown_name("corruption", corruption, self.corruptions)
        return same[0]

    def _names(self) -> list[str]:
        return list(self.corruptions)

    def __repr__(self) -> str:
        return f"<SpaceResults under {', '.join(self.corruptions)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per corruption with its scores."""
        scores = {name: record.scores for name, record in self.items()}
        main = [score for score in DECLARED if score.is_main]
        return html_table("corruption", scores, main, self.verdict)

    def __getitem__(self, corruption: str) -> CorruptionResults:
        corruption = self.find(corruption)
        results = self.corruptions[corruption]
        if self.corruption_error is None:
            return results
        # CE is stored by baseline; it is attached on access, so that it reads like other scores.
        tables = self.corruption_error.tables.items()
        return results.with_baseline_scores(
            {name: table[corruption] for name, table in tables if corruption in table}
        )


class ModelResults(Scored, NamedRecords[CorruptionResults]):
    """Results of one model in all label spaces that were requested or that the human data need.

    A mapping from corruptions to their scores in the primary label space. The overall scores in
    this label space are attributes of this record: `results["resnet50"].r_a`.
    """

    name: str
    """Name of the model."""
    identity: str
    """Digest of the weights and other settings that distinguish models of the same name."""
    classes: int
    """Number of classes that the model predicts."""
    category: str
    """Category to which studies assign the model; "" if unknown."""
    outputs: tuple[str, ...]
    """Names of the model's classes; empty for ImageNet's classes."""
    spaces: Mapping[str, SpaceResults]
    """The scores by label space; the first is the primary one."""
    trained_on: tuple[str, ...] = ()
    """Corruptions that the model was trained on, according to its file."""
    marked: tuple[str, ...] = ()
    """Corruptions of this test that count as seen in training."""

    @property
    def primary(self) -> SpaceResults:
        """Scores in the primary label space: the dataset's classes, if they are scored."""
        # `spaces` has the same order as the file, in which the primary one comes first.
        return next(iter(self.spaces.values()))

    @property
    def scores(self) -> dict[str, Estimate]:
        """Scores over all corruptions in the primary label space, by name."""
        return self.primary.scores

    def space(self, name: str) -> SpaceResults:
        """Return the scores in a label space: "native" or "entry16"."""
        if as_text(name, "space") not in self.spaces:
            raise unknown_name("label space", name, self.spaces)
        return self.spaces[name]

    def __getitem__(self, corruption: str) -> CorruptionResults:
        return self.primary[corruption]

    def _names(self) -> list[str]:
        return list(self.primary.corruptions)

    def __repr__(self) -> str:
        return f"<ModelResults of {self.name} under {', '.join(self)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per corruption with its scores."""
        return self.primary._repr_html_()
