"""How often people would be wrong on a model's very pictures, read off their curve."""

import numpy as np
from scipy.sparse import coo_array

from eyechart.curves.curve import Curve
from eyechart.predictions.reading import Predictions
from eyechart.stats.bootstrap import resample_sums, shuffle_replicates
from eyechart.stats.estimate import Estimate, make_estimate

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
    wrong = np.clip(1 - human_curve.refits(np.linspace(0, 1, STEPS + 1)), 0, 1)
    replicates = wrong.shape[1]
    # people's resampled curves in an order of their own, independent of the pictures
    (order,) = shuffle_replicates(replicates, seed + 1)
    value = 1 - float(np.average(human_curve(change), weights=weights))
    sums = resample_sums(table, replicates, seed)
    counts, errors = sums.sum(axis=1), (sums * wrong[:, order].T).sum(axis=1)
    drawn = np.divide(errors, counts, out=np.full(replicates, value), where=counts > 0)
    return make_estimate(value, drawn, len(np.unique(group)))


def clean_expected_error(human_curve: Curve, seed: int) -> Estimate:
    """Return how often people are wrong on clean pictures: 1 − s(0)."""
    drawn = np.clip(1 - human_curve.refits(np.zeros(1))[0], 0, 1)
    (order,) = shuffle_replicates(len(drawn), seed + 1)
    return make_estimate(1 - float(human_curve(0.0)), drawn[order])
