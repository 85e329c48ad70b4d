"""Hypothesis tests: Holm's correction, signs exchanged, paired bootstrap differences."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, wilcoxon

import eyechart as ec
from eyechart.stats.estimate import make_estimate
from eyechart.stats.p_values import bootstrap_p_value, holm, paired_difference, sign_flip
from resampled_models import estimates, models

SHARES = st.floats(0, 1)


# Holm's correction


def test_holm_of_a_worked_example():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never below the one before
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1, 1])
    np.testing.assert_allclose(holm([0.4, 0.9]), [0.8, 0.9])
    assert len(holm([])) == 0


@given(st.lists(SHARES, min_size=1, max_size=8), st.floats(0, 0.999))
def test_holm_rejects_what_the_step_by_step_rule_rejects(p_values, level):
    rejected = set()
    for step, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] * (len(p_values) - step) > level:
            break
        rejected.add(int(place))
    assert set(np.flatnonzero(holm(p_values) <= level)) == rejected


@given(st.lists(SHARES, min_size=1, max_size=5))
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    # a hypothesis falls if every set that holds it falls at its smallest p times its size
    places = range(len(p_values))
    subsets = [own for size in places for own in combinations(places, size + 1)]
    for place, corrected in enumerate(holm(p_values)):
        worst = max(
            len(own) * min(p_values[each] for each in own) for own in subsets if place in own
        )
        assert corrected == pytest.approx(min(worst, 1))


def test_holm_keeps_the_chance_of_any_false_claim_at_five_percent():
    numbers = np.random.default_rng(0)
    p_values = numbers.random((4000, 6))
    p_values[:, :2] = 1e-6  # two real differences leave four that are none
    false = np.mean([(holm(own)[2:] < 0.05).any() for own in p_values])
    assert 0.035 < false < 0.06
    assert np.mean((p_values[:, 2:] < 0.05).any(axis=1)) > 0.15


# Signs exchanged


@pytest.mark.parametrize("sums", [[3, -1, 4, 1, -5, 9, 2], [2, 2, 2, 2, 2, 2], [0, 0, 1], [7], []])
def test_exchanging_signs_counts_every_outcome(sums):
    outcomes = [
        sum(sign * each for sign, each in zip(signs, sums, strict=True))
        for signs in product((-1, 1), repeat=len(sums))
    ]
    expected = np.mean([abs(each) >= abs(sum(sums)) for each in outcomes])
    assert sign_flip(np.array(sums, dtype=np.int64)) == pytest.approx(expected, abs=1e-12)


def test_with_one_prediction_from_each_person_it_is_the_binomial_test():
    for right, total in ((12, 15), (30, 61), (0, 8), (55, 100)):
        sums = np.array([1] * right + [-1] * (total - right))
        assert sign_flip(sums) == pytest.approx(binomtest(right, total).pvalue, rel=1e-9)


def test_with_humans_who_differ_in_rank_only_it_agrees_with_the_signed_rank_test():
    """Where sums are 1, 2, 3, … their ranks are the sums themselves."""
    signs = np.array([1, 1, -1, 1, 1, 1, -1, 1, 1, 1])
    sums = signs * np.arange(1, 11)
    assert sign_flip(sums) == pytest.approx(wilcoxon(sums, method="exact").pvalue, rel=1e-9)


def test_humans_whose_predictions_hang_together_are_rejected_no_more_often_than_stated():
    numbers = np.random.default_rng(0)
    pooled = by_humans = 0
    for _ in range(400):
        # nobody can tell, but each sticks to one wrong idea or its opposite
        rates = numbers.beta(0.8, 0.8, 10)
        right = numbers.binomial(20, rates)
        pooled += binomtest(int(right.sum()), 200).pvalue < 0.05
        by_humans += sign_flip(2 * right - 20) < 0.05
    assert by_humans / 400 < 0.075  # 0.05 and more than two standard errors
    assert pooled / 400 > 0.4  # which is why there is a test by people at all


# Paired differences


def test_no_p_value_of_a_bootstrap_is_0():
    assert bootstrap_p_value(np.zeros(999, dtype=bool)) == 1 / 1000
    assert bootstrap_p_value(np.arange(999) < 24) == pytest.approx(0.025)
    assert bootstrap_p_value(np.ones(999, dtype=bool)) == 1


def test_paired_tests_of_equal_models_find_a_difference_in_five_percent():
    found = []
    for seed in range(1500):
        first, second = estimates(models([0.6, 0.6], 200, seed), 200, seed).values()
        found.append(paired_difference(first, second).p_value)
    assert 0.03 < np.mean(np.array(found) < 0.05) < 0.07
    assert min(found) > 0


def test_holm_corrected_pairs_of_equal_models_are_wrong_in_at_most_five_percent():
    any_false = plain_false = 0
    for seed in range(400):
        scores = estimates(models([0.6] * 4, 200, seed), 200, seed)
        p_values = [
            paired_difference(scores[one], scores[two]).p_value
            for one, two in combinations(scores, 2)
        ]
        any_false += (holm(p_values) < 0.05).any()
        plain_false += min(p_values) < 0.05
    assert any_false / 400 < 0.07
    assert plain_false / 400 > 0.1


def test_pairing_finds_what_separate_images_would_hide():
    hits = models([0.62, 0.55], 1000, 1, shared=0.97)
    first, second = estimates(hits).values()
    paired = paired_difference(first, second)
    assert paired.difference == pytest.approx(hits[0].mean() - hits[1].mean())
    assert paired.interval[0] < paired.difference < paired.interval[1]
    assert paired.p_value < 0.02
    other = estimates(hits, seed=1)["m1"]
    apart = paired_difference(first, other)
    assert np.diff(apart.interval) > 1.5 * np.diff(paired.interval)


def test_a_model_does_not_differ_from_itself():
    own = estimates(models([0.5], 50, 0))["m0"]
    same = paired_difference(own, own)
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)


def test_intervals_of_differences_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(400):
        first, second = estimates(models([0.7, 0.6], 200, seed), 200, seed).values()
        low, high = paired_difference(first, second).interval
        held += low <= 0.1 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_an_undetermined_replicate_counts_against_a_difference():
    sure = make_estimate(1.0, np.full(99, 1.0))
    other = make_estimate(2.0, np.full(99, 2.0))
    assert paired_difference(sure, other).p_value == pytest.approx(0.01)
    drawn = np.where(np.arange(99) < 20, np.nan, 2.0)
    unsure = type(other).of(2.0, (2.0, 2.0), (2.0, 2.0), drawn)
    found = paired_difference(sure, unsure)
    assert found.p_value == pytest.approx(0.21)
    assert np.isnan(found.interval).all()
    rarely = np.where(np.arange(99) < 2, np.nan, 2.0)
    assert paired_difference(sure, type(other).of(2.0, (2, 2), (2, 2), rarely)).interval == (-1, -1)


def test_many_models_can_be_told_apart_with_the_usual_number_of_replicates():
    """Eleven models make 55 pairs, and 55 / 1001 is more than 5 %."""
    numbers = np.random.default_rng(0)
    far = {
        f"m{place}": make_estimate(place / 20, place / 20 + numbers.normal(0, 0.001, 1000))
        for place in range(11)
    }
    pairs = [paired_difference(one, two) for one, two in combinations(far.values(), 2)]
    assert max(holm([pair.p_value for pair in pairs])) < 0.05


def test_p_values_from_the_spread_are_those_of_a_normal_difference():
    numbers = np.random.default_rng(1)
    drawn = numbers.normal(0.05, 0.01, 100_000)
    one = make_estimate(0.05, drawn)
    none = make_estimate(0.0, np.zeros(100_000))
    few = make_estimate(0.05, drawn[:100])
    nobody = make_estimate(0.0, np.zeros(100))
    assert paired_difference(few, nobody).p_value == pytest.approx(5.7e-7, rel=3)
    assert paired_difference(one, none).p_value <= 1e-4


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("list of numbers in", lambda: holm([0.1, 2])),
        ("list of numbers in", lambda: holm([0.1, float("nan")])),
        (
            "10 and 3 replicates",
            lambda: paired_difference(
                make_estimate(0.5, np.full(10, 0.5)), make_estimate(0.5, np.ones(3))
            ),
        ),
    ],
)
def test_what_cannot_be_tested_is_rejected(words, call):
    with pytest.raises(ec.UsageError, match=words):
        call()
