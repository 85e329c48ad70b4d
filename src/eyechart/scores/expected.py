"""How often people would be wrong on a model's very pictures, read off their curve."""

import numpy as np
from scipy.sparse import coo_array

from eyechart.curves.bootstrap import replicate_weights
from eyechart.curves.curve import Curve
from eyechart.predictions.reading import Predictions
from eyechart.scores.estimate import Estimate, make_estimate

STEPS = 400
"""Into how many steps of visual change pictures are put."""


def expected_error(human_curve: Curve, outcomes: Predictions, seed: int) -> Estimate | None:
    """Return the mean of 1 − s(Δv) over the answers with a visual change; None without any.

    Answers without one, to pictures too even for Δv, count as the mean of the others. Pictures and
    people's curve are resampled together, pictures as everywhere else.
    """
    known = ~np.isnan(outcomes.delta_v)
    if not known.any():
        return None
    weights = np.ones(len(outcomes)) if outcomes.weights is None else outcomes.weights
    weights, change = weights[known], outcomes.delta_v[known]
    pictures = np.unique(outcomes.picture) if outcomes.universe is None else outcomes.universe
    group = np.searchsorted(pictures, outcomes.picture[known])
    # what a picture adds to each step of Δv: the curve's value there is then all that varies
    step = np.clip(np.rint(change * STEPS), 0, STEPS).astype(np.int64)
    table = coo_array((weights, (group, step)), shape=(len(pictures), STEPS + 1)).tocsr()
    counts = np.bincount(group, weights, len(pictures))
    wrong = np.clip(1 - human_curve.refits(np.linspace(0, 1, STEPS + 1)), 0, 1)
    replicates = wrong.shape[1]
    # people's resampled curves in an order of their own, independent of the pictures
    order = np.random.default_rng(seed + 1).permutation(replicates)
    found = np.empty(replicates)
    value = 1 - float(np.average(human_curve(change), weights=weights))
    for place, drawn in enumerate(replicate_weights(len(pictures), replicates, seed)):
        count = drawn @ counts
        found[place] = (drawn @ (table @ wrong[:, order[place]])) / count if count else value
    return make_estimate(value, found, len(np.unique(group)))


def clean_expected_error(human_curve: Curve, seed: int) -> Estimate:
    """Return how often people are wrong on clean pictures: 1 − s(0)."""
    drawn = np.clip(1 - human_curve.refits(np.zeros(1))[0], 0, 1)
    order = np.random.default_rng(seed + 1).permutation(len(drawn))
    return make_estimate(1 - float(human_curve(0.0)), drawn[order])
