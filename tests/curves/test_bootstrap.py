"""The weights of bootstrap replicates: one and the same for all scores of the same images."""

import numpy as np
import pytest

import eyechart as ec
from eyechart.overlap.intervals import resampled_shares
from eyechart.predictions.reading import Predictions
from eyechart.scores.by_class import ByClass
from eyechart.scores.scoring import Fit, estimate_mean

IMAGES, REPLICATES, SEED = 12, 120, 7


def outcomes(correct, universe=None, image=None, label=None):
    count = len(correct)
    nothing = np.full(count, np.nan)
    image = np.arange(count) if image is None else image
    return Predictions(
        nothing, nothing, image, image if label is None else label, correct,
        *(nothing for _ in range(4)), universe=universe, answer=np.zeros(count, dtype=np.int64),
    )  # fmt: skip


def of_curve(images=IMAGES, seed=SEED):
    """Each image has a bin to itself, so that a replicate's counts are the images' weights."""
    delta_v = (np.arange(images) + 0.5) / images
    curve = ec.fit_curve(
        delta_v, np.linspace(1, 0, images), clusters=np.arange(images), binning="equal",
        bins=images, least=1, replicates=REPLICATES, seed=seed,
    )  # fmt: skip
    return curve.refit_bins.counts


def of_rate(images=IMAGES, seed=SEED):
    """The mean of what holds for one image only is its weight, as a share of all."""
    fit = Fit(replicates=REPLICATES, seed=seed)
    rates = [estimate_mean(own, outcomes(own), fit) for own in np.eye(images)]
    return images * np.stack([rate.replicates for rate in rates], axis=1)


def of_classes(images=IMAGES, seed=SEED):
    """Two images to a class: of those in a replicate, the share of the first one."""
    label = np.repeat(np.arange(images // 2), 2)
    first = np.tile([1.0, 0.0], images // 2)
    clean = outcomes(first, label=label)
    own = ByClass(clean, REPLICATES, seed)
    own.add("fog", clean)
    return np.stack([score.corrupted.replicates for score in own.scores()], axis=1)


def of_overlap(images=IMAGES, seed=SEED, repeats=1):
    hits = np.zeros((repeats, images, images, images), dtype=bool)
    hits[:] = np.eye(images, dtype=bool)[None, :, None]
    shares = np.concatenate(list(resampled_shares(hits, REPLICATES, seed)))
    return images * shares[:, 0, :, 0]


def test_curves_and_rates_of_the_same_images_have_the_same_replicates():
    weights = of_curve()
    assert (weights.sum(axis=1) == IMAGES).all()
    assert len(np.unique(weights, axis=0)) == REPLICATES
    np.testing.assert_allclose(of_rate(), weights, atol=1e-9)


def test_other_seeds_have_other_replicates():
    assert not np.array_equal(of_curve(seed=8), of_curve())
    np.testing.assert_allclose(of_rate(seed=8), of_curve(seed=8), atol=1e-9)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_overlap_scores_resample_images_as_curves_do(repeats):
    np.testing.assert_allclose(of_overlap(repeats=repeats), of_curve(), atol=1e-5)


def test_classes_resample_images_as_curves_do():
    weights = of_curve()
    first, both = weights[:, ::2], weights[:, ::2] + weights[:, 1::2]
    # a replicate without either image says nothing new
    expected = np.divide(first, both, out=np.full(first.shape, 0.5), where=both > 0)
    np.testing.assert_allclose(of_classes(), expected)


def test_error_consistency_resamples_images_as_curves_do():
    first, second = np.arange(IMAGES) % 2, np.arange(IMAGES) % 3 == 0
    found = ec.error_consistency(
        first, second, clusters=np.arange(IMAGES), replicates=REPLICATES, seed=SEED
    ).kappa.replicates
    for place, weights in enumerate(of_curve()):
        one, two, same = (np.average(own, weights=weights) for own in (
            first, second, first == second
        ))  # fmt: skip
        chance = one * two + (1 - one) * (1 - two)
        expected = (same - chance) / (1 - chance) if chance < 1 else np.nan
        assert found[place] == pytest.approx(expected, nan_ok=True)


def test_an_image_without_an_answer_leaves_the_weights_of_the_others_as_they_are():
    kept = np.arange(IMAGES) != 4
    every = np.arange(IMAGES)
    answered = outcomes(np.eye(IMAGES)[2][kept], every, every[kept])
    rate = estimate_mean(answered.correct, answered, Fit(replicates=REPLICATES, seed=SEED))
    weights = of_curve()
    expected = weights[:, 2] / weights[:, kept].sum(axis=1)
    np.testing.assert_allclose(rate.replicates, expected)
