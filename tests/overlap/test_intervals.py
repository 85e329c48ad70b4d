"""Intervals of overlap scores: against the delta method, by simulation, and with repeated seeds."""

import time

import numpy as np
import pytest
from scipy.special import ndtri

from eyechart.core.errors import UsageError
from eyechart.overlap import matrix_intervals
from eyechart.overlap.matrix import overlap_scores, robustness_scores
from eyechart.overlap.matrix_intervals import overlap_intervals, overlap_replicates

ACCURACIES = np.array(
    [
        # clean, noise, grain, blur: of the standard model and of those trained on each
        [0.90, 0.50, 0.50, 0.55],
        [0.88, 0.80, 0.68, 0.57],
        [0.89, 0.70, 0.79, 0.58],
        [0.90, 0.52, 0.55, 0.82],
    ]
)


def overlaps(accuracies):
    return overlap_scores(robustness_scores(accuracies[..., 1:], accuracies[..., 0]))


def drawn_hits(images, seed, accuracies=ACCURACIES, share=0.5):
    """Hits with these accuracies; `share` of what decides is the picture's, the same for all."""
    numbers = np.random.default_rng(seed)
    common = numbers.normal(size=(1, 1, images)) * np.sqrt(share)
    own = numbers.normal(size=(*accuracies.shape, images)) * np.sqrt(1 - share)
    return common + own < ndtri(accuracies)[..., None]


