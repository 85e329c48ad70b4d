"""Settings of curve fits, the fitted human curves, and weights and means of predictions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import as_int, as_text, as_within
from eyechart.core.arrays import FloatArray, places_in
from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart.core.registry import unknown_name
from eyechart.humans.human_fit import MIN_RESPONSES
from eyechart.humans.reference import METRICS, Reference
from eyechart.images.labels.imagenet import CATEGORIES, NONE
from eyechart.images.published_source import SEVERITIES
from eyechart.predictions.reading import Predictions
from eyechart.stats.bins import MAX_BINS, bin_edges
from eyechart.stats.bootstrap import check_bootstrap, resample_means
from eyechart.stats.curve import Curve
from eyechart.stats.curve_samples import check_right_anchor
from eyechart.stats.curve_settings import BINS, ESTIMATORS, CurveSettings, usual_min_per_bin
from eyechart.stats.density import to_density
from eyechart.stats.estimate import ENOUGH, Estimate, make_estimate

NO_HUMAN_CURVE, OTHER_RULER = "no human curve", "no human comparison"
NO_REFERENCE = "no human reference"

MIN_CATEGORIES, MIN_PER_CATEGORY = 8, 5
"""Number of categories, and of images in each of them, that a claim needs."""

TOO_FEW = "insufficient data ({}; have {})"
"""The note on insufficient data, with what a claim needs and what there is."""


@dataclass(frozen=True, kw_only=True)
class Fit(CurveSettings):
    """How the curves of one run are fitted, with the seed of their bootstrap replicates."""

    min_per_bin: float = None  # type: ignore[assignment]
    seed: int = 0

    def __post_init__(self) -> None:
        if self.min_per_bin is None:
            # The record is frozen: the estimator's own minimum can only be set this way.
            object.__setattr__(self, "min_per_bin", usual_min_per_bin(self.estimator))

    @property
    def n_bins(self) -> int:
        """Number of bins of a model's curve."""
        return BINS if self.bins is None else self.bins

    def options(self) -> dict[str, Any]:
        """Return the arguments of `fit_curve` that are the same for all model curves."""
        return {
            "binning": self.binning,
            "bins": self.n_bins,
            "min_per_bin": self.min_per_bin,
            "estimator": self.estimator,
            "n_bootstrap": self.n_bootstrap,
            "seed": self.seed,
            "density": to_density(self.density),
        }

    def human_options(self) -> dict[str, Any]:
        """Return the arguments of `Reference.curve` for fitting human curves like model curves."""
        # If `bins` is None, the number of bins depends on the human data; a requested number
        # applies to both.
        return {**self.options(), "bins": self.bins, "right_anchor": self.right_anchor}

    def check(self) -> None:
        """Raise a UsageError if curves cannot be fitted with these settings."""
        check_right_anchor(self.right_anchor)
        if as_text(self.estimator, "estimator") not in ESTIMATORS:
            raise unknown_name("estimator", self.estimator, ESTIMATORS)
        # With a valid number: only the name of the binning is checked here, the number below.
        bin_edges(self.binning, 3)
        check_bootstrap(self.n_bootstrap, self.seed)
        as_int(self.n_bins, "bins", 3, MAX_BINS)
        as_within(self.min_per_bin, "min_per_bin", 0, 1e9)
        to_density(self.density)


def make_fit(settings: CurveSettings) -> Fit:
    """Return the `Fit` of these settings, after checking them."""
    fit = Fit(**vars(settings))
    fit.check()
    return fit


def human_curve(
    reference: Reference, corruption: str, metric: str, fit: Fit
) -> tuple[Curve | None, str]:
    """Return the human curve, fitted like a model's; if there is none, None and the reason.

    There is none if fewer than `MIN_RESPONSES` responses to corrupted images count for it.
    """
    experiment = reference.match(corruption)
    if experiment is None:
        return None, NO_REFERENCE
    behind = reference.rows_behind(experiment, metric)
    n_corrupted = int(behind.trials[behind.delta_v > 0].sum())
    if 0 < n_corrupted < MIN_RESPONSES:
        return None, (
            f"{NO_HUMAN_CURVE}: {metric} is known for {count_of(n_corrupted, 'response')} to"
            f" corrupted images in {experiment} of {reference.name}, and at least {MIN_RESPONSES}"
            " are needed"
        )
    try:
        curve = reference.curve(corruption, metric, **fit.human_options())
    except UsageError as error:
        return None, f"{NO_HUMAN_CURVE}: {error}"
    return curve, "" if curve is not None else NO_REFERENCE


@dataclass(frozen=True, eq=False)
class HumanArea:
    """Human curve of one property in one experiment; if there is none, `why` has the reason.

    The area is R_a for accuracy and R_p for consistency.
    """

    experiment: str
    metric: str
    curve: Curve | None
    why: str = ""


