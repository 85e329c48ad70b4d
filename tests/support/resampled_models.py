"""Right and wrong of simulated models, and their accuracies resampled with shared weights."""

from functools import cache

import numpy as np

from eyechart.stats.estimate import make_estimate


@cache
def weights_of(count, n_bootstrap, seed):
    numbers = np.random.default_rng(seed)
    return numbers.multinomial(count, np.full(count, 1 / count), n_bootstrap).astype(float)


def estimates(hits, n_bootstrap=300, seed=0):
    """Accuracy of each row of right and wrong answers, all resampled with the same weights."""
    hits = np.asarray(hits, dtype=float)
    count = hits.shape[1]
    # a few sets of weights serve many simulations: drawing them takes most of the time
    drawn = hits @ weights_of(count, n_bootstrap, seed % 20).T / count
    return {
        f"m{place}": make_estimate(float(row.mean()), own)
        for place, (row, own) in enumerate(zip(hits, drawn, strict=True))
    }


def models(rates, images, seed, shared=0.7):
    """Right and wrong of models with these accuracies, some of whose luck is the picture's."""
    numbers = np.random.default_rng(seed)
    size = (len(rates), images)
    luck = np.where(numbers.random(size) < shared, numbers.random(images), numbers.random(size))
    return luck < np.asarray(rates)[:, None]
