"""The records that are results.json: Python objects, JSON, JSON Schema and field documentation.

What computes the numbers, draws them or compares runs does not belong here.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, PrivateAttr, ValidationError

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.records import Known, Real, Record, first_problem
from eyechart.core.registry import unknown_name
from eyechart.curves.curve import Curve
from eyechart.results.run_config import WrittenConfig
from eyechart.scores.curve_significance import Difference, Lead
from eyechart.scores.human_relative import Areas
from eyechart.scores.registry import OVERALL, SCORES, Score, find, values_of
from eyechart.scores.similar import SimilarDifference
from eyechart.stats.estimate import Estimate
from eyechart.testsets.coverage import CorruptionCoverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA_VERSION: Literal[4] = 4
"""Of results.json; grows when a field changes its meaning."""

RESULTS_FILE = "results.json"
EXAMPLES_FOLDER = "examples"

CURVE_POINTS = 101
DIGITS = 6
"""Decimals of curves and bands in the file."""

Ends = tuple[Real, Real]
Numbers = tuple[Known, ...]
Value = TypeVar("Value")


class SampledCurve(Record):
    """A curve over visual change Δv with its pointwise bands, at 101 points."""

    delta_v: Numbers
    """The visual changes at which the curve was sampled."""
    values: Numbers
    """The curve there: a share of 1."""
    low95: Numbers
    """Lower end of the 95 % band."""
    high95: Numbers
    """Upper end of the 95 % band."""
    low83: Numbers
    """Lower end of the 83 % band."""
    high83: Numbers
    """Upper end of the 83 % band."""

    _fitted: Curve | None = PrivateAttr(default=None)

    @property
    def fitted(self) -> Curve:
        """The curve itself, with its replicates; a file does not hold it."""
        if self._fitted is None:
            raise UsageError("Results that were read from a file hold no fitted curves.")
        return self._fitted


class ModelCurve(SampledCurve):
    """A model's curve, and the bins that it was fitted to."""

    bin_edges: Numbers
    """Edges of the bins of visual change, one more than there are bins."""
    bin_counts: Numbers
    """Weight of the samples in each bin: their number, unless classes were weighted."""
    bin_rates: Numbers
    """Share of correct (or consistent) predictions in each bin; null in empty ones."""
    smoothing: Known
    """The smoothing parameter of the spline."""
    left_anchor: Known
    """Value that the curve has at Δv 0, null for none."""
    right_anchor: Known
    """Value that the curve has at Δv 1, null for none."""

    @classmethod
    def of(cls, curve: Curve) -> "ModelCurve":
        """Return the record of a fitted curve."""
        record = cls(
            **sample_curve(curve).model_dump(),
            bin_edges=tuple(curve.bins.edges),
            bin_counts=tuple(curve.bins.counts),
            bin_rates=tuple(curve.bins.rates),
            smoothing=curve.smoothing,
            left_anchor=curve.left,
            right_anchor=curve.right,
        )
        record._fitted = curve
        return record


@lru_cache(maxsize=64)
def sample_curve(curve: Curve) -> SampledCurve:
    """Return the record of a fitted curve: its values and bands at evenly spaced visual changes."""
    delta_v = [index / (CURVE_POINTS - 1) for index in range(CURVE_POINTS)]
    low95, high95 = curve.band(delta_v, 0.95)
    low83, high83 = curve.band(delta_v, 0.83)
    record = SampledCurve(
        delta_v=tuple(delta_v),
        values=_rounded(curve(delta_v)),
        low95=_rounded(low95),
        high95=_rounded(high95),
        low83=_rounded(low83),
        high83=_rounded(high83),
    )
    record._fitted = curve
    return record


def _rounded(values: FloatArray) -> Numbers:
    return tuple(round(float(value), DIGITS) for value in values)


