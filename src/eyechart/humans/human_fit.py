"""Which human responses are consistent, and the curve fitted to responses, corrected for chance.

No participant sees an image both clean and corrupted, so a response is compared with other
participants' responses to the clean image.

Chance correction compares tasks with different numbers of choices.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.core.randomness import hash64
from eyechart.core.registry import unknown_name
from eyechart.humans.human_responses import (
    CLEAN,
    HumanResponses,
    anchor_of,
    apart_if_unknown,
    clusters_of,
    one_by_one,
)
from eyechart.humans.human_settings import CLEAN_RESPONSES
from eyechart.images.labels.imagenet import CATEGORIES
from eyechart.stats.bins import Bins, bin_edges, bin_index
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.curve_samples import right_end
from eyechart.stats.curve_settings import BINS, DEFAULT_ESTIMATOR, usual_min_per_bin
from eyechart.testsets.testset_settings import MIN_PER_BIN


def check_rule(rule: object) -> None:
    """Raise a UsageError that lists all rules if this rule is unknown."""
    if not isinstance(rule, str):
        raise UsageError(
            f"clean_responses must be one of {', '.join(CLEAN_RESPONSES)}, got {rule!r}."
        )
    if rule not in CLEAN_RESPONSES:
        raise unknown_name("rule for clean responses", rule, CLEAN_RESPONSES)


def is_clean(responses: HumanResponses) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the responses to clean images."""
    return np.asarray((responses.delta_v == 0) | (responses.corruption == CLEAN))


def own_clean_responses(responses: HumanResponses) -> HumanResponses:
    """Return the responses to clean images that the rows contain, where the label is known."""
    label, response = responses.label, responses.clean_response
    rows = responses.only((label != "") & (response != ""))
    return replace(
        rows,
        delta_v=np.zeros(len(rows)),
        correct=(rows.clean_response == rows.label).astype(np.float64),
    )


def consistency(responses: HumanResponses, rule: str, seed: int = 0) -> FloatArray:
    """Return whether each response equals other humans' response to the clean image.

    The value is NaN if no response to the clean image is known. With "given", the clean response in
    the file is used. If the file has none for a response to a clean image, this response is
    compared with other humans' most common response to that image; curves start at this rate of
    agreement.
    """
    # Images of the same name in two merged studies are different images.
    clean_responses: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in np.flatnonzero(is_clean(responses) & (responses.image != "")).tolist():
        if responses.response[row]:
            study_image = (str(responses.study[row]), str(responses.image[row]))
            clean_response = (str(responses.subject[row]), str(responses.response[row]))
            clean_responses.setdefault(study_image, []).append(clean_response)
    agreement = np.full(len(responses), np.nan)
    for row in range(len(responses)):
        study, image = str(responses.study[row]), str(responses.image[row])
        subject = str(responses.subject[row])
        other_responses = sorted(
            response
            for participant, response in clean_responses.get((study, image), ())
            # A clean response would always agree with itself.
            if participant != subject
        )
        if other_responses:
            # Ties and random choices depend only on image and participant, not on the order of
            # rows.
            # Do not reword "clean answer": other responses would be drawn for the same seed.
            drawn = hash64("clean answer", seed, image, subject)
            agreement[row] = responses.response[row] == _chosen(other_responses, rule, drawn)
    if rule != "given":
        return agreement
    return np.where(
        np.isnan(responses.consistent) & is_clean(responses), agreement, responses.consistent
    )


def _chosen(responses: list[str], rule: str, drawn: int) -> str:
    if rule == "random":
        return responses[drawn % len(responses)]
    counts = Counter(responses)
    # Sorted, so that breaking a tie does not depend on the order of rows.
    tied = sorted(name for name in counts if counts[name] == max(counts.values()))
    return tied[drawn % len(tied)]


