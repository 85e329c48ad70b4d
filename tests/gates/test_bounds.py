"""Bounds of means over samples of images: closed forms, other intervals, and no zero width."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta, norm, t

from eyechart.gates.bounds import (
    CAUTION,
    clustered_mean,
    difference_targets,
    floor_targets,
    plan_size,
)

ALPHA = 0.05


def of_images(values: np.ndarray, lowest: float = 0):
    """One row of values per image."""
    image = np.repeat(np.arange(len(values)), values.shape[1])
    return clustered_mean(values.ravel(), image, lowest=lowest)


@pytest.mark.parametrize(("n", "k"), [(6, 6), (9, 7), (40, 39), (100, 70), (2000, 1999)])
def test_with_one_sample_per_image_the_bounds_are_those_of_clopper_and_pearson(n, k):
    hits = np.repeat([1.0, 0.0], [k, n - k])
    mean = clustered_mean(hits, np.arange(n), lowest=0)
    assert mean.variance == pytest.approx(k / n * (1 - k / n) / (n - 1))
    reach = t.ppf(0.95, n - 1) * sqrt(mean.variance)
    exact = beta.ppf(ALPHA, k, n - k + 1), 1 if k == n else beta.ppf(1 - ALPHA, k + 1, n - k)
    low, high = mean.bounds(ALPHA)
    assert low == pytest.approx(min(exact[0], k / n - reach), abs=1e-9)
    assert high == pytest.approx(min(1, max(exact[1], k / n + reach)), abs=1e-9)


def test_six_hits_of_six_images_do_not_show_a_rate_of_69_percent():
    mean = clustered_mean(np.ones(6), np.arange(6), lowest=0)
    # 0.689 ** 6 is 10.7 %
    assert mean.p_value(0.689, "above") == pytest.approx(0.689**6)
    assert mean.bounds(ALPHA)[0] == pytest.approx(ALPHA ** (1 / 6))


def test_samples_of_one_image_do_not_count_as_independent():
    images = np.random.default_rng(0).integers(0, 2, (40, 1)).astype(float)
    once, often = of_images(images), of_images(np.repeat(images, 25, axis=1))
    assert often.bounds(ALPHA) == pytest.approx(once.bounds(ALPHA))
    assert often.n_samples == 1000 and often.n_images == often.n_effective == 40


@pytest.mark.parametrize("n", [20, 60, 200])
def test_without_any_difference_the_bounds_are_those_of_the_number_of_images(n):
    mean = of_images(np.zeros((n, 30)), lowest=-1)
    # n images without a loss are this likely if this share of all images is lost
    share = 1 - ALPHA ** (1 / n)
    assert mean.bounds(ALPHA) == pytest.approx((-share, share))


def tango_lower(n_lost: int, n_won: int, n: int) -> float:
    """Tango's (1998) lower score bound of p_won − p_lost, solved numerically."""

    def excess(delta: float) -> float:
        a, b = 2 * n, -n_won - n_lost + (2 * n - n_won + n_lost) * delta
        c = -n_lost * delta * (1 - delta)
        lost = (sqrt(b * b - 4 * a * c) - b) / (2 * a)
        spread = sqrt(n * (2 * lost + delta * (1 - delta)))
        return (n_won - n_lost - n * delta) / spread - norm.ppf(0.95)

    return brentq(excess, -1 + 1e-9, (n_won - n_lost) / n - 1e-9)


@pytest.mark.parametrize("n", [60, 200, 1000])
@pytest.mark.parametrize("lost, won", [(0, 0), (1, 0), (0, 1), (2, 2), (5, 1), (1, 5), (6, 6)])
def test_with_one_sample_per_image_differences_have_nearly_tangos_bound(n, lost, won):
    values = np.repeat([-1.0, 1.0, 0.0], [lost, won, n - lost - won])
    low, _ = clustered_mean(values, np.arange(n), lowest=-1).bounds(ALPHA)
    # Tango's is approximate, and mostly less cautious
    assert -1.1 < n * (low - tango_lower(lost, won, n)) < 0.6


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_p_value_is_below_alpha_exactly_where_the_bound_is_beyond_the_limit(data):
    lowest = data.draw(st.sampled_from([0, -1]))
    n, k = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 5))
    seed, alpha = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([0.05, 0.005, 0.2]))
    drawn = np.random.default_rng(seed).random((n, k))
    values = np.where(drawn < 0.2, lowest, np.where(drawn < 0.7, 0, 1)).astype(float)
    mean = of_images(values, lowest)
    low, high = mean.bounds(alpha)
    for limit in (low - 1e-6, low + 1e-6):
        if lowest < limit < 1:
            assert (mean.p_value(limit, "above") < alpha) == (low > limit)
    for limit in (high - 1e-6, high + 1e-6):
        if lowest < limit < 1:
            assert (mean.p_value(limit, "below") < alpha) == (high < limit)


def test_a_single_image_shows_nothing():
    mean = clustered_mean(np.ones(50), np.zeros(50, dtype=int), lowest=0)
    assert mean.bounds(ALPHA) == (0, 1)
    assert mean.p_value(0.5, "above") == mean.p_value(0.5, "below") == 1


def test_a_mean_on_the_other_side_shows_nothing():
    mean = of_images(np.full((30, 2), 0.0), lowest=-1)
    assert mean.p_value(0.5, "above") >= 0.5
    assert mean.p_value(-0.5, "below") >= 0.5


