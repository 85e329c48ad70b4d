"""Rankings: Holm's correction, paired tests, ranks with intervals, and swapped pairs."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

import eyechart as ec
from eyechart.reports.terminal.card_tables import in_words
from eyechart.reports.terminal.leaderboard import shown
from eyechart.reports.terminal.overlap_tables import percent_range
from eyechart.results.schema import Estimate
from eyechart.scores.estimate import make_estimate
from eyechart.scores.ranking import Ranking, holm, kendall_tau, paired_difference, rank, swaps

SHARES = st.floats(0, 1)


@cache
def weights_of(count, replicates, seed):
    numbers = np.random.default_rng(seed)
    return numbers.multinomial(count, np.full(count, 1 / count), replicates).astype(float)


def estimates(hits, replicates=300, seed=0):
    """Accuracy of each row of right and wrong answers, all resampled with the same weights."""
    hits = np.asarray(hits, dtype=float)
    count = hits.shape[1]
    # a few sets of weights serve many simulations: drawing them takes most of the time
    drawn = hits @ weights_of(count, replicates, seed % 20).T / count
    return {
        f"m{place}": make_estimate(float(row.mean()), own)
        for place, (row, own) in enumerate(zip(hits, drawn, strict=True))
    }


def models(rates, pictures, seed, shared=0.7):
    """Right and wrong of models with these accuracies, some of whose luck is the picture's."""
    numbers = np.random.default_rng(seed)
    size = (len(rates), pictures)
    luck = np.where(numbers.random(size) < shared, numbers.random(pictures), numbers.random(size))
    return luck < np.asarray(rates)[:, None]


def test_holm_of_a_worked_example():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and never below the one before
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1, 1])
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


def test_pairing_finds_what_separate_pictures_would_hide():
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


def test_models_far_apart_have_one_rank_each():
    scores = estimates(models([0.2, 0.9, 0.5], 2000, 0))
    best = rank(scores, higher_is_better=True)
    assert best.ranks == {"m0": 3, "m1": 1, "m2": 2}
    assert best.intervals == {"m0": (3, 3), "m1": (1, 1), "m2": (2, 2)}
    least = rank(scores, higher_is_better=False)
    assert least.ranks == {"m0": 1, "m1": 3, "m2": 2}


def test_equal_models_may_have_any_rank():
    numbers = np.random.default_rng(0)
    scores = {f"m{place}": make_estimate(0.5, numbers.normal(0.5, 0.1, 2000)) for place in range(5)}
    found = rank(scores, higher_is_better=True)
    assert set(found.ranks.values()) == {3.0}
    assert set(found.intervals.values()) == {(1.0, 5.0)}


def test_the_true_rank_is_in_its_interval():
    inside = 0
    for seed in range(200):
        scores = estimates(models([0.50, 0.53, 0.56, 0.59], 300, seed), 200, seed)
        found = rank(scores, higher_is_better=True)
        for place in range(4):
            low, high = found.intervals[f"m{place}"]
            inside += low <= 4 - place <= high
    assert inside / 800 > 0.93


def test_equal_scores_share_the_mean_of_their_ranks():
    hits = models([0.5, 0.9], 500, 0)
    found = rank(estimates([hits[0], hits[1], hits[1]]), higher_is_better=True)
    assert found.ranks == {"m0": 3, "m1": 1.5, "m2": 1.5}
    assert found.intervals["m1"] == (1.5, 1.5)


def ranking(*ranks):
    return Ranking({f"m{place}": own for place, own in enumerate(ranks)}, {})


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=8))
def test_tau_is_kendalls(ranks):
    first, second = zip(*ranks, strict=True)
    expected = kendalltau(first, second).statistic
    assert kendall_tau(ranking(*first), ranking(*second)) == pytest.approx(expected, nan_ok=True)


def test_tau_of_equal_and_reversed_rankings():
    assert kendall_tau(ranking(1, 2, 3), ranking(1, 2, 3)) == 1
    assert kendall_tau(ranking(1, 2, 3), ranking(3, 2, 1)) == -1
    assert np.isnan(kendall_tau(ranking(1), ranking(1)))