class HumanComparison(Record):
    """A model's curve compared with the human curve of the same corruption."""

    about: str
    """The human reference in words: who responded, how many, direct or transferred."""
    kind: str
    """The class of visually similar corruptions that the curve stands for, "" for none."""
    hmri: Estimate
    """Human-relative model robustness index: the share of the human area that the model reaches."""
    hmri_bounds: Ends
    """Between which HMRI lies whatever the model's curve does where nothing was observed."""
    mrsi: Estimate
    """Model robustness superiority index: the share of the model's area above the human curve."""
    scenario: str
    """Who is ahead by a bootstrap test along both curves, or that there is insufficient data."""
    corrected_for_chance: bool
    """Whether both curves are corrected for chance."""
    areas: Areas
    """The areas behind both indices."""
    leads: tuple[Lead, ...]
    """Ranges of Δv in which either curve is above the other."""
    significant: tuple[Lead, ...]
    """Ranges in which the 83 % bands do not overlap (the published rule)."""
    tested: tuple[Lead, ...]
    """Ranges in which one is ahead by the test behind `scenario`."""
    p_people: float
    """P-value of humans being ahead anywhere, corrected for the number of corruptions."""
    p_model: float
    """P-value of the model being ahead anywhere, corrected for the number of corruptions."""
    line: SampledCurve
    """The human curve."""
    model_line: SampledCurve
    """The model's curve on the same scale: corrected for chance where the human curve is."""
    human_bins: int | None = None
    """Number of bins that the human curve was fitted to."""
    human_left_anchor: Known = None
    """Value that the human curve has at Δv 0, null for none."""
    human_right_anchor: Known = None
    """Value that the human curve has at Δv 1, null for none."""
    reference: str = ""
    """Name of the human reference."""
    experiment: str = ""
    """Name of the experiment in that reference."""
    observers: int = 0
    """Number of humans behind the curve, 0 if unknown."""


class PropertyResults(Record):
    """Accuracy or consistency of one model under one corruption, in one label space."""

    rate: Estimate
    """Share of correct (or consistent) predictions over all samples."""
    answers: int
    """Number of samples."""
    robustness: Estimate | None = None
    """Area below the curve, R_a or R_p; null where there is no curve."""
    bounds: Ends | None = None
    """Between which the area lies whatever the curve does where nothing was observed."""
    observed: tuple[tuple[float, float], ...] = ()
    """Ranges of Δv with enough samples."""
    note: str = ""
    """Why there is no curve, "" if there is one."""
    people: HumanComparison | None = None
    """The comparison with humans; null where there is none."""
    people_note: str = ""
    """Why there is no comparison with humans, "" if there is one."""
    curve: ModelCurve | None = None
    """The curve over visual change; null where there is none."""


class Scored(Record):
    """A record whose scores are attributes too, by the names that `scores.registry` declares."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """The scores that exist, by name."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Estimate:
        # pydantic keeps private attributes behind its own __getattr__; theirs begin with _
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc,no-any-return]
        scores = self.scores
        if name in scores:
            return scores[name]
        if name in SCORES:
            raise AttributeError(self._why_missing(SCORES[name]))
        known = [*SCORES, *type(self).model_fields]
        raise AttributeError(str(unknown_name("attribute", name, known)))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.scores]

    def _why_missing(self, score: Score) -> str:
        return f"There is no {score.name} here: it needs {', '.join(score.needs)}."


