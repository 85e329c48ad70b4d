"""Agreement of a ruler with humans: closed forms, a second implementation, and nested choices."""

import itertools

import numpy as np
import pytest

from eyechart.core.errors import UsageError
from eyechart.rulers.agreement import (
    agreement,
    draw_replicates,
    estimate_agreement,
    explained_variance,
    fit_monotone,
    jackknife_deviation,
    paired_differences,
    predict_left_out,
    transfer_errors,
    weighted_means,
)
from eyechart.rulers.human_experiments import HumanConditions
from eyechart.rulers.vif_fit import best_candidate, fit_human_map, nested_fit

EXPERIMENTS = np.repeat(["a", "b", "c", "d"], 6)


@pytest.fixture
def accuracy():
    steps = np.linspace(1, 0, 6)
    return np.concatenate([steps, steps**2, steps**0.5, steps**1.5])


def humans_of(accuracy, observers=5, trials=400):
    """Observers of four experiments who answer with these rescaled accuracies."""
    rates = 1 / 16 + accuracy * (0.9 - 1 / 16)
    belongs = (EXPERIMENTS[:, None] == np.repeat(["a", "b", "c", "d"], observers)).astype(float)
    numbers = np.random.default_rng(0)
    correct = numbers.binomial(trials, np.clip(rates, 0, 1)[:, None], belongs.shape) * belongs
    clean = numbers.binomial(trials, 0.9, belongs.shape) * belongs
    # the same clean trials in all conditions of an experiment
    clean = np.stack([clean[np.flatnonzero(name == EXPERIMENTS)[0]] for name in EXPERIMENTS])
    names = tuple(map(str, range(len(accuracy))))
    return HumanConditions(
        tuple(EXPERIMENTS), names, correct, trials * belongs, clean, trials * belongs
    )


def test_a_ruler_equal_to_the_loss_explains_everything(accuracy):
    result = agreement(1 - accuracy, accuracy, list(EXPERIMENTS))
    assert result.explained == pytest.approx(1)
    # a straight line between neighbors is exact for a curve that is a straight line
    assert result.explained_left_out > 0.99
    assert result.error < 0.02


def test_a_monotone_function_of_the_loss_still_explains_everything(accuracy):
    assert agreement((1 - accuracy) ** 3, accuracy, list(EXPERIMENTS)).explained == pytest.approx(1)


def test_a_random_ruler_explains_nothing_on_left_out_conditions(accuracy):
    numbers = np.random.default_rng(1)
    results = [agreement(numbers.random(24), accuracy, list(EXPERIMENTS)) for _ in range(40)]
    assert np.mean([result.explained_left_out for result in results]) < 0.05
    assert np.mean([result.error for result in results]) > accuracy.std()


def test_the_isotonic_fit_is_the_best_of_all_block_means():
    """By exhaustion: every partition into consecutive blocks whose means do not increase."""
    numbers = np.random.default_rng(2)
    values, accuracy = np.arange(7.0), numbers.random(7)
    best = np.inf
    for cuts in itertools.product([False, True], repeat=6):
        blocks = np.split(accuracy, np.flatnonzero(cuts) + 1)
        means = [block.mean() for block in blocks]
        if all(np.diff(means) <= 0):
            best = min(best, sum(((block - block.mean()) ** 2).sum() for block in blocks))
    fitted = fit_monotone(values, accuracy)(values)
    assert ((fitted - accuracy) ** 2).sum() == pytest.approx(best)


def test_equal_values_count_as_one_point():
    curve = fit_monotone(np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.8, 0.0]))
    assert curve(np.array([0.0]))[0] == pytest.approx(0.9)


def test_a_condition_is_predicted_without_itself(accuracy):
    values = 1 - accuracy
    changed = accuracy.copy()
    changed[3] = 9.0
    assert predict_left_out(values, changed)[3] == predict_left_out(values, accuracy)[3]


def test_explained_variance_of_the_mean_is_0():
    accuracy = np.array([0.0, 0.5, 1.0])
    assert explained_variance(np.full(3, 0.5), accuracy) == 0


@pytest.mark.parametrize(
    ("values", "experiments", "words"),
    [
        (np.zeros(2), ["a", "a"], "at least 2 experiments"),
        (np.array([0, np.nan]), ["a", "b"], "finite"),
    ],
)
def test_values_without_meaning_are_rejected_in_one_sentence(values, experiments, words):
    with pytest.raises(UsageError, match=words):
        agreement(values, np.array([0.0, 1.0]), experiments)