def human_areas(reference: Reference, fit: Fit) -> Iterator[HumanArea]:
    """Yield human accuracy and consistency curves of every experiment, fitted like a model's.

    Consistency is left out if the reference has no data on it.
    """
    for experiment in reference.experiments:
        for metric in METRICS:
            curve, why = human_curve(reference, experiment, metric, fit)
            # A reference without any consistency data is normal, a failed fit is reported.
            if curve is not None or metric == "accuracy" or why.startswith(NO_HUMAN_CURVE):
                yield HumanArea(experiment, metric, curve, why)


def class_weights(labels: NDArray[np.int64]) -> FloatArray:
    """Return one weight per sample that gives all classes the same total weight."""
    _, class_index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    # Weights average to 1, so that weighted counts stay comparable with the minimum count per bin.
    return np.asarray(len(labels) / (len(counts) * counts[class_index]), dtype=np.float64)


def estimate_mean(hits: FloatArray, outcomes: Predictions, fit: Fit) -> Estimate:
    """Return the weighted mean of the samples' hits, with bootstrap intervals.

    Images are resampled from `resampled_images` of the predictions: estimates with the same images
    and seed match replicate by replicate, even if they use different subsets of these images.
    """
    images = outcomes.resampled_images
    if images is None:
        images = np.unique(outcomes.image)
    group, size = places_in(images, outcomes.image), len(images)
    n_images = int(np.count_nonzero(np.bincount(group)))
    share = np.ones(len(hits)) if outcomes.weights is None else outcomes.weights
    totals, counts = np.bincount(group, hits * share, size), np.bincount(group, share, size)
    mean = float(totals.sum() / counts.sum())
    means = resample_means(totals, counts, fit.n_bootstrap, fit.seed)
    # Linearized variance of a ratio of two sums over images; it is p(1 − p)/n where every image has
    # one sample.
    variance = float(((totals - mean * counts) ** 2).sum() / counts.sum() ** 2)
    return make_estimate(mean, means, n_images, variance)


def errors_by_severity(outcomes: Predictions) -> dict[str, float]:
    """Return the error rate at each severity 1…5; empty if there are other severities."""
    levels = np.unique(outcomes.severity[~np.isnan(outcomes.severity)])
    # Continuous severities have no table by level.
    if not np.isin(levels, SEVERITIES).all():
        return {}
    errors = {}
    for level in levels:
        at_level = outcomes.select(outcomes.severity == level)
        errors[f"{level:g}"] = float(1 - np.average(at_level.correct, weights=at_level.weights))
    return errors


def too_few_images(n_images: int) -> str:
    """Return the note on insufficient data if a claim needs no labels; "" if there are enough.

    Example:
        >>> too_few_images(39)
        'insufficient data (at least 40 images; have 39)'
        >>> too_few_images(40)
        ''
    """
    return "" if n_images >= ENOUGH else TOO_FEW.format(f"at least {ENOUGH} images", n_images)


def insufficient_data(space: str, labels: NDArray[np.int64], n_classes: int = 0) -> str:
    """Return the note on insufficient data for claims about labeled images; "" if there are enough.

    A claim needs 40 images, and 8 categories with 5 images each, or all classes of a model that has
    fewer. With more than 16 classes, which may have few images each, 40 images are enough. Below
    this minimum, no verdict, rank, significant difference or break point is stated anywhere.

    Args:
        space: The label space.
        labels: The label of each image.
        n_classes: The number of the model's classes; 0 if unknown.

    Example:
        >>> insufficient_data("entry16", np.arange(3).repeat(4))
        'insufficient data (at least 5 images in each of 8 categories; have 12 in 3)'
        >>> insufficient_data("entry16", np.arange(8).repeat(5))
        ''
    """
    values, counts = np.unique(labels[labels != NONE], return_counts=True)
    n_images = int(counts.sum())
    if space != "entry16" and len(values) > len(CATEGORIES):
        return too_few_images(n_images)
    # 0 stands for an unknown number
    n_needed = min(MIN_CATEGORIES, n_classes or MIN_CATEGORIES)
    n_complete = int((counts >= MIN_PER_CATEGORY).sum())
    if n_complete >= n_needed and n_images >= ENOUGH:
        return ""
    needed = f"at least {MIN_PER_CATEGORY} images in each of {n_needed} categories"
    if n_needed < MIN_CATEGORIES:
        needed = f"at least {ENOUGH} images, and {needed}"
    have = f"{n_images} in {len(values)}"
    if len(values) >= n_needed:
        have += f", {n_complete} of them with at least {MIN_PER_CATEGORY}"
    return TOO_FEW.format(needed, have)
