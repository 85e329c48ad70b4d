"""What would decide an inconclusive rule: samples where they help, otherwise images."""

import numpy as np
import pytest
from scipy.stats import norm

from eyechart.gates.bounds import (
    CAUTION,
    clustered_mean,
    difference_targets,
    floor_targets,
    plan_size,
)

ALPHA = 0.05


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
    planned = plan_size(mean, floor_targets(0.7, 0.65, n_rules=1, alpha=ALPHA))
    reach = norm.ppf(0.95) + norm.ppf(0.8)
    textbook = CAUTION * 0.7 * 0.3 * reach**2 / 0.05**2
    assert planned.n_images == pytest.approx(textbook, rel=0.05)


def test_more_samples_help_where_samples_of_an_image_differ():
    mean = hits(400, 3, within=1)
    planned = plan_size(mean, floor_targets(0.7, 0.67, n_rules=1, alpha=ALPHA))
    assert planned.is_separable
    assert planned.n_samples is not None and 1200 < planned.n_samples < 6000
    assert planned.n_images is not None and 400 < planned.n_images < 2000


def test_more_samples_do_not_help_where_images_differ():
    mean = hits(60, 10, within=0)
    planned = plan_size(mean, floor_targets(0.7, 0.66, n_rules=1, alpha=ALPHA))
    assert planned.n_samples is None
    assert planned.n_images is not None and planned.n_images > 500


def test_a_few_images_cannot_show_a_small_margin_however_alike_the_models_are():
    mean = clustered_mean(np.zeros(6000), np.repeat(np.arange(60), 100), lowest=-1)
    planned = plan_size(mean, difference_targets(0.01, n_rules=1, alpha=ALPHA))
    assert planned.n_samples is None
    square = norm.ppf(0.95) ** 2
    assert planned.n_images is not None
    assert planned.n_images > square * (1 - 0.01) / 0.01


def test_more_rules_need_more_images():
    mean = clustered_mean(
        np.tile([-1.0, 1.0, *[0.0] * 18], 60), np.repeat(np.arange(60), 20), lowest=-1
    )
    sizes = [plan_size(mean, difference_targets(0.01, rules, ALPHA)).n_images for rules in (1, 10)]
    assert sizes[0] is not None and sizes[1] is not None and sizes[0] < sizes[1]


def test_images_of_the_run_without_samples_so_far_can_be_used():
    mean = clustered_mean(np.ones(4), np.array([0, 0, 1, 2]), lowest=0)
    targets = floor_targets(1.0, 0.6, n_rules=1, alpha=ALPHA)
    assert plan_size(mean, targets).n_samples is None
    assert plan_size(mean, targets, n_available=40).n_samples is not None


def test_with_one_sample_per_image_the_effect_of_more_is_unknown():
    mean = clustered_mean(np.tile([0.0, 1.0], 30), np.arange(60), lowest=0)
    planned = plan_size(mean, floor_targets(0.5, 0.45, n_rules=1, alpha=ALPHA))
    assert not planned.is_separable and planned.n_samples is None


def test_an_estimate_at_its_limit_is_never_decided():
    mean = clustered_mean(np.tile([0.0, 1.0], 30), np.arange(60) // 2, lowest=0)
    planned = plan_size(mean, floor_targets(0.5, 0.5, n_rules=1, alpha=ALPHA))
    assert planned.n_images is None and planned.n_samples is None
