"""Error consistency: closed forms, a second implementation, and real people's trials."""

import csv
import gzip
from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from outside import outside


def cohen(first, second):
    """Cohen's κ by its confusion matrix: another way than the package's."""
    matrix = np.zeros((2, 2))
    for one, two in zip(first, second, strict=True):
        if not np.isnan(one) and not np.isnan(two):
            matrix[int(one), int(two)] += 1
    total = matrix.sum()
    if total == 0:
        return np.nan
    chance = (matrix.sum(axis=0) * matrix.sum(axis=1)).sum() / total
    return np.nan if chance == total else (np.trace(matrix) - chance) / (total - chance)


def kappa(first, second, **options):
    return ec.error_consistency(first, second, n_bootstrap=1, **options).kappa.value


def test_a_worked_example():
    # 20 both right, 5 and 10 only one, 15 both wrong: κ = (0.7 − 0.5) / (1 − 0.5)
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    found = ec.error_consistency(first, second)
    assert found.observed == pytest.approx(0.7)
    assert found.expected == pytest.approx(0.5)
    assert found.kappa.value == pytest.approx(0.4)
    assert (found.trials, found.undefined) == (50, 0)
    low, high = found.kappa.interval95
    assert low < 0.4 < high


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_it_is_cohens_kappa(predictions):
    first, second = np.array(predictions, dtype=float).T
    assert kappa(first, second) == pytest.approx(cohen(first, second), nan_ok=True)
    assert kappa(first, second) == pytest.approx(kappa(second, first), nan_ok=True)


def test_the_same_errors_give_one_and_opposite_ones_minus_one():
    hits = np.arange(40) % 2
    assert kappa(hits, hits) == pytest.approx(1)
    assert kappa(hits, 1 - hits) == pytest.approx(-1)


def test_independent_errors_give_none_whatever_the_accuracies():
    numbers = np.random.default_rng(0)
    for rates in ((0.5, 0.5), (0.9, 0.9), (0.9, 0.3)):
        first, second = (numbers.random(200_000) < rate for rate in rates)
        assert abs(kappa(first, second)) < 0.01


def test_where_both_are_always_right_there_is_none():
    found = ec.error_consistency([1, 1, 1], [1, 1, 1], n_bootstrap=10)
    assert np.isnan(found.kappa.value)
    assert np.isnan(found.kappa.interval95).all()
    assert found.undefined == 1
    assert kappa([1, 1, 0], [1, 1, 1]) == 0


def test_easy_and_hard_conditions_make_independent_observers_agree():
    numbers = np.random.default_rng(1)
    conditions = np.repeat(["easy", "hard"], 20_000)
    rate = np.where(conditions == "easy", 0.95, 0.1)
    first, second = (numbers.random(40_000) < rate for _ in range(2))
    assert kappa(first, second) > 0.6
    assert abs(kappa(first, second, conditions=conditions)) < 0.02


def test_a_mean_over_conditions_is_the_mean_of_each():
    numbers = np.random.default_rng(2)
    hits = numbers.integers(0, 2, (2, 90))
    conditions = np.arange(90) % 3
    each = [cohen(*hits[:, conditions == own]) for own in range(3)]
    assert kappa(*hits, conditions=conditions) == pytest.approx(np.mean(each))


def humans_of(seed=3, subjects=4, trials=200, missing=0.3):
    numbers = np.random.default_rng(seed)
    hard = numbers.random(trials)
    humans = (numbers.random((subjects, trials)) + hard < 1.1).astype(float)
    humans[numbers.random(humans.shape) < missing] = np.nan
    return humans, (numbers.random(trials) + hard < 1).astype(float)


def test_a_model_and_humans_have_the_mean_over_persons():
    humans, model = humans_of()
    found = ec.error_consistency_with_humans(model, humans, n_bootstrap=10)
    assert found.kappa.value == pytest.approx(np.mean([cohen(model, own) for own in humans]))
    assert found.trials == (~np.isnan(humans)).sum()
    among = ec.error_consistency_of_humans(humans, n_bootstrap=10)
    pairs = [cohen(*pair) for pair in combinations(humans, 2)]
    assert among.kappa.value == pytest.approx(np.mean(pairs))