class CorruptionResults(Scored):
    """One model under one corruption, in one label space.

    Every score is an attribute: `results["resnet50"]["gaussian_noise"].r_a`.
    """

    unmeasurable: int
    """Number of samples without a visual change."""
    error: Estimate | None
    """Error rate over all samples; null without labels."""
    clean_error: Estimate | None
    """Error rate on the clean images, each counted as often as it is among the samples."""
    computed_scores: Mapping[str, Estimate] = Field(default_factory=dict)
    """Scores that the registry computes from the predictions, by name: top5_accuracy, ece."""
    error_by_severity: Mapping[str, float]
    """Error rate at each published severity, where there are such levels."""
    accuracy: PropertyResults | None
    """Whether predictions are correct; null without labels."""
    consistency: PropertyResults | None
    """Whether predictions are those for the clean image; null without clean images."""

    @property
    def properties(self) -> dict[str, PropertyResults]:
        """Accuracy and consistency, where they exist, by the letter of their scores: a, p."""
        both = {"a": self.accuracy, "p": self.consistency}
        return {letter: score for letter, score in both.items() if score is not None}

    _baseline_scores: Mapping[str, Estimate] = PrivateAttr(default_factory=dict)
    """CE and relative CE, which the file keeps by baseline and not by corruption."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """The scores that exist, by name: r_a, r_p, hmri_a, mrsi_a, error, ce."""
        return values_of(self) | dict(self._baseline_scores)

    def with_baseline_scores(self, scores: Mapping[str, Estimate]) -> "CorruptionResults":
        """Return the results of the corruption with CE and relative CE among its scores."""
        results = self.model_copy()
        results._baseline_scores = scores
        return results

    def _why_missing(self, score: Score) -> str:
        results = self.properties.get(score.letter)
        note = "" if results is None else results.note or results.people_note
        return f"There is no {score.name} here: {note}." if note else super()._why_missing(score)


class NormalizedErrors(Record):
    """A model's errors divided by a baseline's: CE and relative CE, as shares of 1."""

    baseline: str
    """Whose errors were divided by."""
    ce: Mapping[str, Estimate]
    """Corruption error of each corruption that the baseline has."""
    mce: Estimate | None
    """Mean CE over all corruptions of the suite; null where one is missing."""
    relative_ce: Mapping[str, Estimate]
    """Relative CE, what corruption adds to the clean error, of each corruption."""
    relative_mce: Estimate | None
    """Mean relative CE over all corruptions of the suite; null where one is missing."""
    note: str = ""
    """Why a mean is missing, "" if none is."""

    @property
    def tables(self) -> dict[str, Mapping[str, Estimate]]:
        """Both scores of all corruptions, by name."""
        return {"ce": self.ce, "relative_ce": self.relative_ce}

    @property
    def means(self) -> dict[str, Estimate]:
        """The means that exist, by name."""
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
    """One class of images: how often a model is correct, clean and corrupted."""

    label: int
    """Index of the class."""
    name: str
    """Name of the class."""
    pictures: int
    """Number of images."""
    answers: int
    """Number of corrupted samples."""
    clean: Known
    """Accuracy on clean images; null without any."""
    corrupted: Estimate
    """Accuracy over all corrupted samples."""
    worst: str
    """The corruption with the lowest accuracy."""
    worst_rate: Known
    """The accuracy under that corruption."""
    instead: str
    """The most frequent incorrect prediction, "" if there is none."""
    instead_share: float | None
    """Its share of all incorrect predictions for this class; null if there are none."""


class SpaceResults(Scored):
    """One model in one label space: "native", or "entry16" for the 16 categories of humans.

    Every score is an attribute, as the mean over corruptions or of the whole test: `.r_a`, `.mce`.
    """

    pictures: int
    """Number of images."""
    classes: int
    """Number of classes among them."""
    left_out: int
    """Number of images without a label in this space."""
    verdict: str
    """That there is insufficient data, or ""."""
    clean_accuracy: Estimate | None
    """Accuracy on clean images; null without labels or clean images."""
    means: Mapping[str, Estimate]
    """Mean over corruptions of each score, by its name: r_a, r_p, hmri_a, mrsi_a, error, …"""
    corruptions: Mapping[str, CorruptionResults]
    """The scores by corruption."""
    corruption_error: NormalizedErrors | None
    """CE and relative CE; null without a baseline."""
    similar: tuple[SimilarPair, ...]
    """Differences between visually similar corruptions."""
    by_class: tuple[ClassResults, ...]
    """Each class of images."""

    @property
    def scores(self) -> dict[str, Estimate]:
        """The scores over all corruptions that exist, by name: clean_accuracy, r_a, mce."""
        values = {score.name: find(self, score.overall_path) for score in OVERALL}
        return {name: estimate for name, estimate in values.items() if estimate is not None}

    def find(self, corruption: str) -> str:
        """Return a corruption's name as it is here; `fog` is vcr/fog where no other fog is."""
        if corruption in self.corruptions:
            return corruption
        same = [name for name in self.corruptions if name.rpartition("/")[2] == corruption]
        if len(same) != 1:
            raise unknown_name("corruption", corruption, self.corruptions)
        return same[0]

    def __getitem__(self, corruption: str) -> CorruptionResults:
        corruption = self.find(corruption)
        results = self.corruptions[corruption]
        if self.corruption_error is None:
            return results
        tables = self.corruption_error.tables.items()
        return results.with_baseline_scores(
            {name: table[corruption] for name, table in tables if corruption in table}
        )


