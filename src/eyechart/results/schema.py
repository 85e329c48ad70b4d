"""Records of results.json: Python objects, JSON, JSON Schema and field documentation.

Records of one model are in `model_results`, records of curves in `curve_results`. Other modules
read, compute, draw and compare results.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pydantic import Field, PrivateAttr

from eyechart.core.arguments import as_text
from eyechart.core.cost import Cost, EnergyUse, energy_use
from eyechart.core.errors import UsageError
from eyechart.core.records import NamedRecords, NullableFloat, Record
from eyechart.core.registry import unknown_name
from eyechart.core.storage.remote import TemporaryFolder
from eyechart.results.curve_results import HumanExperiment, HumanStudy
from eyechart.results.model_results import ModelResults, html_table
from eyechart.results.run_config import RunConfig
from eyechart.scores.curve_significance import Difference
from eyechart.scores.registry import OVERALL
from eyechart.stats.estimate import Estimate
from eyechart.testsets.coverage import CorruptionCoverage

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from eyechart.results.standings import Standings

SCHEMA_VERSION: Literal[1] = 1
"""Version of results.json; increased when a field changes its meaning."""

RESULTS_FILE = "results.json"
EXAMPLES_FOLDER = "examples"
PREDICTIONS_FOLDER = "predictions"


class DamagedImage(Record):
    """An image that was left out."""

    name: str
    """File name of the image."""
    why: str
    """Why the image was left out."""


class ImagesUsed(Record):
    """The images of the run."""

    source: str
    """Name of the dataset: of its folder or file, without its path."""
    digest: str
    """SHA-256 over all images."""
    n_images: int
    """Number of images in the dataset."""
    used: int
    """Number of images in the test set."""
    stimulus: str
    """How the images were resized and cropped."""
    damaged: tuple[DamagedImage, ...]
    """Images that were left out."""
    digests: Mapping[str, str]
    """SHA-256 of each image used, by name."""


class RunInfo(Record):
    """Everything that depends on the machine and the moment of the run."""

    versions: Mapping[str, str]
    """Versions of eyechart, Python and libraries."""
    git: str | None
    """Git commit of the code; null outside a repository."""
    device: str
    """Device on which the models ran."""
    command: str
    """The command as typed; "" for a call from Python."""
    made: str
    """Date of the run, in ISO format."""
    images: str
    """Where the images were read from."""
    n_sessions: int = 1
    """Number of times that the run was started, because it was resumed or split."""
    seconds: Mapping[str, float] = Field(default_factory=dict)
    """Wall time of each stage in seconds, over all sessions."""
    energy: EnergyUse | None = None
    """Energy and emissions over all sessions; null if nothing was measured or stated."""
    unmeasured: tuple[str, ...] = ()
    """Parts of the machine whose energy is unknown, each with the reason."""


class PairedComparison(Record):
    """Comparison of two models under one corruption, on the same samples."""

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
    """How the first model differs from the second."""
    intervals_overlap: bool
    """Whether the 83 % intervals of the areas overlap (the published rule)."""


class ErrorAgreement(Record):
    """Error consistency of two models, or of a model and humans."""

    space: str
    """The label space."""
    first: str
    """The first model."""
    second: str
    """The second model, or humans."""
    kappa: Estimate
    """κ: 1 if both observers err on the same samples, 0 at chance level."""
    trials: int
    """Number of samples that were compared."""


class ExamplePrediction(Record):
    """A model's prediction for an example."""

    prediction: str
    """The predicted class."""
    confidence: NullableFloat
    """Probability of the predicted class, in [0, 1]; null if the model gives none."""
    correct: bool | None
    """Whether the prediction is correct; null without a label."""
    consistent: bool | None
    """Whether this is also the prediction for the clean image; null without a clean image."""


class ExampleImage(Record):
    """One sample of the test set, stored for viewing, with every model's prediction."""

    corruption: str
    """The corruption; "clean" for a clean image."""
    row: int
    """Index of the sample."""
    image: str
    """File name of the image."""
    truth: str
    """Label of the image; "" if it has none."""
    delta_v: NullableFloat
    """Visual change; null where it cannot be measured."""
    severity: NullableFloat
    """Severity; null where the corruption has none."""
    parameters: Mapping[str, float]
    """Parameters of the corruption, except infinite ones, which leave an image unchanged."""
    file: str
    """File name in the examples folder of the run."""
    predictions: Mapping[str, ExamplePrediction]
    """The predictions by model."""