def test_each_replicate_is_the_kappa_of_images_drawn_again():
    humans, model = humans_of(trials=60)
    images = np.arange(60) // 3
    found = ec.error_consistency_with_humans(model, humans, images, n_bootstrap=120, seed=5)
    numbers = np.random.default_rng(5)
    weights = [np.bincount(numbers.integers(0, 20, 20), minlength=20) for _ in range(120)]
    for place in (0, 49, 50, 119):
        rows = np.repeat(np.arange(60), weights[place][images])
        expected = np.nanmean([cohen(model[rows], own[rows]) for own in humans])
        assert found.kappa.replicates[place] == pytest.approx(expected)


def test_intervals_hold_the_truth_and_know_that_trials_of_an_image_belong_together():
    held = alone = 0
    for seed in range(200):
        numbers = np.random.default_rng(seed)
        # pictures shown five times each; κ = 0.5 for one common cause in half of the pictures
        own = numbers.random((2, 80)) < 0.5
        own[1] = np.where(numbers.random(80) < 0.5, own[0], own[1])
        first, second = np.repeat(own, 5, axis=1)
        images = np.repeat(np.arange(80), 5)
        for which, clusters in enumerate((images, None)):
            found = ec.error_consistency(first, second, clusters, n_bootstrap=150, seed=seed)
            low, high = found.kappa.interval95
            if which == 0:
                held += low <= 0.5 <= high
            else:
                alone += low <= 0.5 <= high
    assert 0.90 <= held / 200 <= 0.985
    assert alone / 200 < 0.75


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("0 and 1 of equal length", lambda: kappa([1, 0], [1])),
        ("0 and 1 of equal length", lambda: kappa(["a"], ["b"])),
        ("one for each trial", lambda: kappa([], [])),
        ("got 0.5", lambda: kappa([1, 0.5], [1, 0])),
        (
            "clusters must be a name or number for each of 2",
            lambda: kappa([1, 0], [1, 0], clusters=[1]),
        ),
        ("there are none", lambda: kappa([1, np.nan], [np.nan, 1])),
        ("at least two observers", lambda: ec.error_consistency_of_humans([[1, 0]])),
        ("n_bootstrap must be", lambda: ec.error_consistency([1], [1], n_bootstrap=0)),
    ],
)
def test_what_cannot_be_compared_is_rejected(words, call):
    with pytest.raises(ec.UsageError, match=words):
        call()


@pytest.mark.parametrize("experiment", ["noise", "lowpass"])
def test_real_humans_by_two_implementations(experiment):
    name = f"generalization-humans-DNNs_{experiment}-experiment.csv.gz"
    with gzip.open(outside("human", "geirhos2018_trials", name), "rt") as file:
        rows = list(csv.DictReader(file))
    # a stimulus: the photograph and its condition; each person saw it once or not at all
    right = {
        (row["subj"], row["condition"], row["imagename"].split("_", 4)[4]): float(
            row["object_response"] == row["category"]
        )
        for row in rows
    }
    subjects = sorted({key[0] for key in right})
    stimuli = sorted({key[1:] for key in right})
    humans = [[right.get((who, *which), np.nan) for which in stimuli] for who in subjects]
    conditions = [condition for condition, _ in stimuli]
    found = ec.error_consistency_of_humans(humans, conditions=conditions, n_bootstrap=200)

    shared = defaultdict(list)
    for one, two in combinations(subjects, 2):
        for which in stimuli:
            pair = right.get((one, *which)), right.get((two, *which))
            if None not in pair:
                shared[one, two, which[0]].append(pair)
    each = [cohen(*zip(*pairs, strict=True)) for pairs in shared.values()]
    assert found.trials == sum(map(len, shared.values())) > 50
    assert found.kappa.value == pytest.approx(np.nanmean(each))
    assert found.undefined == np.isnan(each).sum()

    pooled = ec.error_consistency_of_humans(humans, n_bootstrap=200)
    rates = np.array(humans)
    by_pair = [cohen(*pair) for pair in combinations(rates, 2)]
    assert pooled.kappa.value == pytest.approx(np.nanmean(by_pair))
    # errors on the same hard stimuli: clearly alike, over all conditions
    assert pooled.kappa.interval95[0] > 0.1