def corrected_for_chance(rates: ArrayLike, choices: int) -> FloatArray:
    """Return (p − 1/k) / (1 − 1/k), clipped at 0, for rates p in a task with k choices.

    Example:
        >>> corrected_for_chance([0.5, 0.75, 1.0], 2).tolist()
        [0.0, 0.5, 1.0]
    """
    # with one choice, chance is 1 and the formula would divide by 0
    if choices < 2:
        raise UsageError(f"choices must be at least 2, got {choices}.")
    above = np.asarray(rates, dtype=np.float64) - 1 / choices
    return np.asarray(np.maximum(above / (1 - 1 / choices), 0))


def corrected_curve(curve: Curve, choices: int) -> Curve:
    """Return the curve with its bins, anchors and bootstrap replicates corrected for chance."""

    def anchor(value: float | None) -> float | None:
        return None if value is None else float(corrected_for_chance(value, choices))

    def corrected_bins(bins: Bins) -> Bins:
        # Empty bins have NaN rates, which would stay NaN when multiplied by a count of 0.
        rates = np.where(bins.counts > 0, bins.rates, 0)
        return Bins(bins.edges, bins.counts, corrected_for_chance(rates, choices) * bins.counts)

    return replace(
        curve,
        pieces=_corrected(curve.pieces, choices),
        bins=corrected_bins(curve.bins),
        left=anchor(curve.left),
        right=anchor(curve.right),
        lefts=None if curve.lefts is None else corrected_for_chance(curve.lefts, choices),
        replicates=tuple(_corrected(pieces, choices) for pieces in curve.replicates),
        refit_bins=corrected_bins(curve.refit_bins),
    )


def _corrected(pieces: PPoly, choices: int) -> PPoly:
    """Return the corrected segments of a non-increasing curve; it stays at 0 once it reaches 0."""
    coefficients = pieces.c / (1 - 1 / choices)
    # An affine map of the values multiplies all coefficients by a factor and adds an offset to the
    # constant ones.
    coefficients[-1] -= 1 / choices / (1 - 1 / choices)
    places = pieces.x
    scaled = PPoly(coefficients, places)
    # The curve never falls below chance: nothing to cut off.
    if scaled(places[-1]) >= 0:
        return scaled
    # A non-increasing curve that ends below 0 crosses 0 once: inside, or at its start.
    roots = scaled.roots(extrapolate=False)
    roots = roots[~np.isnan(roots)]
    end = float(roots[0]) if scaled(places[0]) > 0 and roots.size else float(places[0])
    # Pieces before the root are kept, and one constant piece at 0 replaces the rest.
    before = int(np.searchsorted(places, end, side="left"))
    kept = np.concatenate([coefficients[:, :before], np.zeros((len(coefficients), 1))], axis=1)
    return PPoly(kept, np.concatenate([places[:before], [end, places[-1]]]))


FitOptions = dict[str, Any]
"""Keyword arguments of `fit_curve`."""

CategoryMix = Mapping[str, float]
"""Maps categories to their shares, which sum to 1."""

PER_MIN, FEWEST_BINS = 1.5, 5
"""If most responses fall into bins below the minimum count and no number of bins is requested, the
number of bins is reduced, but not below 5, so that each bin has about 1.5 times the minimum count.
"""

MIN_RESPONSES = round(FEWEST_BINS * PER_MIN * MIN_PER_BIN)
"""Minimum number of responses to corrupted images that a score needs: 150, for 5 bins that have 1.5
times the paper's minimum count of 20.
"""

BY_CONDITION = {"spline": 0.01, "cobs": 0.3}
"""Smoothing for each estimator if only the rate of each response's condition is known.

Bins within a condition are then equal by construction, so cross-validation over bins would
overestimate their precision. If whole conditions are left out instead, the error is lowest with
0.01 to 0.03 (0.1 to 0.3 for cobs).
"""


