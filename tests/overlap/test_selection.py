"""The selection: against trying all sets, against Bron and Kerbosch, its ties, its thresholds."""

import time
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.overlap import clique
from eyechart.overlap.selection import select_at_every_threshold
from overlap_cases import by_bron_kerbosch, by_trying_all, random_scores


def places(members):
    return tuple(int(name) for name in members)


def all_sets(selection):
    return {places(own) for own in (selection.members, *selection.ties)}


@given(
    st.integers(2, 9),
    st.integers(0, 100_000),
    st.sampled_from([None, 1, 0]),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 0.95]),
)
def test_it_finds_what_trying_all_sets_finds(count, seed, digits, unknown, threshold):
    scores = random_scores(count, seed, digits, unknown)
    sets, mean = by_trying_all(scores, threshold)
    if not sets:
        with pytest.raises(UsageError):
            ec.select_non_overlapping(scores, threshold)
        return
    found = ec.select_non_overlapping(scores, threshold)
    assert all_sets(found) == sets and not found.more_ties
    assert found.mean_overlap == pytest.approx(mean)


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("digits", [None, 1])
def test_it_finds_what_trying_all_sets_of_sixteen_finds(threshold, digits):
    for seed in range(2):
        scores = random_scores(16, seed, digits, 0.05)
        sets, mean = by_trying_all(scores, threshold)
        found = ec.select_non_overlapping(scores, threshold)
        assert all_sets(found) == sets and found.mean_overlap == pytest.approx(mean)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("digits", [None, 1])
def test_it_finds_what_listing_all_maximal_sets_finds(threshold, digits):
    for seed in range(3):
        scores = random_scores(30, seed, digits, 0.02)
        sets, mean = by_bron_kerbosch(scores, threshold)
        found = ec.select_non_overlapping(scores, threshold)
        assert all_sets(found) == sets and found.mean_overlap == pytest.approx(mean)


@pytest.mark.parametrize("density", [0.5, 0.85, 0.95])
def test_sixty_corruptions_take_less_than_a_second(density):
    for seed in range(3):
        scores = random_scores(60, seed)
        start = time.process_time()
        found = ec.select_non_overlapping(scores, density)
        assert time.process_time() - start < 1
        own = places(found.members)
        assert all(scores[pair] <= density for pair in combinations(own, 2))


def test_scores_at_the_threshold_are_allowed():
    scores = np.array([[1, 0.1, 0.2], [0.1, 1, 0.1], [0.2, 0.1, 1]])
    assert len(ec.select_non_overlapping(scores, 0.1)) == 2
    assert len(ec.select_non_overlapping(scores, 0.2)) == 3


def test_at_zero_corruptions_that_do_not_overlap_at_all_are_kept():
    scores = np.eye(5)
    scores[0, 1] = scores[1, 0] = 0.4
    found = ec.select_non_overlapping(scores, 0)
    assert len(found) == 4 and found.mean_overlap == 0 and len(found.ties) == 1


def test_sums_that_rounding_makes_different_are_a_tie():
    # 0.1 + 0.2 + 0.3 in three orders, whose sums differ in the last bit
    scores = np.eye(6) + 0.9 * (1 - np.eye(6))
    for (a, b, c), values in (((0, 1, 2), (0.1, 0.2, 0.3)), ((3, 4, 5), (0.3, 0.1, 0.2))):
        for (one, two), value in zip(((a, b), (a, c), (b, c)), values, strict=True):
            scores[one, two] = scores[two, one] = value
    found = ec.select_non_overlapping(scores, 0.3)
    assert all_sets(found) == {(0, 1, 2), (3, 4, 5)} and found.members == (0, 1, 2)


def test_more_ties_than_can_be_listed_are_said_to_be_more():
    # 20 pairs of which one of two can be kept: 2^20 sets that are equally good
    scores = np.eye(40)
    for place in range(0, 40, 2):
        scores[place, place + 1] = scores[place + 1, place] = 0.9
    found = ec.select_non_overlapping(scores, 0.5)
    assert len(found) == 20 and found.more_ties and len(found.ties) == clique.MOST - 1
    assert len(all_sets(found)) == clique.MOST


def test_as_many_ties_as_can_be_listed_are_all():
    scores = np.eye(18)
    for place in range(0, 18, 2):
        scores[place, place + 1] = scores[place + 1, place] = 0.9
    found = ec.select_non_overlapping(scores, 0.5)
    assert len(found.ties) == 2**9 - 1 and not found.more_ties


def test_a_better_set_is_found_behind_more_equal_ones_than_are_kept(monkeypatch):
    scores = random_scores(14, 3)
    want = ec.select_non_overlapping(scores, 0.6)
    monkeypatch.setattr(clique, "MOST", 1)
    assert ec.select_non_overlapping(scores, 0.6).members == want.members
    zeros = np.eye(12)
    for place in range(0, 12, 2):
        zeros[place, place + 1] = zeros[place + 1, place] = 0.9
    zeros[0, 2] = zeros[2, 0] = zeros[0, 3] = zeros[3, 0] = 0.1
    found = ec.select_non_overlapping(zeros, 0.5)
    assert found.mean_overlap == 0 and found.more_ties


def test_undetermined_pairs_never_stand_together_and_it_is_said_who_is_left_out():
    scores = np.zeros((4, 4)) + np.eye(4)
    scores[3] = scores[:, 3] = np.nan
    scores[0, 1] = scores[1, 0] = 0.5
    found = ec.select_non_overlapping(scores, 0.1)
    assert all_sets(found) == {(0, 2), (1, 2)} and found.left_out == (3,)
    # one that a known score keeps out is not left out for what is unknown
    scores[2, 3] = scores[3, 2] = 0.7
    assert ec.select_non_overlapping(scores, 0.1).left_out == ()