def test_the_choice_for_an_experiment_does_not_depend_on_it(accuracy):
    numbers = np.random.default_rng(3)
    means = np.clip(1 - accuracy + numbers.normal(0, 0.15, (9, 24)), 0, 1)
    nested = nested_fit(means, accuracy, EXPERIMENTS)
    for name in "abcd":
        changed, other_means = accuracy.copy(), means.copy()
        inside = name == EXPERIMENTS
        changed[inside] = numbers.random(inside.sum())
        other_means[:, inside] = numbers.random((9, inside.sum()))
        again = nested_fit(other_means, changed, EXPERIMENTS)
        assert again.chosen[name] == nested.chosen[name]


def test_a_nested_choice_equals_the_choice_on_the_remaining_experiments(accuracy):
    numbers = np.random.default_rng(4)
    means = np.clip(1 - accuracy + numbers.normal(0, 0.15, (9, 24)), 0, 1)
    nested = nested_fit(means, accuracy, EXPERIMENTS)
    rest = EXPERIMENTS != "b"
    assert nested.chosen["b"] == best_candidate(means[:, rest], accuracy[rest], EXPERIMENTS[rest])


def test_intervals_shrink_with_the_number_of_trials(accuracy):
    values = np.clip(1 - accuracy + np.random.default_rng(5).normal(0, 0.01, (12, 24)), 0, 1)
    widths = []
    for trials in (40, 4000):
        humans = humans_of(accuracy, trials=trials)
        drawn = draw_replicates(humans, len(values), 60, seed=0)
        estimate = estimate_agreement(values, humans, drawn)["error"].estimate
        low, high = estimate.interval95
        widths.append(high - low)
        assert low < high
    assert widths[1] < widths[0]


def test_two_equal_rulers_do_not_differ_and_a_useless_one_does(accuracy):
    humans = humans_of(accuracy)
    numbers = np.random.default_rng(6)
    good = np.clip(1 - accuracy + numbers.normal(0, 0.05, (12, 24)), 0, 1)
    useless = np.tile(numbers.random(24), (12, 1))
    drawn = draw_replicates(humans, 12, 60, seed=0)
    rulers = {
        name: estimate_agreement(values, humans, drawn)
        for name, values in (("good", good), ("same", good), ("useless", useless))
    }
    tests = {
        (one.first, one.second): one
        for one in paired_differences(rulers)
        if one.statistic == "error"
    }
    assert tests["good", "same"].p_value == 1
    assert tests["good", "useless"].p_value < 0.05
    assert tests["good", "useless"].difference < 0


def test_the_jackknife_of_means_is_their_standard_error():
    numbers = np.random.default_rng(7).random(9)
    left_out = np.array([np.delete(numbers, place).mean() for place in range(9)])
    assert jackknife_deviation(left_out) == pytest.approx(numbers.std(ddof=1) / 3)


def test_images_without_a_value_are_left_out_of_the_mean():
    values = np.array([[0.2, np.nan], [0.4, 0.6]])
    assert weighted_means(values) == pytest.approx([0.3, 0.6])
    assert weighted_means(values, np.array([3.0, 1.0])) == pytest.approx([0.25, 0.6])


def test_on_the_human_axis_the_mean_loss_is_the_human_loss():
    numbers = np.random.default_rng(8)
    values = np.clip(np.linspace(0, 1, 24) + numbers.normal(0, 0.08, (30, 24)), 0, 1)
    loss = (values**3).mean(axis=0)
    human = fit_human_map(values, 1 - loss)
    assert human(values).mean(axis=0) == pytest.approx(loss, abs=0.01)
    assert human.heights[0] == 0 and human.heights[-1] == 1
    assert (np.diff(human.heights) > 0).all()


def test_other_experiments_are_predicted_from_the_fitted_ones_alone(accuracy):
    values = 1 - accuracy
    # "d" is off by 0.1 everywhere, which the curve of the others cannot know
    shifted = np.where(EXPERIMENTS == "d", accuracy - 0.1, accuracy)
    errors = transfer_errors(values, shifted, EXPERIMENTS, ["a", "b"])
    assert list(errors) == ["c", "d"]
    dense = np.abs(np.interp(values, *_curve_of(values, shifted, ["a", "b"])) - shifted)
    for name, error in errors.items():
        assert error == pytest.approx(np.sqrt(np.mean(dense[name == EXPERIMENTS] ** 2)))
    assert errors["d"] == pytest.approx(0.1, abs=0.02) and errors["c"] < 0.02
    assert transfer_errors(values, shifted, EXPERIMENTS, list("abcd")) == {}
    assert transfer_errors(values, shifted, EXPERIMENTS, ["e"]) == {}


def _curve_of(values, accuracy, names):
    """Points of a curve through experiments in which accuracy only falls with the value."""
    inside = np.isin(EXPERIMENTS, names)
    places, first = np.unique(values[inside], return_index=True)
    return places, accuracy[inside][first]
