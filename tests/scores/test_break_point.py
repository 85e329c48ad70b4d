"""Break points: where a curve has fallen halfway to chance, with intervals and censoring."""

from math import isnan

import numpy as np
import pytest

import eyechart as ec
from eyechart.scores.break_point import MIN_BEYOND, find_break_point


def fitted(rate, n=4000, highest=1.0, anchor=None, seed=0, **options):
    numbers = np.random.default_rng(seed)
    delta_v = numbers.uniform(0, highest, n)
    hits = (numbers.random(n) < rate(delta_v)).astype(float)
    start = float(rate(np.zeros(1))[0]) if anchor is None else anchor
    return ec.fit_curve(delta_v, hits, anchor=start, n_bootstrap=200, **options)


@pytest.mark.parametrize("chance", [0.0, 0.1])
def test_it_is_where_a_straight_line_is_halfway(chance):
    # 0.9 − 0.9 v is (0.9 + chance) / 2 at v = 1 − (0.9 + chance) / 1.8
    found = find_break_point(fitted(lambda v: 0.9 - 0.9 * v), chance)
    assert found.value == pytest.approx(1 - (0.9 + chance) / 1.8, abs=0.03)
    low, high = found.interval95
    near, far = found.interval83
    assert low <= near <= found.value <= far <= high


def test_a_step_breaks_at_the_step():
    delta_v = np.linspace(0, 1, 2000)
    found = find_break_point(ec.fit_curve(delta_v, delta_v < 0.4, anchor=1.0, n_bootstrap=50), 0.0)
    assert found.value == pytest.approx(0.4, abs=0.02) and found.text.startswith("0.4")


def test_a_robust_model_does_not_break_and_says_how_far_it_was_seen():
    found = find_break_point(fitted(lambda v: 0.8 + 0 * v, highest=0.83), 0.1)
    assert isnan(found.value) and isnan(found.interval95[1])
    assert 0.75 < found.limit < 0.83
    assert found.text == found.short_text == f"> {found.limit:.2f}"


def test_a_few_misses_at_the_end_are_no_break():
    delta_v = np.linspace(0, 0.9, 200)
    hits = np.ones(200)
    hits[-(MIN_BEYOND - 5) :] = 0
    assert isnan(
        find_break_point(ec.fit_curve(delta_v, hits, anchor=1.0, n_bootstrap=20), 0.0).value
    )


def test_an_interval_contains_the_gap_in_which_the_break_lies():
    delta_v = np.r_[np.linspace(0.0, 0.2, 200), np.linspace(0.7, 1, 200)]
    found = find_break_point(ec.fit_curve(delta_v, delta_v < 0.5, anchor=1.0, n_bootstrap=50), 0.0)
    low, high = found.interval95
    assert 0.2 < found.value < 0.7
    assert low <= 0.24 and high >= 0.66


def test_without_a_start_above_chance_there_is_none():
    delta_v = np.linspace(0, 1, 100)
    assert find_break_point(ec.fit_curve(delta_v, np.ones(100), n_bootstrap=5), 0.1) is None
    assert find_break_point(fitted(lambda v: 0.05 + 0 * v), 0.1) is None


def test_few_images_widen_its_interval():
    curve = fitted(lambda v: 0.9 - 0.9 * v, n=300)
    wide, narrow = (find_break_point(curve, 0.0, n).interval95 for n in (8, None))
    assert wide[0] <= narrow[0] and wide[1] >= narrow[1] and wide != narrow