def test_weights_are_those_of_repeated_samples():
    values = np.random.default_rng(1).integers(0, 2, 60).astype(float)
    image, weights = np.arange(60) // 4, np.tile([1, 2, 3, 1], 15)
    weighted = clustered_mean(values, image, weights.astype(float), lowest=0)
    repeated = clustered_mean(np.repeat(values, weights), np.repeat(image, weights), lowest=0)
    assert weighted.value == pytest.approx(repeated.value)
    assert weighted.variance == pytest.approx(repeated.variance)


def test_the_variance_is_about_that_of_the_bootstrap_over_images():
    random = np.random.default_rng(2)
    image = np.repeat(np.arange(80), random.integers(1, 12, 80))
    hits = (random.random(80)[image] + random.random(len(image)) < 1).astype(float)
    totals, counts = np.bincount(image, hits), np.bincount(image)
    drawn = random.integers(0, 80, (20_000, 80))
    means = totals[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    assert clustered_mean(hits, image, lowest=0).variance == pytest.approx(means.var(), rel=0.06)


def test_unequal_images_count_as_fewer():
    image = np.repeat(np.arange(11), [50, *[5] * 10])
    mean = clustered_mean(np.zeros(100), image, lowest=0)
    assert mean.n_images == 11
    assert mean.n_effective == int(100**2 / (50**2 + 10 * 5**2))


def test_variance_between_and_within_images_is_told_apart():
    random = np.random.default_rng(3)
    levels = random.normal(0, 0.3, (2000, 1)) + random.normal(0, 0.5, (2000, 8))
    mean = of_images(levels, lowest=-10)
    assert mean.between == pytest.approx(0.09, rel=0.1)
    assert mean.within == pytest.approx(0.25, rel=0.1)
    # the variance of a mean over equal images follows from both
    assert mean.variance == pytest.approx((mean.between + mean.within / 8) / 2000, rel=1e-6)


def test_one_sample_per_image_cannot_tell_variances_apart():
    mean = clustered_mean(np.tile([0.0, 1.0], 10), np.arange(20), lowest=0)
    assert np.isnan(mean.between) and np.isnan(mean.within)


# The sizes that decide


def hits(n_images: int, n_each: int, within: float, seed: int = 0):
    """Return a mean near 0.7 whose images differ, or whose samples do."""
    random = np.random.default_rng(seed)
    rate = np.where(random.random((n_images, 1)) < 0.7, 1.0, 0.0)
    drawn = random.random((n_images, n_each))
    values = np.where(random.random((n_images, n_each)) < within, drawn < 0.7, rate)
    image = np.repeat(np.arange(n_images), n_each)
    return clustered_mean(values.ravel().astype(float), image, lowest=0)


def test_the_number_of_images_is_about_that_of_the_textbook():
    mean = clustered_mean(np.repeat([1.0, 0.0], [140, 60]), np.arange(200), lowest=0)
    _, n_images = plan_size(mean, floor_targets(0.7, 0.65, n_rules=1, alpha=ALPHA))
    reach = norm.ppf(0.95) + norm.ppf(0.8)
    textbook = CAUTION * 0.7 * 0.3 * reach**2 / 0.05**2
    assert n_images == pytest.approx(textbook, rel=0.05)


def test_more_samples_help_where_samples_of_an_image_differ():
    mean = hits(400, 3, within=1)
    n_samples, n_images = plan_size(mean, floor_targets(0.7, 0.67, n_rules=1, alpha=ALPHA))
    assert mean.is_separable
    assert n_samples is not None and 1200 < n_samples < 6000
    assert n_images is not None and 400 < n_images < 2000


def test_more_samples_do_not_help_where_images_differ():
    mean = hits(60, 10, within=0)
    n_samples, n_images = plan_size(mean, floor_targets(0.7, 0.66, n_rules=1, alpha=ALPHA))
    assert n_samples is None
    assert n_images is not None and n_images > 500


def test_a_few_images_cannot_show_a_small_margin_however_alike_the_models_are():
    mean = clustered_mean(np.zeros(6000), np.repeat(np.arange(60), 100), lowest=-1)
    n_samples, n_images = plan_size(mean, difference_targets(0.01, n_rules=1, alpha=ALPHA))
    assert n_samples is None
    square = norm.ppf(0.95) ** 2
    assert n_images is not None
    assert n_images > square * (1 - 0.01) / 0.01


def test_more_rules_need_more_images():
    mean = clustered_mean(
        np.tile([-1.0, 1.0, *[0.0] * 18], 60), np.repeat(np.arange(60), 20), lowest=-1
    )
    sizes = [plan_size(mean, difference_targets(0.01, rules, ALPHA))[1] for rules in (1, 10)]
    assert sizes[0] is not None and sizes[1] is not None and sizes[0] < sizes[1]


def test_images_of_the_run_without_samples_so_far_can_be_used():
    mean = clustered_mean(np.ones(4), np.array([0, 0, 1, 2]), lowest=0)
    targets = floor_targets(1.0, 0.6, n_rules=1, alpha=ALPHA)
    assert plan_size(mean, targets)[0] is None
    assert plan_size(mean, targets, n_available=40)[0] is not None


def test_with_one_sample_per_image_the_effect_of_more_is_unknown():
    mean = clustered_mean(np.tile([0.0, 1.0], 30), np.arange(60), lowest=0)
    n_samples, _ = plan_size(mean, floor_targets(0.5, 0.45, n_rules=1, alpha=ALPHA))
    assert not mean.is_separable and n_samples is None


def test_an_estimate_at_its_limit_is_never_decided():
    mean = clustered_mean(np.tile([0.0, 1.0], 30), np.arange(60) // 2, lowest=0)
    n_samples, n_images = plan_size(mean, floor_targets(0.5, 0.5, n_rules=1, alpha=ALPHA))
    assert n_images is None and n_samples is None
