"""Ranks with intervals, Kendall's τ against SciPy's, and swapped pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

import eyechart as ec
from eyechart.stats.estimate import Estimate, make_estimate
from eyechart.stats.ranking import Ranking, kendall_tau, rank, swaps
from resampled_models import estimates, models


def test_models_far_apart_have_one_rank_each():
    scores = estimates(models([0.2, 0.9, 0.5], 2000, 0))
    best = rank(scores, higher_is_better=True)
    assert best.ranks == {"m0": 3, "m1": 1, "m2": 2}
    assert best.intervals == {"m0": (3, 3), "m1": (1, 1), "m2": (2, 2)}
    lowest = rank(scores, higher_is_better=False)
    assert lowest.ranks == {"m0": 1, "m1": 3, "m2": 2}


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


def test_a_replicate_without_a_score_may_put_every_model_at_every_rank():
    numbers = np.random.default_rng(0).normal(size=(3, 200)) / 100 + [[1], [2], [3]]
    for share, expected in ((0.1, (1, 3)), (0.01, (1, 1))):
        numbers[:, : int(200 * share)] = np.nan
        scores = {
            name: Estimate.of(place + 1.0, (0, 0), (0, 0), drawn)
            for place, (name, drawn) in enumerate(zip("abc", numbers, strict=True))
        }
        assert rank(scores, False).ranks == {"a": 1, "b": 2, "c": 3}
        assert rank(scores, False).intervals["a"] == expected
        numbers = np.random.default_rng(0).normal(size=(3, 200)) / 100 + [[1], [2], [3]]


ONE = make_estimate(0.5, np.full(10, 0.5))


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("at least one model", lambda: rank({}, True)),
        ("got nan for 'a'", lambda: rank({"a": make_estimate(np.nan, np.ones(3))}, True)),
        (
            "same number of bootstrap replicates",
            lambda: rank({"a": ONE, "b": make_estimate(0.5, np.ones(3))}, True),
        ),
        ("only one has 'b'", lambda: swaps(({"a": ONE}, True), ({"a": ONE, "b": ONE}, True))),
    ],
)
def test_what_cannot_be_compared_is_rejected(words, call):
    with pytest.raises(ec.UsageError, match=words):
        call()
