"""Top-k accuracy: how often the true label is among the k best scores of a model."""

import numpy as np

from eyechart.predictions.reading import Predictions
from eyechart.scores.statistic import Statistic, ratio
from eyechart.stats.intervals import FloatArray

TOP = 5


def top5_accuracy(predictions: Predictions) -> Statistic | None:
    """Return the share of samples whose true label is among the five best, None without ranks.

    A rank of 1 is the prediction itself. In a label space of categories the rank is that among the
    scores of the categories; the rule "top1" gives them no scores, and there is no rank.
    """
    rank = predictions.rank
    if rank is None or np.isnan(rank).any():
        return None
    hits = (rank <= TOP).astype(np.float64)
    return Statistic(np.stack([hits, np.ones(len(hits))], axis=1), _share)


def _share(sums: FloatArray) -> FloatArray:
    return ratio(sums[..., 0], sums[..., 1])
