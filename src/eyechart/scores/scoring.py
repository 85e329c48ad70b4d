"""From one model's outcomes to its scores: curves, areas, and how they compare with people's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arguments import as_text, as_whole, as_within
from eyechart.core.errors import UsageError
from eyechart.core.registry import unknown_name
from eyechart.curves.anchors import check_right_anchor, right_end
from eyechart.curves.bins import BINS, MAX_BINS, bin_edges
from eyechart.curves.curve import Curve, fit_curve
from eyechart.curves.density import AnyDensity, to_density
from eyechart.curves.methods import METHODS
from eyechart.humans.chance import corrected_curve
from eyechart.humans.combined import References
from eyechart.humans.reference import Reference
from eyechart.labels.categories import CATEGORIES, NONE
from eyechart.predictions.reading import Predictions
from eyechart.scores.evaluation import CorruptionScore, PeopleScore, PropertyScore
from eyechart.scores.people import (
    compared_areas,
    compared_replicates,
    ranges,
    significant_ranges,
)
from eyechart.scores.scenario import scenario
from eyechart.stats.bootstrap import check_replicates, resample_means
from eyechart.stats.estimate import ENOUGH, Estimate, make_estimate
from eyechart.testsets.samples import FloatArray

PUBLISHED_LEVELS = (1, 2, 3, 4, 5)
NO_HUMAN_CURVE, OTHER_DEFINITION = "no human curve", "no human comparison"
NO_REFERENCE = "no human reference"
NO_CLEAN = "only errors, no curves and no consistency: --clean with the clean images adds them"


@dataclass(frozen=True)
class Fit:
    """How curves are fitted, those of models and those of humans; see `fit_curve`.

    `bins`: None for 40, and fewer for humans whose responses are too few for 40; a number holds for
    both. `right_anchor`: "none", "chance", "measured" (predictions for destroyed images; for
    humans, who saw none, chance) or a number.
    """

    binning: str = "paper"
    bins: int | None = None
    least: float = 20
    method: str = "least-squares"
    right_anchor: str | float = "none"
    replicates: int = 1000
    seed: int = 0
    density: AnyDensity = None

    @property
    def n_bins(self) -> int:
        """How many bins a model's curve has."""
        return BINS if self.bins is None else self.bins

    def options(self) -> dict[str, Any]:
        """Return the arguments of `fit_curve` that are the same for all curves of models."""
        return {
            "binning": self.binning,
            "bins": self.n_bins,
            "least": self.least,
            "method": self.method,
            "replicates": self.replicates,
            "seed": self.seed,
            "density": to_density(self.density),
        }

    def human_options(self) -> dict[str, Any]:
        """Return the arguments of `Reference.curve` that fit humans as models are fitted."""
        return {**self.options(), "bins": self.bins, "right_anchor": self.right_anchor}

    def check(self) -> None:
        """Raise a UsageError unless curves can be drawn so."""
        check_right_anchor(self.right_anchor)
        if as_text(self.method, "method") not in METHODS:
            raise unknown_name("method", self.method, METHODS)
        bin_edges(self.binning, 3)
        check_replicates(self.replicates, self.seed)
        as_whole(self.n_bins, "bins", 3, MAX_BINS)
        as_within(self.least, "least", 1, 1e9)
        to_density(self.density)


def score_corruption(
    corruption: str,
    outcomes: Predictions,
    fit: Fit,
    *,
    geometric: bool,
    classes: int,
    labelled: bool,
    reference: References | Reference | None,
    why_no_reference: str,
) -> CorruptionScore:
    """Return the scores of a model under one corruption.

    `classes`: how many answers there are to choose from. `reference` is None where people's
    answers do not apply, for the reason given.
    """
    known = outcomes.label != NONE
    accuracy = clean_error = None
    if labelled and known.any():
        own = outcomes.take(known)
        if not np.isnan(own.clean_correct).any():
            clean_error = estimate_mean(1 - own.clean_correct, own, fit)
        accuracy = _score(
            "accuracy", own.correct, own.clean_correct, own.lost_correct, own, corruption, fit,
            geometric, classes, reference, why_no_reference,
        )  # fmt: skip
    ones = np.ones(len(outcomes))
    no_clean = bool(np.isnan(outcomes.consistent).all())
    consistency = None if no_clean else _score(
        "consistency", outcomes.consistent, ones, outcomes.lost_consistent, outcomes, corruption,
        fit, geometric, classes, reference, why_no_reference,
    )  # fmt: skip
    return CorruptionScore(
        corruption,
        accuracy,
        consistency,
        _by_severity(outcomes.take(known)) if labelled else {},
        int(np.isnan(outcomes.delta_v).sum()),
        clean_error,
    )


def _score(
    which: str,
    hits: FloatArray,
    clean: FloatArray,
    lost: FloatArray,
    outcomes: Predictions,
    corruption: str,
    fit: Fit,
    geometric: bool,
    classes: int,
    reference: References | Reference | None,
    why_no_reference: str,
) -> PropertyScore:
    rate = estimate_mean(hits, outcomes, fit)
    if geometric:
        return PropertyScore(
            rate, len(hits), why="no visual change: things move in the picture",
            why_no_people="no visual change",
        )  # fmt: skip
    if np.isnan(outcomes.clean_correct).all() and np.isnan(outcomes.delta_v).all():
        return PropertyScore(rate, len(hits), why=NO_CLEAN, why_no_people="no visual change")
    # a model's answers to the same pixels are the same: its consistency starts at 1
    anchor = 1.0 if which == "consistency" else clean
    try:
        curve = fit_curve(
            outcomes.delta_v,
            hits,
            anchor=anchor,
            right_anchor=right_end(
                fit.right_anchor,
                float(np.average(clean, weights=outcomes.weights)),
                1 / classes if classes else 0.0,
                lost,
                outcomes.weights,
            ),
            clusters=outcomes.picture,
            all_clusters=outcomes.universe,
            weights=outcomes.weights,
            **fit.options(),
        )
    except UsageError as error:
        return PropertyScore(rate, len(hits), why=f"no curve: {error}", why_no_people="no curve")
    pictures = len(np.unique(outcomes.picture))
    people, why = _next_to_people(
        which, corruption, curve, fit, reference, why_no_reference, pictures
    )
    return PropertyScore(
        rate,
        len(hits),
        curve,
        make_estimate(curve.area, curve.areas, pictures),
        curve.bounds,
        tuple(curve.observed),
        people=people,
        why_no_people=why,
    )