def fit_responses(
    corrupted: tuple[HumanResponses, FloatArray],
    clean: tuple[HumanResponses, FloatArray],
    fit: FitOptions,
    is_corrected: bool,
) -> Curve:
    """Return the curve of the responses of one experiment.

    Args:
        corrupted: Responses of the experiment, and whether each is a hit, or the rate of hits.
        clean: The same for clean images, which are the curve's left end; may be empty.
        fit: Arguments of `fit_curve`, see `Reference.curve`; with `category_mix`, responses are
            weighted so that categories have these shares.
        is_corrected: Whether the curve is corrected for chance.
    """
    responses, hits = corrupted
    rows, hits = one_by_one(responses, hits)
    delta_v, clusters = responses.delta_v[rows], clusters_of(responses)[rows]
    fit = dict(fit)
    mix: CategoryMix | None = fit.pop("category_mix", None)
    clean_weights = None if mix is None else category_weights(clean[0], mix)
    options: FitOptions = {
        "anchor": anchor_of(*clean, clusters, clean_weights),
        "clusters": apart_if_unknown(clusters),
        "weights": None if mix is None else category_weights(responses, mix)[rows],
    }
    # Rates instead of 0 and 1 mean that only counts per condition are known.
    estimator = fit.get("estimator", DEFAULT_ESTIMATOR)
    if not np.isin(hits, (0, 1)).all():
        options["smoothing"] = BY_CONDITION.get(estimator)
    options |= fit
    if options.get("bins") is None:
        binning = options.get("binning", "paper")
        min_per_bin = options.get("min_per_bin", usual_min_per_bin(estimator))
        options["bins"] = _bins_for(delta_v, binning, min_per_bin)
    # Arrays are already resolved anchors; names and numbers are resolved here.
    if isinstance(options.get("right_anchor"), str | float | int):
        start = options["anchor"]
        if start is not None:
            # One rate, or one for each response, of which those with a Δv count.
            values = np.asarray(start, dtype=np.float64)
            start = float(values[~np.isnan(delta_v)].mean() if values.ndim else values)
        options["right_anchor"] = _right_end(
            options["right_anchor"], start, responses.choices, is_corrected
        )
    curve = fit_curve(delta_v, hits, **options)
    # Corrected after fitting: the fit itself needs plain counts.
    return corrected_curve(curve, responses.choices) if is_corrected else curve


def category_mix(labels: NDArray[np.str_], counts: ArrayLike | None = None) -> CategoryMix:
    """Return the share of each category among labels; empty if no label is known."""
    known = labels != ""
    counts = np.ones(len(labels)) if counts is None else np.asarray(counts, dtype=np.float64)
    names, index = np.unique(labels[known], return_inverse=True)
    totals = np.bincount(index, counts[known], minlength=len(names))
    return dict(zip(names.tolist(), (totals / max(1.0, totals.sum())).tolist(), strict=True))


def category_weights(responses: HumanResponses, mix: CategoryMix) -> FloatArray:
    """Return a weight for each row that gives categories the shares of `mix`; 0 outside of it."""
    own = category_mix(responses.label, responses.trials)
    return np.array(
        [
            mix.get(label, 0.0) / own[label] if label in own else 0.0
            for label in responses.label.tolist()
        ]
    )


def _bins_for(delta_v: FloatArray, binning: str, min_per_bin: float) -> int:
    """Return the number of bins used for models, or fewer if most responses are in sparse bins."""
    # With few responses, most of 40 bins would be below the minimum count and therefore unused.
    counts = np.bincount(bin_index(delta_v[~np.isnan(delta_v)], bin_edges(binning, BINS)))
    if counts[counts < min_per_bin].sum() <= counts.sum() / 2:
        return BINS
    return max(FEWEST_BINS, int(len(delta_v) // (PER_MIN * min_per_bin)))


def _right_end(
    anchor: str | float, start: float | None, choices: int, is_corrected: bool
) -> float | FloatArray | None:
    """Return the right anchor of the human curve, before correction for chance."""
    if is_corrected and not isinstance(anchor, str):
        # A number is a rate among the model's choices. It is mapped to the human number of
        # choices, so that both curves end at the same value after correction.
        above = float(corrected_for_chance(anchor, len(CATEGORIES)))
        anchor = 1 / choices + above * (1 - 1 / choices)
    return right_end(anchor, start, 1 / choices)