def test_a_threshold_below_every_score_is_rejected_with_the_lowest_one():
    scores = np.array([[1, 0.1234567, 0.5], [0.1234567, 1, 0.6], [0.5, 0.6, 1]])
    with pytest.raises(UsageError) as error:
        ec.select_non_overlapping(scores, 0.05)
    assert "the lowest score is 0.1235, for 0 and 1" in str(error.value)
    assert "at least 0.124" in str(error.value)
    assert str(error.value).startswith("No two corruptions overlap by 0.05 or less:")
    assert len(ec.select_non_overlapping(scores, 0.124)) == 2


def test_undetermined_pairs_are_not_said_to_overlap():
    scores = np.array([[1, 0.5, np.nan], [0.5, 1, np.nan], [np.nan, np.nan, 1]])
    with pytest.raises(UsageError) as error:
        ec.select_non_overlapping(scores, 0.1)
    assert str(error.value) == (
        "No two corruptions are known to overlap by 0.1 or less: the lowest score is 0.5, for 0 and"
        " 1; choose a threshold of at least 0.5; the overlap of 2 other pairs is undetermined."
    )
    scores[1, 2] = scores[2, 1] = 0.6
    with pytest.raises(UsageError, match="the overlap of 1 other pair is undetermined"):
        ec.select_non_overlapping(scores, 0.1)


def test_an_asymmetry_is_shown_with_all_digits():
    with pytest.raises(UsageError, match=r"got 0\.5 for 0 and 1, but 0\.50000001 for 1 and 0"):
        ec.select_non_overlapping([[1, 0.5], [0.50000001, 1]], 0.6)


def test_members_are_indices_of_an_array_and_names_of_a_matrix():
    scores = np.array([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1.0]])
    found = ec.select_non_overlapping(scores, 0.5)
    assert {found.members, *found.ties} == {(0, 2), (1, 2)}
    assert all(type(place) is int for own in (found.members, *found.ties) for place in own)
    # so that they index what was given
    assert scores[np.ix_(found.members, found.members)].max() == 1
    named = ec.select_non_overlapping(ec.OverlapMatrix(("fog", "snow", "rain"), scores), 0.5)
    assert {named.members, *named.ties} == {("fog", "rain"), ("snow", "rain")}
    unsure = ec.select_non_overlapping([[1, 0.1, np.nan], [0.1, 1, np.nan], [np.nan] * 2 + [1]], 1)
    assert (unsure.members, unsure.left_out) == ((0, 1), (2,))


@pytest.mark.parametrize(
    "matrix, threshold, words",
    [
        (np.eye(3), -0.1, "at least 0, got -0.1"),
        (np.eye(3), float("nan"), "at least 0, got nan"),
        (np.ones((2, 3)), 0.1, "must be square"),
        ([["fog"]], 0.1, "table of numbers"),
        ([[1, 0.2], [0.3, 1]], 0.1, "symmetric, got 0.2 for 0 and 1, but 0.3"),
        ([[1, np.nan], [0.3, 1]], 0.1, "symmetric"),
        ([[1, -0.2], [-0.2, 1]], 0.1, "of at least 0, got -0.2"),
        ([[1, np.inf], [np.inf, 1]], 0.1, "of at least 0, got inf"),
        ([[0.9, 0.2], [0.2, 1]], 0.1, "itself, got 0.9 for 0"),
        ([[1, np.nan], [np.nan, 1]], 0.1, "at least two corruptions whose overlap is determined"),
        ([[1.0]], 0.1, "at least two corruptions"),
    ],
)
def test_what_cannot_be_selected_from_is_rejected_in_one_sentence(matrix, threshold, words):
    with pytest.raises(UsageError) as error:
        ec.select_non_overlapping(matrix, threshold)
    assert words in str(error.value) and str(error.value).endswith(".")


@pytest.mark.parametrize("digits, unknown", [(None, 0), (1, 0), (1, 0.2)])
def test_every_threshold_has_the_selection_that_asking_for_it_gives(digits, unknown):
    scores = random_scores(11, 5, digits, unknown)
    matrix = ec.OverlapMatrix(tuple(map(str, range(11))), scores)
    steps = select_at_every_threshold(matrix)
    pairs = scores[np.triu_indices(11, 1)]
    known = np.unique(pairs[~np.isnan(pairs)])
    assert steps[0].low == known[0] and np.isinf(steps[-1].high)
    for before, after in pairwise(steps):
        assert before.high == after.low
        assert all_sets(before.selection) != all_sets(after.selection)
        assert len(before.selection) <= len(after.selection)
    for threshold in (*known, *((known[1:] + known[:-1]) / 2), 2.0):
        (own,) = (step for step in steps if step.low <= threshold < step.high)
        asked = ec.select_non_overlapping(matrix, threshold)
        assert own.selection.members == asked.members and own.selection.ties == asked.ties
        assert own.selection.mean_overlap == asked.mean_overlap


def test_all_thresholds_of_forty_corruptions_take_seconds():
    start = time.process_time()
    steps = select_at_every_threshold(
        ec.OverlapMatrix(tuple(map(str, range(38))), random_scores(38, 1))
    )
    assert time.process_time() - start < 10
    assert len(steps[-1].selection) == 38 and len(steps[0].selection) == 2