class ModelResults(Scored):
    """One model, in every label space that was asked for or that the human data need.

    Its scores are those of the primary label space: `results["resnet50"].r_a`.
    """

    name: str
    """Name of the model."""
    identity: str
    """Digest of the weights, and what else tells two models of one name apart."""
    classes: int
    """Number of classes that it predicts."""
    category: str
    """Category of models, as studies group them, "" if unknown."""
    outputs: tuple[str, ...]
    """Names of its classes, none if they are those of ImageNet."""
    spaces: Mapping[str, SpaceResults]
    """The scores by label space; the first is the primary one."""
    trained_on: tuple[str, ...] = ()
    """Corruptions that it was trained on, as its file says."""
    marked: tuple[str, ...] = ()
    """Corruptions of this test that count as trained on."""

    @property
    def primary(self) -> SpaceResults:
        """The scores in the primary label space: the images' own classes, where they are scored."""
        return next(iter(self.spaces.values()))

    @property
    def scores(self) -> dict[str, Estimate]:
        """The scores over all corruptions in the primary label space, by name."""
        return self.primary.scores

    def space(self, name: str) -> SpaceResults:
        """Return the scores in a label space: "native" or "entry16"."""
        return _named("label space", name, self.spaces)

    def __getitem__(self, corruption: str) -> CorruptionResults:
        return self.primary[corruption]


class DamagedImage(Record):
    """An image that was left out."""

    name: str
    """Its file name."""
    why: str
    """The reason."""


class ImagesUsed(Record):
    """The images of the run."""

    source: str
    """Where they are from."""
    digest: str
    """SHA-256 over all images."""
    pictures: int
    """Number of images there."""
    used: int
    """Number of images that are in the test set."""
    stimulus: str
    """How they were resized and cropped."""
    damaged: tuple[DamagedImage, ...]
    """Images that were left out."""
    digests: Mapping[str, str]
    """SHA-256 of each image used, by name."""


class RunProvenance(Record):
    """What produced the results."""

    versions: Mapping[str, str]
    """Versions of eyechart, Python and libraries."""
    git: str | None
    """Commit of the code, null outside a repository."""
    device: str
    """The device of the models."""
    command: str
    """The command as typed, "" for a call from Python."""
    made: str
    """When, as an ISO date."""


class PairedComparison(Record):
    """Two models under one corruption, on the same samples."""

    space: str
    """The label space."""
    corruption: str
    """The corruption."""
    property: str
    """"a" for accuracy, "p" for consistency."""
    first: str
    """The first model."""
    second: str
    """The second model."""
    difference: Difference
    """How the first differs from the second."""
    intervals_overlap: bool
    """Whether the 83 % intervals of the areas overlap, the published rule."""


class ErrorAgreement(Record):
    """Error consistency of two models, or of a model and humans."""

    space: str
    """The label space."""
    first: str
    """The first model."""
    second: str
    """The second model, or humans."""
    kappa: Estimate
    """κ: 1 if both err on the same samples, 0 if as often as by chance."""
    trials: int
    """Number of samples that were compared."""


