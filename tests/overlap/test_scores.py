"""Robustness and overlap: the formula by hand, its properties, and what cannot be told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eyechart as ec
from eyechart.core.errors import UsageError
from eyechart.overlap.matrix import clean_notes, cluster_order, overlap_scores, robustness_scores
from overlap_cases import small_table


def random_robustness(count, seed):
    numbers = np.random.default_rng(seed)
    scores = numbers.uniform(0.3, 0.7, (count + 1, count))
    for place in range(count):
        scores[place + 1, place] = scores[0, place] + numbers.uniform(0.03, 0.3)
    return scores


def by_the_formula(robustness, a, b):
    """Equation 2 of the paper, letter by letter, for two corruptions."""
    standard, one, two = robustness[0], robustness[a + 1], robustness[b + 1]
    first = (one[b] - standard[b]) / (two[b] - standard[b])
    second = (two[a] - standard[a]) / (one[a] - standard[a])
    return max(0.0, 0.5 * (first + second))


@given(st.integers(1, 8), st.integers(0, 10_000))
def test_every_score_is_the_papers_formula(count, seed):
    robustness = random_robustness(count, seed)
    matrix = ec.overlap_matrix(robustness)
    for a in range(count):
        for b in range(count):
            assert matrix[a, b] == pytest.approx(by_the_formula(robustness, a, b), abs=1e-12)
    assert np.array_equal(matrix.scores, matrix.scores.T)
    assert np.array_equal(np.diag(matrix), np.ones(count))


def test_training_that_does_not_help_the_other_is_no_overlap():
    matrix = ec.overlap_matrix([[0.5, 0.5], [0.9, 0.5], [0.5, 0.9]], ("noise", "hue"))
    assert matrix["noise", "hue"] == 0 and matrix["hue", "hue"] == 1


def test_training_that_harms_the_other_is_no_overlap_either():
    assert ec.overlap_matrix([[0.5, 0.5], [0.9, 0.3], [0.4, 0.9]])[0, 1] == 0


def test_two_names_for_one_corruption_overlap_completely():
    assert ec.overlap_matrix([[0.5, 0.5], [0.9, 0.9], [0.9, 0.9]])[0, 1] == 1


def test_the_sum_is_clipped_and_not_each_ratio():
    # ratios 1 and −0.5: clipped one by one they would give 0.5
    assert ec.overlap_matrix([[0.5, 0.5], [0.9, 0.9], [0.3, 0.9]])[0, 1] == pytest.approx(0.25)


def test_scores_may_exceed_one():
    assert ec.overlap_matrix([[0.5, 0.5], [0.7, 0.9], [0.8, 0.8]])[0, 1] == pytest.approx(
        0.5 * (0.4 / 0.3 + 0.3 / 0.2)
    )


def test_a_corruption_on_which_training_gains_nothing_is_undetermined_and_never_infinite():
    robustness = [[0.5, 0.9, 0.5], [0.8, 0.95, 0.6], [0.5, 0.9, 0.5], [0.6, 0.92, 0.8]]
    matrix = ec.overlap_matrix(robustness, ("noise", "hue", "blur"))
    assert np.isnan(matrix.scores[1]).all() and np.isnan(matrix.scores[:, 1]).all()
    assert np.isfinite(matrix["noise", "blur"]) and matrix.undetermined == ("hue",)
    (note,) = matrix.notes
    assert (
        "Training on hue improves the robustness to it by 0.000" in note and "undetermined" in note
    )


@pytest.mark.parametrize("gain, known", [(0.019, False), (0.021, True)])
def test_the_gain_must_exceed_what_is_asked_for(gain, known):
    robustness = [[0.5, 0.5], [0.5 + gain, 0.5], [0.5, 0.9]]
    assert np.isfinite(ec.overlap_matrix(robustness)[0, 1]) == known
    assert np.isfinite(ec.overlap_matrix(robustness, min_gain=0.01)[0, 1])


def test_a_gain_that_equals_the_least_is_not_enough():
    robustness = [[0.5, 0.5], [0.75, 0.5], [0.5, 0.9]]
    assert np.isnan(ec.overlap_matrix(robustness, min_gain=0.25)[0, 1])


def test_the_matrix_is_an_array_with_names():
    matrix = small_table().matrix()
    assert len(matrix) == 4 and np.asarray(matrix).shape == (4, 4)
    assert matrix["gaussian_noise", "shot_noise"] == matrix[0, 1] == pytest.approx(0.75)
    part = matrix.only(("defocus_blur", "gaussian_noise"))
    assert part.names == ("defocus_blur", "gaussian_noise") and part[0, 1] == 0
    with pytest.raises(UsageError, match="Did you mean 'shot_noise'"):
        matrix["gaussian_noise", "shot_nois"]
    with pytest.raises(ValueError):
        matrix.scores[0, 0] = 2


def test_notes_on_corruptions_that_are_left_out_are_left_out():
    robustness = [[0.5, 0.9, 0.5], [0.8, 0.95, 0.6], [0.5, 0.9, 0.5], [0.6, 0.92, 0.8]]
    matrix = ec.overlap_matrix(robustness, ("noise", "hue", "blur"))
    assert len(matrix.notes) == 1
    assert matrix.only(["noise", "blur"]).notes == ()
    assert matrix.only(["hue", "noise"]).notes == matrix.notes
    other = replace(matrix, notes=(*matrix.notes, "Train longer."))
    assert other.only(["noise", "blur"]).notes == ("Train longer.",)


def test_robustness_is_accuracy_over_clean_accuracy():
    scores = robustness_scores([[0.4, 0.8], [0.1, 0.0]], [0.8, 0.0])
    assert scores[0].tolist() == [0.5, 1] and np.isnan(scores[1]).all()


def test_many_tables_at_once_give_what_each_gives():
    several = np.stack([random_robustness(5, seed) for seed in range(7)])
    together = overlap_scores(several)
    for own, scores in zip(several, together, strict=True):
        assert np.array_equal(ec.overlap_matrix(own).scores, scores)


@pytest.mark.parametrize(
    "clean, classes, said",
    [
        ([0.9, 0.51], None, ""),
        ([0.9, 0.49], None, "1 model has a clean accuracy below 0.5"),
        ([0.7, 0.74], 2, "2 of 2 models have a clean accuracy below 0.75"),
        ([0.9, 0.54], 10, "below 0.55 (b: 0.540)"),
        ([0.9, 0.56], 10, ""),
    ],
)
def test_models_that_hardly_know_clean_images_are_noted(clean, classes, said):
    notes = clean_notes(("a", "b"), clean, classes)
    assert len(notes) == bool(said) and all(said in note for note in notes)


@pytest.mark.parametrize(
    "robustness, arguments, words",
    [
        ([[0.5, 0.5], [0.9, 0.5]], {}, "one more row than columns"),
        ([0.5, 0.5], {}, "one more row than columns"),
        ([[0.5], [float("nan")]], {}, "of at least 0, got nan"),
        ([[0.5], [-0.1]], {}, "of at least 0, got -0.1"),
        ([["fog"], [1]], {}, "table of numbers"),
        ([[0.5, 0.5], [0.9], [0.5, 0.9]], {}, "table of numbers"),
        ([[0.5], [0.9]], {"names": ("a", "b")}, "1 different names"),
        ([[0.5], [0.9]], {"min_gain": -0.1}, "must be in [0, 1)"),
        ([[0.5], [0.9]], {"min_gain": float("nan")}, "must be in [0, 1)"),
    ],
)
def test_what_is_no_table_is_rejected_in_one_sentence(robustness, arguments, words):
    with pytest.raises(UsageError) as error:
        ec.overlap_matrix(robustness, **arguments)
    assert words in str(error.value) and str(error.value).endswith(".")


@given(st.integers(1, 12), st.integers(0, 1000))
def test_clustering_keeps_every_corruption_once(count, seed):
    scores = ec.overlap_matrix(random_robustness(count, seed), min_gain=0.1).scores
    assert sorted(cluster_order(scores)) == list(range(count))
