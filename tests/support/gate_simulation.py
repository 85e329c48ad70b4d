"""Simulated pairs of models on the same samples, and how often a gate passes and fails them.

A sample is a hit if sqrt(ρ) z + sqrt(1 − ρ) e is below a threshold, with z of the image and e of
the sample. Both models share z and most of e, as real pairs do. A share of images may be lost: the
new model is incorrect on all their samples, which nothing else in the data announces.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as students_t

from eyechart.gates.bounds import ClusteredMean, clustered_mean, difference_targets, plan_size
from eyechart.stats.p_values import SIGNIFICANT, holm

RHO = 0.78
"""Correlation of samples of one image, as measured on a real run."""

SHARED = 0.9
"""Correlation of what is left between both models, of which 6 % of hits differ at a rate of 0.7."""

AT_ONCE = 3_000_000
"""Maximum number of samples in memory."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of models: `drops` has the true drop of each rule."""

    n_images: int
    drops: tuple[float, ...]
    n_each: int = 10
    rate: float = 0.7
    lost: float = 0.0
    margin: float = 0.01


@dataclass(frozen=True)
class Shares:
    """How often gates passed and failed, and how often by Student's t alone they would pass."""

    passed: float
    failed: float
    passed_by_t: float


def draw(random: np.random.Generator, pairs: Pairs, n_pairs: int) -> np.ndarray:
    """Return differences of hits, (pairs, rules, images, samples)."""
    shape = (n_pairs, len(pairs.drops), pairs.n_images, pairs.n_each)
    image = random.standard_normal((n_pairs, 1, pairs.n_images, 1), dtype=np.float32)
    first, second = (random.standard_normal(shape, dtype=np.float32) for _ in range(2))
    common, rest = np.float32(RHO**0.5), np.float32((1 - RHO) ** 0.5)
    share, other = np.float32(SHARED), np.float32((1 - SHARED**2) ** 0.5)
    thresholds = ndtri(pairs.rate - np.array(pairs.drops)).astype(np.float32)
    old = common * image + rest * first < np.float32(ndtri(pairs.rate))
    new = common * image + rest * (share * first + other * second) < thresholds[:, None, None]
    if pairs.lost:
        new &= random.random((n_pairs, 1, pairs.n_images, 1)) >= pairs.lost
    return new.astype(np.int8) - old.astype(np.int8)


def simulate(pairs: Pairs, n_pairs: int, seed: int = 0) -> Shares:
    """Return how often gates with these pairs pass and fail."""
    random = np.random.default_rng(seed)
    n = pairs.n_images
    n_at_once = max(1, AT_ONCE // (len(pairs.drops) * n * pairs.n_each))
    outcomes = []
    for start in range(0, n_pairs, n_at_once):
        drawn = draw(random, pairs, min(n_at_once, n_pairs - start)).mean(axis=-1)
        outcomes += [_outcome(rules, pairs.margin) for rules in drawn]
    return Shares(*np.mean(outcomes, axis=0).tolist())


def _outcome(rules: np.ndarray, margin: float) -> tuple[bool, bool, bool]:
    """Return whether a gate passes, whether it fails, and whether it passes by t alone.

    `rules` has the mean difference of each image, (rules, images).
    """
    n = rules.shape[1]
    means = [clustered_mean(rule, np.arange(n), lowest=-1) for rule in rules]
    above, below = (
        np.array([mean.p_value(-margin, side) for mean in means]) for side in ("above", "below")
    )
    spread = np.maximum(rules.std(axis=1, ddof=1), 1e-12) / n**0.5
    by_t = students_t.sf((rules.mean(axis=1) + margin) / spread, n - 1)
    return (
        bool((above < SIGNIFICANT).all()),
        bool((holm(below) < SIGNIFICANT).any()),
        bool((by_t < SIGNIFICANT).all()),
    )


def wrong_passes(
    n_images: int, n_gates: int, *, rate: float, n_each: int, lost: float = 0.0, seed: int = 0
) -> float:
    """Return how often a rate passes a floor that it does not exceed.

    Args:
        n_images: The number of images.
        n_gates: The number of gates.
        rate: The rate of hits without lost images.
        n_each: The number of samples of each image.
        lost: The share of images that are never hit.
        seed: The seed.
    """
    random = np.random.default_rng((seed, n_images))
    shape = (n_gates, n_images, n_each)
    latent = RHO**0.5 * random.standard_normal((n_gates, n_images, 1))
    latent = latent + (1 - RHO) ** 0.5 * random.standard_normal(shape)
    is_lost = random.random((n_gates, n_images, 1)) < lost
    hits = ((latent < ndtri(rate)) & ~is_lost).mean(axis=2)
    floor = rate * (1 - lost)
    return float(
        np.mean(
            [
                clustered_mean(each, np.arange(n_images), lowest=0).p_value(floor, "above")
                < SIGNIFICANT
                for each in hits
            ]
        )
    )


def pilot(pairs: Pairs, seed: int) -> list[ClusteredMean]:
    """Return what a gate sees of one pair: a mean for each rule."""
    drawn = draw(np.random.default_rng(seed), pairs, 1)[0]
    image = np.repeat(np.arange(pairs.n_images), pairs.n_each)
    return [clustered_mean(rule.ravel(), image, lowest=-1) for rule in drawn]


def recommended_images(pairs: Pairs, seed: int) -> int:
    """Return the number of images that the tool recommends after a pilot."""
    means = pilot(pairs, seed)
    targets = difference_targets(pairs.margin, len(means), SIGNIFICANT)
    sizes = [plan_size(mean, targets)[1] for mean in means]
    return max(size for size in sizes if size is not None)