class HumanPoint(Record):
    """Human responses in one condition or bin."""

    delta_v: tuple[float, float, float]
    """The 5th, 50th and 95th percentile of visual change."""
    answers: int
    """Number of responses."""
    rate: float
    """Share of correct (or consistent) responses."""
    interval95: tuple[float, float]
    """Its 95 % interval."""
    interval83: tuple[float, float]
    """Its 83 % interval."""


class HumanCurve(Record):
    """The human curve of one experiment, and the rates behind it."""

    line: SampledCurve
    """The curve."""
    points: tuple[HumanPoint, ...]
    """The rates by condition or bin; none where the curve is corrected for chance."""


class HumanExperiment(Record):
    """One experiment with humans."""

    name: str
    """Name of the experiment."""
    title: str
    """Its title."""
    kind: str
    """The class of visually similar corruptions, "" for none."""
    members: tuple[str, ...]
    """Bare names of the corruptions that the responses stand for."""
    size: str
    """Number of humans and responses, in words."""
    accuracy: HumanCurve | None
    """Whether responses were correct."""
    consistency: HumanCurve | None
    """Whether responses were those to the clean image."""
    tested: bool = False
    """Whether similarity to other corruptions was tested."""
    evidence: str = ""
    """How the class of similar corruptions is known."""
    reference: str = ""
    """Name of the human reference."""


class ExamplePrediction(Record):
    """A model's prediction for an example."""

    said: str
    """The predicted class."""
    confidence: Known
    """Its probability, 0 … 1; null if the model gives none."""
    correct: bool | None
    """Whether it is correct; null without a label."""
    consistent: bool | None
    """Whether it is the prediction for the clean image; null without one."""


class ExampleImage(Record):
    """One sample of the test set, kept to be looked at, with every model's prediction."""

    corruption: str
    """The corruption, "clean" for a clean image."""
    row: int
    """Index of the sample."""
    picture: str
    """File name of the image."""
    truth: str
    """Its label, "" without one."""
    delta_v: Known
    """Visual change; null where it cannot be measured."""
    severity: Known
    """Severity; null where the corruption has none."""
    parameters: Mapping[str, float]
    """Parameters of the corruption."""
    file: str
    """File name in the run's folder of examples."""
    answers: Mapping[str, ExamplePrediction]
    """The predictions by model."""


