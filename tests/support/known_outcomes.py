"""Outcomes of a model whose curves, and so the areas under them, are known."""

import numpy as np

from eyechart.predictions.reading import Predictions

CLEAN_ACCURACY = 0.9


def accuracy(v):
    return CLEAN_ACCURACY * (1 - v) ** 1.5


def consistency(v):
    return 1 - 0.8 * v**2


TRUE_AREAS = {"a": CLEAN_ACCURACY / 2.5, "p": 1 - 0.8 / 3}
"""∫ 0.9 (1 − v)^1.5 = 0.9 / 2.5, and ∫ 1 − 0.8 v² = 1 − 0.8 / 3."""


def outcomes(count=8000, images=400, reach=1.0, lost=0.0, seed=0):
    """Answers of a model whose curves are known, to pictures with Δv uniform over 0…reach."""
    random = np.random.default_rng(seed)
    delta_v = random.uniform(0, reach, count)
    image = np.arange(count) % images
    clean = (np.arange(images) < CLEAN_ACCURACY * images).astype(float)
    return Predictions(
        delta_v=delta_v,
        severity=np.full(count, np.nan),
        image=image,
        label=image % 16,
        correct=(random.uniform(size=count) < accuracy(delta_v)).astype(float),
        consistent=(random.uniform(size=count) < consistency(delta_v)).astype(float),
        clean_correct=clean[image],
        blank_correct=np.full(count, lost),
        blank_consistent=np.full(count, lost),
    )