def test_swapped_pairs_are_found_and_only_sure_ones_are_significant():
    numbers = np.random.default_rng(0)
    close = [numbers.permutation(np.arange(2000) < right) for right in (400, 395)]
    sure = models([0.9, 0.5], 2000, 0)
    one, two = estimates([*sure, *close]), estimates([*sure[::-1], *close[::-1]])
    found = swaps((one, True), (two, True))
    assert {(swap.first, swap.second): swap.significant for swap in found} == {
        ("m0", "m1"): True,
        ("m2", "m3"): False,
    }
    # beyond what 300 replicates can count: from their spread
    assert max(found[0].p_values) < 1e-6
    assert swaps((one, True), (one, True)) == []
    reversed_pairs = swaps((one, True), (one, False))
    assert len(reversed_pairs) == 6


def test_an_error_and_an_accuracy_are_the_same_ranking():
    scores = estimates(models([0.9, 0.5, 0.2], 500, 0))
    errors = {
        name: make_estimate(1 - own.value, 1 - own.replicates) for name, own in scores.items()
    }
    assert swaps((scores, True), (errors, False)) == []
    assert rank(scores, True).ranks == rank(errors, False).ranks


def test_an_undetermined_replicate_counts_against_a_difference():
    sure = make_estimate(1.0, np.full(99, 1.0))
    other = make_estimate(2.0, np.full(99, 2.0))
    assert paired_difference(sure, other).p_value == pytest.approx(0.01)
    drawn = np.where(np.arange(99) < 20, np.nan, 2.0)
    unsure = type(other)(2.0, (2.0, 2.0), (2.0, 2.0), drawn)
    found = paired_difference(sure, unsure)
    assert found.p_value == pytest.approx(0.21)
    assert np.isnan(found.interval).all()
    rarely = np.where(np.arange(99) < 2, np.nan, 2.0)
    assert paired_difference(sure, type(other)(2.0, (2, 2), (2, 2), rarely)).interval == (-1, -1)


def test_a_replicate_without_a_score_may_put_every_model_at_every_rank():
    numbers = np.random.default_rng(0).normal(size=(3, 200)) / 100 + [[1], [2], [3]]
    for share, expected in ((0.1, (1, 3)), (0.01, (1, 1))):
        numbers[:, : int(200 * share)] = np.nan
        scores = {
            name: type(ONE)(place + 1.0, (0, 0), (0, 0), drawn)
            for place, (name, drawn) in enumerate(zip("abc", numbers, strict=True))
        }
        assert rank(scores, False).ranks == {"a": 1, "b": 2, "c": 3}
        assert rank(scores, False).intervals["a"] == expected
        numbers = np.random.default_rng(0).normal(size=(3, 200)) / 100 + [[1], [2], [3]]


ONE = make_estimate(0.5, np.full(10, 0.5))


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("row of numbers between 0 and 1", lambda: holm([0.1, 2])),
        ("row of numbers between 0 and 1", lambda: holm([0.1, float("nan")])),
        ("at least one model", lambda: rank({}, True)),
        ("got nan for 'a'", lambda: rank({"a": make_estimate(np.nan, np.ones(3))}, True)),
        ("equally often", lambda: rank({"a": ONE, "b": make_estimate(0.5, np.ones(3))}, True)),
        ("10 and 3 replicates", lambda: paired_difference(ONE, make_estimate(0.5, np.ones(3)))),
        ("only one has 'b'", lambda: swaps(({"a": ONE}, True), ({"a": ONE, "b": ONE}, True))),
    ],
)
def test_what_cannot_be_compared_is_refused(words, call):
    with pytest.raises(ec.UsageError, match=words):
        call()


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


def test_what_is_undetermined_says_so_in_every_text():
    unsure = make_estimate(1.667, np.r_[np.full(30, np.nan), np.full(70, 1.7)])
    assert np.isnan(unsure.interval).all() and np.isnan(unsure.narrow_interval).all()
    assert shown(unsure, "relative_mce") == "166.7 (undetermined)"
    saved = Estimate(value=1.667, interval95=(None, None), interval83=(None, None))
    assert in_words(saved, percent=True) == "166.7 (undetermined)"
    assert percent_range(unsure.interval) == "undetermined"
    sure = make_estimate(1.667, np.full(70, 1.7))
    assert shown(sure, "relative_mce") == "166.7 (170–170)"