def human_curve(
    reference: Reference, corruption: str, which: str, fit: Fit
) -> tuple[Curve | None, str]:
    """Return humans' curve, fitted as a model's is, or None and the reason."""
    try:
        curve = reference.curve(corruption, which, **fit.human_options())
    except UsageError as error:
        return None, f"{NO_HUMAN_CURVE}: {error}"
    return curve, "" if curve is not None else NO_REFERENCE


def _next_to_people(
    which: str,
    corruption: str,
    curve: Curve,
    fit: Fit,
    reference: References | Reference | None,
    why_no_reference: str,
    pictures: int,
) -> tuple[PeopleScore | None, str]:
    if reference is None:
        return None, why_no_reference
    source = reference.source(corruption, which)
    if source is None:
        return None, NO_REFERENCE
    human, why = human_curve(source, corruption, which, fit)
    if human is None:
        return None, why
    own = curve
    if source.corrected:
        # people's curve is; the model chose among the 16 categories
        own = corrected_curve(curve, len(CATEGORIES))
    try:
        found = scenario(human, own)
    except UsageError:
        return None, "people and model were observed at no common visual change"
    areas = compared_areas(human, own)
    hmri, mrsi = compared_replicates(human, own)
    return (
        PeopleScore(
            source.about(corruption),
            source.kind(corruption) or "",
            make_estimate(areas.hmri, hmri, pictures),
            _hmri_bounds(human, own),
            make_estimate(areas.mrsi, mrsi, pictures),
            areas,
            found.name,
            tuple(ranges(human, own)),
            tuple(significant_ranges(human, own)),
            human,
            own,
            source.corrected,
            found.leads,
            found.p_people,
            found.p_model,
            *source.stands_for(corruption),
        ),
        "",
    )


def _hmri_bounds(human: Curve, model: Curve) -> tuple[float, float]:
    """Return the least and the greatest HMRI that a falling curve through what was seen can have.

    Between observed ranges the model's curve lies between its values at their ends; before the
    first it is no higher than its anchor, behind the last no lower than its right one.
    """
    places = np.linspace(0, 1, 4001)
    lower, upper = model(places).copy(), model(places).copy()
    before, edge = (1.0 if model.left is None else model.left), 0.0
    for start, end in model.observed:
        gap = (places > edge) & (places < start)
        lower[gap], upper[gap] = model(start), before
        before, edge = float(model(end)), end
    rest = places > edge
    lower[rest], upper[rest] = 0.0 if model.right is None else model.right, before
    weights = human.density(places)
    people = human(places)
    total = float(np.trapezoid(people * weights, places))
    if not total:
        return float("nan"), float("nan")
    low, high = (
        float(np.trapezoid(np.minimum(people, own) * weights, places)) / total
        for own in (lower, upper)
    )
    return low, min(1.0, high)


def class_weights(labels: NDArray[np.int64]) -> FloatArray:
    """Return a weight for each answer that makes every class count as much as any other."""
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(len(labels) / (len(counts) * counts[which]), dtype=np.float64)


def estimate_mean(hits: FloatArray, outcomes: Predictions, fit: Fit) -> Estimate:
    """Return the mean of hits, one per outcome, weighted as outcomes are.

    Its intervals come from resampled pictures, drawn from the outcomes' universe: estimates with
    the same one belong together replicate by replicate, whichever of the pictures each is of.
    """
    names = np.unique(outcomes.picture)
    universe = names if outcomes.universe is None else outcomes.universe
    group, size = np.searchsorted(universe, outcomes.picture), len(universe)
    share = np.ones(len(hits)) if outcomes.weights is None else outcomes.weights
    totals, counts = np.bincount(group, hits * share, size), np.bincount(group, share, size)
    mean = float(totals.sum() / counts.sum())
    means = resample_means(totals, counts, fit.replicates, fit.seed)
    # of a ratio of two sums over images; p(1 − p)/n where every image has one answer
    variance = float(((totals - mean * counts) ** 2).sum() / counts.sum() ** 2)
    return make_estimate(mean, means, len(names), variance)


def _by_severity(outcomes: Predictions) -> dict[float, float]:
    levels = np.unique(outcomes.severity[~np.isnan(outcomes.severity)])
    if not np.isin(levels, PUBLISHED_LEVELS).all():
        return {}
    found = {}
    for level in levels:
        own = outcomes.take(outcomes.severity == level)
        found[float(level)] = float(1 - np.average(own.correct, weights=own.weights))
    return found


def is_too_few(space: str, labels: NDArray[np.int64]) -> bool:
    """Whether pictures with these labels are too few for a claim: under 8 categories of 5 each.

    Data sets of very many classes, each with a few pictures, need 40 pictures of 8 classes.
    """
    values, counts = np.unique(labels[labels != NONE], return_counts=True)
    if space == "entry16" or len(values) <= len(CATEGORIES):
        return bool((counts >= 5).sum() < 8)
    return bool(counts.sum() < ENOUGH)