class Results(NamedRecords[ModelResults]):
    """All results of one run: the content of results.json.

    `results["model"]["corruption"].r_a` is a score with its interval; `results["model"].r_a` is the
    mean over corruptions. Results are a mapping from models to their results, which are a mapping
    from corruptions to their scores.

    Example:
        >>> import eyechart as ec
        >>> def mean_color(images):  # a toy model: one score per channel
        ...     return images.mean(dim=(2, 3))
        >>> results = ec.evaluate(
        ...     mean_color, n=20, corruptions=["gaussian_blur"], labels="none", max_images=2,
        ...     bins=4,
        ...     min_per_bin=2, n_bootstrap=10,
        ... )
        >>> results
        <Results of mean_color on 20 demo images>
        >>> list(results), list(results["mean_color"])
        (['mean_color'], ['vcr/gaussian_blur'])
        >>> results.to_arrow().column_names[:5]
        ['model', 'space', 'corruption', 'score', 'value']
        >>> results.predictions().num_rows
        20
    """

    schema_version: Literal[1] = Field(default=SCHEMA_VERSION, alias="schema")
    """Version of this format."""
    config: RunConfig
    """The settings of the run."""
    run: RunInfo
    """What depends on machine and moment: versions, device, command, date, time, energy, paths. All
    other fields are the same when the run is repeated."""
    images: ImagesUsed
    """The images that the models were tested on."""
    warnings: tuple[str, ...]
    """Notes on the interpretation of the scores, one sentence each."""
    coverage: Mapping[str, CorruptionCoverage]
    """Coverage of visual change by corruption."""
    models: tuple[ModelResults, ...]
    """The results of each model."""
    paired: tuple[PairedComparison, ...]
    """Differences between the curves of two models; none with insufficient data."""
    agreements: tuple[ErrorAgreement, ...] = ()
    """Error consistency between models, and with humans."""
    humans: tuple[HumanExperiment, ...] = ()
    """The human experiments to which models were compared."""
    studies: tuple[HumanStudy, ...] = ()
    """The studies from which the human references were exported, with the flow of participants."""
    examples: tuple[ExampleImage, ...] = ()
    """Example images: clean samples, then samples by corruption from mild to strong."""

    _folder: Path | None = PrivateAttr(default=None)
    _temporary: TemporaryFolder | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Run folder with examples and predictions; None if nothing was stored."""
        return self._folder

    def kept_in(self, folder: Path) -> "Results":
        """Return a copy of the results that refers to this run folder."""
        results = self.model_copy()
        results._folder = folder
        return results

    def with_temporary(self, folder: TemporaryFolder) -> "Results":
        """Return a copy of the results that keeps a temporary folder with their predictions."""
        results = self.model_copy()
        results._temporary = folder
        return results

    @property
    def predictions_folder(self) -> Path | None:
        """Folder in which the predictions are; None if they were not kept."""
        return self._folder or (None if self._temporary is None else self._temporary.path)

    def model(self, name: str) -> ModelResults | None:
        """Return the model with this name; None if there is none."""
        return next((model for model in self.models if model.name == name), None)

    def with_command(self, command: str) -> "Results":
        """Return a copy of the results with the command that produced them."""
        return self._with_run(command=command)

    def with_device(self, device: str) -> "Results":
        """Return a copy of the results with the devices on which the models ran."""
        return self._with_run(device=device)

    def with_cost(self, cost: Cost, carbon_intensity: float) -> "Results":
        """Return a copy of the results with the time and energy of all sessions of the run."""
        return self._with_run(
            n_sessions=cost.n_sessions,
            seconds=cost.seconds,
            energy=energy_use(cost.energy, carbon_intensity),
            unmeasured=cost.unmeasured,
        )

    def _with_run(self, **changes: object) -> "Results":
        return self.model_copy(update={"run": self.run.model_copy(update=changes)})

    def with_warnings(self, *warnings: str) -> "Results":
        """Return a copy of the results with additional warnings."""
        return self.model_copy(update={"warnings": (*self.warnings, *warnings)})

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write results.json, results.csv and scores.parquet to a folder; return their paths."""
        from eyechart.results.results_file import write_results

        return write_results(self, folder)

    @overload
    def plot(
        self, corruption: str, /, *, space: str | None = None, ax: "Axes | None" = None
    ) -> "Axes": ...

    @overload
    def plot(self, *corruptions: str, space: str | None = None) -> "Figure": ...

    def plot(
        self, *corruptions: str, space: str | None = None, ax: "Axes | None" = None
    ) -> "Axes | Figure":
        """Draw accuracy and consistency over Δv, and any human curves, with matplotlib.

        Args:
            corruptions: Corruptions to draw, one panel each; all if none is named.
            space: Label space; the primary one if none is named.
            ax: Axes to draw one corruption into; a new figure by default.

        Returns:
            The axes of one named corruption; otherwise the figure, whose `axes` are the panels.
        """
        # Imported here, because reports are a layer above results (see docs/decisions.md).
        from eyechart.reports.figures.curve_plot import plot_curves

        return plot_curves(self, corruptions, space, ax)

    def report(self, path: str | os.PathLike[str], hide: str | Sequence[str] = ()) -> Path:
        """Write the report as one HTML page, like `eyechart report`, and return its path.

        Args:
            path: An .html file.
            hide: What to leave out of a page that will be shared: "paths", "names".
        """
        # Imported here, because reports are a layer above results (see docs/decisions.md).
        from eyechart.reports.html.report_page import report_results

        return report_results(self, path, hide)

    def log(self, *loggers: str) -> list[str]:
        """Log the results to experiment trackers, like `eyechart evaluate --log`.

        Args:
            loggers: Names of trackers, such as "mlflow".

        Returns:
            A sentence for each tracker that says where the results are.
        """
        # Imported here, because loggers are a layer above results (see docs/decisions.md).
        from eyechart.integrations.loggers.log_results import log_results
        from eyechart.integrations.loggers.registry import check_loggers

        check_loggers(loggers)
        return [log_results(self, name) for name in loggers]

    def compare(
        self,
        *others: "Results | str | os.PathLike[str]",
        by: str | None = None,
        labels: str | None = None,
    ) -> "Standings":
        """Rank the models of this run, and of other runs of the same test; see `ec.compare`."""
        from eyechart.results.standings import compare

        return compare(self, *others, by=by, labels=labels)

    def to_arrow(self) -> "pa.Table":
        """Return an Arrow table with one row per model, label space, corruption and score.

        Columns: `model`, `space`, `corruption`, `score`, `value`, the ends of the intervals
        (`low95`, `high95`, `low83`, `high83`), `n_images` and `n_samples`.
        """
        from eyechart.results.scores_file import score_table

        return score_table(self)

    def to_pandas(self) -> Any:
        """Return the table of `to_arrow` as a pandas DataFrame."""
        from eyechart.results.scores_file import as_data_frame

        return as_data_frame(self.to_arrow())

    def to_latex(self, score: str = "r_a", space: str | None = None) -> str:
        """Return a LaTeX table of a score: a row per corruption, a column per model.

        Args:
            score: Name of a score of corruptions, such as "r_a", "hmri_a" or "ce".
            space: Label space; the primary one if none is named.
        """
        # Imported here, because reports are a layer above results (see docs/decisions.md).
        from eyechart.reports.latex import score_latex

        return score_latex(self, score, space)

    def predictions(self, space: str | None = None) -> "pa.Table":
        """Return an Arrow table with one row per model and sample.

        Columns: `model`, `space`, `corruption`, `row` (the sample), `image`, `label` and
        `prediction` (names of classes), `confidence`, `correct`, `consistent` (equal to the
        prediction for the clean image), `delta_v`, `severity` and `parameters`.
        `.to_pandas()` converts it to a DataFrame.

        Args:
            space: Label space; each model's primary one if none is named.

        Raises:
            UsageError: If the predictions were not kept: call `evaluate` with `out`.
        """
        from eyechart.results.recorded_run import prediction_table

        return prediction_table(self, space)

    def _names(self) -> list[str]:
        return [model.name for model in self.models]

    def __getitem__(self, model: str) -> ModelResults:
        record = self.model(as_text(model, "model"))
        if record is None:
            raise unknown_name("model", model, self._names())
        return record

    def __repr__(self) -> str:
        names = ", ".join(model.name for model in self.models)
        return f"<Results of {names} on {self.images.source}>"

    # pydantic's `__str__` would print every field, with all points of all curves.
    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per model with its scores over all corruptions."""
        verdicts = filter(None, (model.primary.verdict for model in self.models))
        rows = {model.name: model.scores for model in self.models}
        return html_table("model", rows, OVERALL, next(verdicts, ""))


def check_results(results: object) -> None:
    """Raise a UsageError unless this is a result of `evaluate`."""
    if not isinstance(results, Results):
        raise UsageError(
            f"evaluation must be the result of evaluate, got {type(results).__name__}."
        )
