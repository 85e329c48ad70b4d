"""How often the gate errs, and whether the size it recommends suffices, by simulation.

The full grid, whose figures are in docs/gate.md, is slow.
"""

from dataclasses import replace

import numpy as np
import pytest

from eyechart.gates.planning import difference_targets, plan_size
from eyechart.stats.p_values import SIGNIFICANT
from gate_simulation import Pairs, pilot, recommended_images, simulate

MARGIN = 0.01
MOST_ERRORS = 0.065


def at_margin(n_rules: int, n_images: int, **others: float) -> tuple[Pairs, Pairs]:
    """Return pairs of which one rule is exactly at the margin, and of which all are."""
    one = Pairs(n_images=n_images, drops=(MARGIN, *[0.0] * (n_rules - 1)), **others)
    return one, replace(one, drops=(MARGIN,) * n_rules)


@pytest.mark.parametrize("n_each", [1, 10])
@pytest.mark.parametrize("n_images", [60, 200])
def test_a_drop_of_the_margin_rarely_passes_or_fails(n_images, n_each):
    for pairs in at_margin(2, n_images, n_each=n_each):
        shares = simulate(pairs, 400)
        # 0.065 and two standard errors
        assert shares.passed <= 0.09 and shares.failed <= 0.09


def test_a_drop_on_a_few_images_rarely_passes_where_students_t_would():
    pairs = Pairs(n_images=60, drops=(0.0,), n_each=20, lost=MARGIN / 0.7)
    shares = simulate(pairs, 400)
    assert shares.passed <= 0.09
    assert shares.passed_by_t > 0.15


def test_the_recommended_size_suffices():
    small = Pairs(n_images=60, drops=(0.0,))
    size = recommended_images(small, seed=1)
    equal = simulate(replace(small, n_images=size), 300, seed=2)
    worse = simulate(replace(small, n_images=size, drops=(0.03,)), 300, seed=3)
    assert equal.passed >= 0.75
    assert worse.failed >= 0.86 and worse.passed <= 0.02


def test_the_recommended_number_of_samples_of_the_same_images_suffices():
    small = Pairs(n_images=600, drops=(0.0,), n_each=4)
    (mean,) = pilot(small, seed=4)
    planned = plan_size(mean, difference_targets(MARGIN, 1, SIGNIFICANT))
    assert planned.n_samples is not None
    n_each = int(np.ceil(planned.n_samples / 600))
    assert 4 < n_each < 40
    assert simulate(replace(small, n_each=n_each), 300, seed=5).passed >= 0.75


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.7, 0.95])
@pytest.mark.parametrize("n_each", [1, 10])
@pytest.mark.parametrize("n_rules", [1, 10])
@pytest.mark.parametrize("n_images", [60, 200, 1000])
def test_errors_stay_within_their_level(n_images, n_rules, n_each, rate):
    one, every = at_margin(n_rules, n_images, n_each=n_each, rate=rate)
    first, second = simulate(one, 2000), simulate(every, 2000)
    print(n_images, n_rules, n_each, rate, first, second)
    assert max(first.passed, second.passed) <= MOST_ERRORS
    assert max(first.failed, second.failed) <= MOST_ERRORS


@pytest.mark.slow
@pytest.mark.parametrize("n_images", [60, 200, 400, 1000])
def test_errors_stay_within_their_level_if_a_few_images_are_lost(n_images):
    pairs = Pairs(n_images=n_images, drops=(0.0,), n_each=20, lost=MARGIN / 0.7)
    shares = simulate(pairs, 2000)
    print(n_images, shares)
    assert max(shares.passed, shares.failed) <= MOST_ERRORS


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("n_rules", [1, 10])
@pytest.mark.parametrize("n_images", [60, 200])
def test_at_the_recommended_size_equal_models_pass_and_worse_ones_fail(n_images, n_rules):
    small = Pairs(n_images=n_images, drops=(0.0,) * n_rules)
    drops = (3 * MARGIN, *[0.0] * (n_rules - 1))
    # 2,000 pairs, of which each 40 are evaluated at the size that another pilot recommended
    equal, worse, sizes = [], [], []
    for seed in range(50):
        size = recommended_images(small, seed)
        sizes.append(size)
        large = replace(small, n_images=size)
        equal.append(simulate(large, 40, seed=1000 + seed))
        worse.append(simulate(replace(large, drops=drops), 40, seed=2000 + seed))
    passed = np.mean([shares.passed for shares in equal])
    failed = np.mean([shares.failed for shares in worse])
    wrong = np.mean([shares.passed for shares in worse])
    print(n_images, n_rules, np.median(sizes), passed, failed, wrong)
    assert passed >= 0.8
    assert failed >= 0.9 and wrong <= 0.01