class Results(Record):
    """All results of one run: the content of results.json."""

    schema_version: Literal[4] = Field(default=SCHEMA_VERSION, alias="schema")
    """Version of this format."""
    config: WrittenConfig
    """The settings of the run."""
    provenance: RunProvenance
    """Versions, device, command and date."""
    images: ImagesUsed
    """The images."""
    warnings: tuple[str, ...]
    """What must be known before reading the scores, a sentence each."""
    coverage: Mapping[str, CorruptionCoverage]
    """Coverage of visual change by corruption."""
    models: tuple[ModelResults, ...]
    """The models."""
    paired: tuple[PairedComparison, ...]
    """Differences between the curves of two models."""
    agreements: tuple[ErrorAgreement, ...] = ()
    """Error consistency between models, and with humans."""
    people: tuple[HumanExperiment, ...] = ()
    """The experiments with humans that models were compared with."""
    examples: tuple[ExampleImage, ...] = ()
    """Clean samples, then samples by corruption from mild to strong."""

    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Where the run keeps its examples and predictions; None if nothing was kept."""
        return self._folder

    def kept_in(self, folder: Path) -> "Results":
        """Return the results with the folder of their run."""
        results = self.model_copy()
        results._folder = folder
        return results

    def model(self, name: str) -> ModelResults | None:
        """Return the model of that name, if it exists."""
        return next((model for model in self.models if model.name == name), None)

    def with_command(self, command: str) -> "Results":
        """Return the results with the command that produced them."""
        provenance = self.provenance.model_copy(update={"command": command})
        return self.model_copy(update={"provenance": provenance})

    def with_warnings(self, *warnings: str) -> "Results":
        """Return the results with more warnings."""
        return self.model_copy(update={"warnings": (*self.warnings, *warnings)})

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write results.json, results.csv and scores.parquet into a folder; return their paths."""
        from eyechart.results.writing import write_results

        return write_results(self, folder)

    def plot(self, *corruptions: str, space: str | None = None) -> "Figure":
        """Return a matplotlib figure: accuracy and consistency over Δv, with humans where known.

        Args:
            corruptions: a panel each; all of them if none is named.
            space: the label space; the primary one if none is named.
        """
        from eyechart.reports.figures.curve_plot import plot_curves

        return plot_curves(self, corruptions, space)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML page, as `eyechart report` does; return its path."""
        from eyechart.reports.html.report_page import report_results

        return report_results(self, path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the lines and columns of results.csv."""
        from eyechart.results.writing import csv_columns, lines_of

        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError("to_pandas needs pandas: pip install pandas.") from None
        return pandas.DataFrame(list(lines_of(self)), columns=csv_columns())

    def __getitem__(self, model: str) -> ModelResults:
        return _named("model", model, {record.name: record for record in self.models})

    def __repr__(self) -> str:
        names = ", ".join(model.name for model in self.models)
        return f"<Results of {names} on {self.images.source}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a line for each model, its scores over all corruptions."""
        rows = {model.name: model.scores for model in self.models}
        columns = [score for score in OVERALL if any(score.name in row for row in rows.values())]
        head = "".join(f"<th>{escape(score.symbol)}</th>" for score in columns)
        lines = [
            f"<tr><td>{escape(name)}</td>{''.join(_html_cell(row, score) for score in columns)}"
            "</tr>"
            for name, row in rows.items()
        ]
        return f"<table><tr><th>model</th>{head}</tr>{''.join(lines)}</table>"


def _html_cell(scores: Mapping[str, Estimate], score: Score) -> str:
    if score.name not in scores:
        return "<td></td>"
    estimate = scores[score.name]
    value, low, high = (
        f"{number * score.scale:.{score.decimals}f}"
        for number in (estimate.value, *estimate.interval(0.95))
    )
    return f"<td>{value} ({low}–{high})</td>"


def _named(kind: str, name: str, records: Mapping[str, Value]) -> Value:
    if name not in records:
        raise unknown_name(kind, name, records)
    return records[name]


def check_results(results: object) -> None:
    """Raise a UsageError for what is not the result of `evaluate`."""
    if not isinstance(results, Results):
        raise UsageError(f"evaluation must be what evaluate returns, got {type(results).__name__}.")


class _Version(Record, extra="ignore"):
    """The version of a file, read before the rest."""

    schema_version: int = Field(alias="schema")


def read_results(folder: Path) -> Results:
    """Return the results of a finished run in a folder.

    Raises:
        UsageError: in one sentence, for a folder without results, and for a file of another
            version, or of another program, or a damaged one.
    """
    path = folder / RESULTS_FILE
    if folder.is_file():
        raise UsageError(f"Give the folder of a run, {folder.parent}, not the file {folder.name}.")
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no finished run (there is no {RESULTS_FILE}): give the --out of an"
            " eyechart evaluate that came to its end."
        )
    try:
        content = path.read_bytes()
    except OSError:
        raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
    version = _version_of(content, path)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} was written by another version of eyechart (schema {version}, not"
            f" {SCHEMA_VERSION}): evaluate again into another folder."
        )
    try:
        # strict: a number in quotes is damage, not a number
        return Results.model_validate_json(content, strict=True).kept_in(folder)
    except ValidationError as error:
        problem = first_problem(error).rstrip(".")
        raise UsageError(f"{path} is damaged ({problem}): run the evaluation again.") from None


def _version_of(content: bytes, path: Path) -> int:
    try:
        return _Version.model_validate_json(content, strict=True).schema_version
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise UsageError(f"{path} cannot be read: run the evaluation again.") from None
        raise UsageError(
            f"{path} was not written by eyechart evaluate: give another folder."
        ) from None
