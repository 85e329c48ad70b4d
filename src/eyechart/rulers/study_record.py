"""Records of the study of rulers: Python objects, and the content of its study.json."""

from typing import Literal

from eyechart.core.records import NullableFloat, Record
from eyechart.stats.estimate import Estimate

StatisticName = Literal["explained", "explained_left_out", "error"]
"""The numbers of the table, by their names in `agreement.Agreement`."""


class ConditionRecord(Record):
    """One condition of a human experiment."""

    experiment: str
    """The experiment."""
    condition: str
    """The condition, as named in the human data."""
    trials: int
    """Number of human trials."""
    accuracy: float
    """Fraction of correct responses."""
    rescaled: float
    """Accuracy rescaled to 0 (guessing) … 1 (clean images of the experiment)."""


class StatisticRecord(Record):
    """A statistic of agreement with its uncertainty."""

    estimate: Estimate
    """The value, with intervals from resampled images and observers."""
    jackknife: NullableFloat
    """Standard error from leaving out whole experiments; null with fewer than three."""


class AgreementRecord(Record):
    """How well one ruler agrees with humans."""

    ruler: str
    """The ruler's name; for the fit, its description."""
    version: int
    """The ruler's version."""
    n_images: int
    """Number of images that the ruler could measure."""
    explained: StatisticRecord
    """Explained variance of one monotone curve."""
    explained_left_out: StatisticRecord
    """Explained variance if each condition is predicted from all others."""
    error: StatisticRecord
    """Mean over experiments of the rms error on a left-out experiment."""
    errors: dict[str, float]
    """The rms error on each left-out experiment."""
    transfer_errors: dict[str, float]
    """The rms error on each experiment that is not a main one, predicted from the main ones."""
    values: tuple[float, ...]
    """The mean value in each condition."""
    curve: tuple[tuple[float, float], ...]
    """Points of the monotone curve: value and rescaled accuracy."""


class DifferenceRecord(Record):
    """A paired difference between two rulers."""

    first: str
    """The first ruler."""
    second: str
    """The second ruler."""
    statistic: StatisticName
    """The statistic that is compared."""
    difference: float
    """First minus second."""
    interval95: tuple[float, float]
    """95 % interval of the difference."""
    p_value: float
    """Two-sided p-value, Holm-corrected over all pairs."""


class ParameterRecord(Record):
    """A fitted parameter of VIF after registration."""

    name: Literal["noise_variance", "exponent", "penalty"]
    """The parameter."""
    value: float
    """The value that is best on all experiments, out of the candidates."""
    interval95: tuple[float, float]
    """95 % interval from resampled images and observers."""
    chosen: dict[str, float]
    """The value chosen without each experiment."""


class FitRecord(Record):
    """The fit of VIF after registration to human accuracy."""

    parameters: tuple[ParameterRecord, ...]
    """The parameters."""
    nested_explained: float
    """Explained variance if each condition is predicted by curve and parameters without it."""
    nested_error: Estimate
    """Mean rms error on left-out experiments that neither curve nor parameters have seen."""
    nested_errors: dict[str, float]
    """The nested rms error on each experiment."""
    knots: tuple[tuple[float, float], ...]
    """The map of the axis `human`: value of the fitted ruler, expected loss of accuracy."""
    half_width95: float
    """95 % quantile of the absolute nested error over conditions."""
    mean_deviation: float
    """Mean over conditions of the map's value minus the human loss."""


class SelectionRecord(Record):
    """A ruler chosen for each left-out experiment without having seen it."""

    errors: dict[str, float]
    """The rms error on each left-out experiment."""
    chosen: dict[str, str]
    """The ruler chosen without each experiment."""
    error: float
    """The mean of the errors."""


class StudyRecord(Record):
    """The results of the study of rulers."""

    schema_version: Literal[1] = 1
    """Version of this format; increases when the meaning of a field changes."""
    made: str
    """Date in ISO format."""
    versions: dict[str, str]
    """Versions of eyechart and of the packages that it computes with."""
    images: str
    """Name of the dataset."""
    images_digest: str
    """Identifies the set of images."""
    n_images: int
    """Number of images."""
    human: str
    """Name of the file of human counts."""
    human_digest: str
    """SHA-256 of the file of human counts."""
    n_observers: int
    """Number of observers."""
    n_bootstrap: int
    """Number of bootstrap replicates."""
    seed: int
    """Random seed."""
    conditions: tuple[ConditionRecord, ...]
    """The conditions."""
    rulers: tuple[AgreementRecord, ...]
    """The rulers, best first."""
    differences: tuple[DifferenceRecord, ...]
    """Paired differences between all rulers."""
    selection: SelectionRecord
    """The best ruler, chosen without the experiment that it is tested on."""
    fit: FitRecord | None
    """The fit of VIF after registration; null if it was not requested."""
    notes: tuple[str, ...]
    """Sentences for the reader of the results."""
