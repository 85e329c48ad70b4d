"""Confidence intervals: Wilson's against SciPy's, clustered ones, percentiles, of sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

import eyechart as ec
from eyechart.stats.intervals import (
    clustered_interval,
    hull,
    percentile_interval,
    sum_interval,
    wilson_interval,
)

LEVELS = st.floats(0.5, 0.999)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), LEVELS)
def test_wilsons_interval_is_scipys(counts, level):
    hits, trials = counts
    exact = binomtest(hits, trials).proportion_ci(level, method="wilson")
    assert wilson_interval(hits / trials, trials, level) == pytest.approx(
        (exact.low, exact.high), abs=1e-9
    )


@given(st.integers(1, 100_000), LEVELS)
def test_wilsons_interval_of_all_or_none_ends_at_the_share_itself(n_units, level):
    (low, all_high), (none_low, high) = (wilson_interval(p, n_units, level) for p in (1.0, 0.0))
    assert (none_low, all_high) == (0.0, 1.0) and 0 < low < 1 and 0 < high < 1


def test_wilsons_interval_solves_its_equation():
    """Its ends are the shares p for which the score is just z standard errors away."""
    for share, trials in ((0.2, 35), (0.5, 8), (0.97, 400)):
        z = norm.ppf(0.975)
        for end in wilson_interval(share, trials, 0.95):
            assert abs(share - end) == pytest.approx(z * np.sqrt(end * (1 - end) / trials))


def test_a_mean_that_varies_less_has_a_narrower_interval_but_never_none():
    usual, steady, still = (
        np.ptp(wilson_interval(0.5, 100, 0.95, variance)) for variance in (None, 0.001, 0.0)
    )
    assert usual > steady > still > 0


def test_percentiles_are_numpys_and_an_undetermined_value_stands_beyond_both_ends():
    values = np.random.default_rng(0).normal(size=500)
    assert percentile_interval(values, 0.9) == pytest.approx(
        tuple(np.quantile(values, [0.05, 0.95]))
    )
    few = values.copy()
    few[:10] = np.nan
    low, high = percentile_interval(few, 0.9)
    rest = np.sort(few[10:])
    # 25 of 500 lie beyond either end, and 10 of them are the unknown ones
    assert (low, high) == (rest[15], rest[-16])
    few[:30] = np.nan
    assert np.isnan(percentile_interval(few, 0.9)).all()
    with pytest.raises(ec.UsageError, match="level must be between 0 and 1"):
        percentile_interval(values, 1.0)


def test_a_hull_holds_both_intervals():
    assert hull((0.1, 0.3), (0.2, 0.5)) == (0.1, 0.5)
    assert np.isnan(hull((np.nan, np.nan), (0.2, 0.5))).all()


def test_the_interval_of_a_difference_is_newcombes():
    # Newcombe 1998, example a: 56 of 70 against 48 of 80, by method 10
    terms = [
        (sign, hits / trials, wilson_interval(hits / trials, trials, 0.95))
        for sign, hits, trials in ((1, 56, 70), (-1, 48, 80))
    ]
    assert sum_interval(terms) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_of_a_mean_of_equal_symmetric_scores_shrinks_with_their_root():
    assert sum_interval([(0.25, 0.5, (0.3, 0.7))] * 4) == pytest.approx((0.4, 0.6))


def test_a_clustered_interval_holds_the_truth_as_often_as_it_says():
    numbers = np.random.default_rng(1)
    for humans, each, mean, spread in ((8, 12, 0.5, 10), (12, 8, 0.6, 5), (6, 20, 0.55, 8)):
        held = 0
        for _ in range(300):
            counts = numbers.integers(each // 2, each * 2, humans)
            rates = numbers.beta(mean * spread, (1 - mean) * spread, humans)
            low, high = clustered_interval(numbers.binomial(counts, rates), counts, 0.95)
            held += low <= mean <= high
        assert held / 300 > 0.925


def test_of_single_responses_of_many_participants_it_is_nearly_the_exact_binomial_one():
    right = np.array([1] * 140 + [0] * 60)
    found = clustered_interval(right, np.ones(200, dtype=np.int64), 0.95)
    exact = binomtest(140, 200).proportion_ci(0.95)
    assert found == pytest.approx((exact.low, exact.high), abs=0.002)


def test_it_is_wider_the_more_participants_differ():
    counts = np.full(10, 20)
    alike = clustered_interval(np.full(10, 12), counts, 0.95)
    apart = clustered_interval(np.array([20] * 5 + [4] * 5), counts, 0.95)
    assert apart[1] - apart[0] > 2 * (alike[1] - alike[0])


def test_one_participant_says_nothing_of_others_and_all_correct_is_no_certainty():
    assert clustered_interval(np.array([90]), np.array([100]), 0.95) == (0.0, 1.0)
    low, high = clustered_interval(np.full(6, 5), np.full(6, 5), 0.95)
    assert high == 1 and 0.7 < low < 0.025 ** (1 / 30)