def test_replicates_spread_as_the_delta_method_says():
    accuracies = ACCURACIES.copy()
    accuracies[1:3, 3], accuracies[3, 1:3] = 0.68, 0.62  # far from 0, where scores are clipped
    hits = drawn_hits(1500, 1, accuracies)
    flat = hits.reshape(16, -1).astype(float)
    covariance = np.cov(flat, ddof=0) / flat.shape[1]
    middle, step = flat.mean(axis=1), 1e-6
    slopes = np.empty((16, 3, 3))
    for place in range(16):
        moved = [middle.copy(), middle.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (overlaps(own.reshape(4, 4)) for own in moved)
        slopes[place] = (up - down) / (2 * step)
    expected = np.sqrt(np.einsum("iab,ij,jab->ab", slopes, covariance, slopes))
    found = overlap_replicates(hits[None], 4000, seed=2).std(axis=0)
    off = ~np.eye(3, dtype=bool)
    assert found[off] == pytest.approx(expected[off], rel=0.06)
    assert (found[~off] == 0).all()


def share_covered(runs, n_bootstrap, images=400):
    truth = overlaps(ACCURACIES)
    off = np.triu_indices(3, 1)
    held = []
    for run in range(runs):
        own = overlap_intervals(drawn_hits(images, 100 + run), n_bootstrap=n_bootstrap)
        held.append(((own.low <= truth) & (truth <= own.high))[off])
    return np.mean(held, axis=0)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    covered = share_covered(120, 200)
    # 120 runs: two standard errors are 0.04
    assert (covered > 0.88).all() and covered.mean() < 0.99


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    covered = share_covered(1500, 500)
    assert np.abs(covered - 0.95).max() < 0.02


def test_two_corruptions_with_the_same_predictions_overlap_by_one_in_every_replicate():
    hits = drawn_hits(300, 3)
    hits[2], hits[:, 2] = hits[1], hits[:, 1]
    hits[2, 2] = hits[2, 1] = hits[1, 2] = hits[1, 1]
    own = overlap_intervals(hits, n_bootstrap=50)
    assert own.low[0, 1] == own.high[0, 1] == own.matrix[0, 1] == 1
    assert own.low[0, 2] < own.matrix[0, 2] < own.high[0, 2]


def test_the_score_itself_is_that_of_all_images():
    hits = drawn_hits(500, 4)
    own = overlap_intervals(hits, ("a", "b", "c"), n_bootstrap=20)
    assert own.matrix.names == ("a", "b", "c") and own.n_images == 500 and own.seeds == 1
    assert own.matrix.scores == pytest.approx(overlaps(hits.mean(axis=-1)))
    assert np.isnan(own.seed_deviation).all()
    again = overlap_intervals(hits.astype(np.uint8), n_bootstrap=20)
    assert np.array_equal(own.low, again.low) and np.array_equal(own.high, again.high)
    other = overlap_intervals(hits, n_bootstrap=20, seed=1)
    assert not np.array_equal(own.low, other.low)


def test_how_many_are_held_at_once_changes_nothing(monkeypatch):
    hits = np.stack([drawn_hits(200, seed) for seed in range(2)])
    whole = overlap_replicates(hits[:1], 30)
    monkeypatch.setattr(matrix_intervals, "AT_ONCE", 1000)
    assert np.array_equal(overlap_replicates(hits[:1], 30), whole)


def test_means_over_seeds_spread_as_seeds_do():
    # only what training on noise does to blur differs between seeds, so that the score is linear
    several = []
    for more in (0.02, 0.06, 0.12, 0.20):
        accuracies = ACCURACIES.copy()
        accuracies[1, 3] += more
        several.append(drawn_hits(10_000, 10, accuracies))
    hits = np.stack(several)
    own = overlap_intervals(hits, n_bootstrap=50)
    robustness = robustness_scores(hits.mean(axis=-1)[..., 1:], hits.mean(axis=-1)[..., 0])
    each = overlap_scores(robustness)[:, 0, 2]
    assert own.seeds == 4 and own.seed_deviation[0, 2] == pytest.approx(np.std(each, ddof=1))
    assert own.matrix[0, 2] == pytest.approx(each.mean())
    found = overlap_replicates(hits, 2000)[:, 0, 2].std()
    assert found == pytest.approx(np.std(each, ddof=1) / np.sqrt(4), rel=0.06)


def test_undetermined_scores_have_no_interval():
    accuracies = ACCURACIES.copy()
    accuracies[3, 3] = 0.55
    own = overlap_intervals(drawn_hits(2000, 5, accuracies, share=0.95), n_bootstrap=100)
    assert np.isnan(own.matrix[0, 2]) and np.isnan(own.low[0, 2]) and np.isnan(own.high[0, 2])
    assert np.isfinite(own.low[0, 1])


def test_a_gain_that_may_be_none_leaves_the_upper_end_open():
    accuracies = ACCURACIES.copy()
    accuracies[3, 3] = 0.60
    hits = drawn_hits(150, 8, accuracies, share=0.2)
    own = overlap_intervals(hits, n_bootstrap=400)
    assert np.isfinite(own.matrix[0, 2]) and 0.025 < own.undetermined[0, 2] < 1
    assert own.low[0, 2] == 0 and np.isinf(own.high[0, 2])
    assert np.isfinite(own.high[0, 1]) and own.undetermined[0, 1] == 0


@pytest.mark.parametrize(
    "hits, arguments, words",
    [
        (np.ones((2, 3, 5), bool), {}, "as many models as tests"),
        (np.ones((1, 1, 5), bool), {}, "as many models as tests"),
        (np.ones((2, 2), bool), {}, "as many models as tests"),
        (np.ones((2, 2, 0), bool), {}, "1 to 16,777,215 images, got 0"),
        (np.full((2, 2, 5), 0.5), {}, "booleans"),
        (np.full((2, 2, 5), "x"), {}, "booleans"),
        (np.zeros((2, 2, 5), bool), {}, "correct on at least one clean image"),
        (np.ones((2, 2, 5), bool), {"n_bootstrap": 1}, "n_bootstrap must be at least 2"),
        (np.ones((2, 2, 5), bool), {"level": 1.5}, "between 0 and 1"),
        (np.ones((2, 2, 5), bool), {"min_gain": -1}, "must be in [0, 1)"),
    ],
)
def test_what_are_no_hits_is_rejected_in_one_sentence(hits, arguments, words):
    with pytest.raises(UsageError) as error:
        overlap_intervals(hits, **arguments)
    assert words in str(error.value)


@pytest.mark.slow
def test_a_whole_study_takes_seconds():
    numbers = np.random.default_rng(0)
    hits = numbers.random((39, 39, 10_000)) < numbers.uniform(0.4, 0.9, (39, 39, 1))
    start = time.perf_counter()
    own = overlap_intervals(hits, n_bootstrap=1000)
    assert time.perf_counter() - start < 20 and own.low.shape == (38, 38)
