"""Estimates: percentile intervals with Wilson's as their floor, means and complements."""

import numpy as np
import pytest
from scipy.stats import binomtest

from eyechart.stats.bootstrap import resample_means
from eyechart.stats.estimate import (
    ENOUGH,
    complement,
    make_estimate,
    make_estimates,
    mean_estimate,
)


def accuracy(hits, seed=0):
    hits = np.asarray(hits, dtype=float)
    drawn = resample_means(hits, np.ones(len(hits)), 500, seed)
    return make_estimate(hits.mean(), drawn, len(hits))


@pytest.mark.parametrize("n_units", [ENOUGH - 20, ENOUGH, 271])
def test_where_no_unit_shows_an_error_the_interval_is_wilsons(n_units):
    found = accuracy(np.ones(n_units))
    for level, interval in ((0.95, found.interval95), (0.83, found.interval83)):
        exact = binomtest(n_units, n_units).proportion_ci(level, method="wilson")
        assert interval == pytest.approx((exact.low, exact.high))


def test_few_units_are_not_trusted_to_vary_less_than_single_trials():
    drawn = np.full(500, 0.5)
    few, enough = (make_estimate(0.5, drawn, n).interval95 for n in (ENOUGH - 1, ENOUGH))
    exact = binomtest(13, 26).proportion_ci(0.95, method="wilson")
    assert make_estimate(0.5, drawn, 26).interval95 == pytest.approx((exact.low, exact.high))
    assert np.ptp(few) > 3 * np.ptp(enough)


def test_what_is_no_share_keeps_its_percentiles():
    drawn = np.random.default_rng(0).normal(1.7, 0.1, 1000)
    ends = tuple(np.quantile(drawn, [0.025, 0.975]))
    assert make_estimate(1.7, drawn, 10).interval95 == pytest.approx(ends)
    assert make_estimate(0.7, drawn).interval95 == pytest.approx(ends)


def test_intervals_hold_the_true_share_as_often_as_they_say():
    numbers = np.random.default_rng(3)
    held = 0
    for seed in range(300):
        low, high = accuracy(numbers.random(120) < 0.8, seed).interval95
        held += low <= 0.8 <= high
    assert 0.92 < held / 300 < 0.99


def test_a_mean_has_the_mean_of_its_parts_replicates():
    one, two = accuracy(np.arange(80) % 2), accuracy(np.arange(80) % 4 == 0)
    found = mean_estimate([one, two], 80)
    assert found.value == pytest.approx(0.375)
    np.testing.assert_allclose(found.replicates, (one.replicates + two.replicates) / 2)


def test_a_complement_turns_everything_around():
    one = accuracy(np.arange(80) % 4 == 0)
    other = complement(one)
    assert other.value == 0.75
    assert other.interval95 == pytest.approx((1 - one.interval95[1], 1 - one.interval95[0]))
    assert complement(other).interval83 == pytest.approx(one.interval83)


def test_an_estimate_is_ordered_and_calculated_with_like_its_value():
    low, high = (make_estimate(value, np.full(9, value)) for value in (0.25, 0.5))
    assert low < high and low <= 0.25 and high > low and high >= np.float32(0.5) and low < 0.3
    assert not low < 0.25 and max(low, high) is high and sorted([high, low]) == [low, high]
    assert (low + 1, 1 + low, high - low, 1 - low) == (1.25, 1.25, 0.25, 0.75)
    assert (2 * low, low * 2, low / high, 1 / low) == (0.5, 0.5, 0.5, 4)
    assert (-low, abs(low), round(low, 1), sum([low, high])) == (-0.25, 0.25, 0.2, 0.75)
    for calculated in (np.ones(2) - low, 1 - (low - np.zeros(2))):
        assert calculated.dtype == np.float64 and calculated.tolist() == [0.75, 0.75]
    assert str(low) == f"{low}" == repr(low) == "0.250 (0.250–0.250)"
    unknown = make_estimate(np.nan, np.full(9, np.nan))
    assert not unknown < 1 and not unknown >= 1
    with pytest.raises(TypeError, match="'Estimate' and 'str'"):
        _ = low < "0.3"
    with pytest.raises(TypeError, match="'Estimate' and 'NoneType'"):
        _ = low + None


def test_many_estimates_are_those_made_one_by_one():
    numbers = np.random.default_rng(2)
    values, n_units = np.array([0.0, 0.3, 0.9, 1.0]), np.array([1, ENOUGH - 1, ENOUGH, 500])
    replicates = np.clip(values[:, None] + 0.05 * numbers.normal(size=(4, 301)), 0, 1)
    # some replicates contain no unit, and count as the value
    replicates[1, :20] = np.nan
    known = np.where(np.isnan(replicates), values[:, None], replicates)
    for number, estimate in enumerate(make_estimates(values, replicates, n_units)):
        alone = make_estimate(float(values[number]), known[number], int(n_units[number]))
        assert estimate == alone
        np.testing.assert_array_equal(estimate.replicates, alone.replicates)
