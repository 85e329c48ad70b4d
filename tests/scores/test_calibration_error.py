"""ECE against a second implementation and closed forms."""

import numpy as np
import pytest

from eyechart.predictions.reading import Predictions
from eyechart.scores.statistic import (
    N_BINS,
    equal_mass_bins,
    estimate_statistics,
    expected_calibration_error,
)


def predictions(correct, confidence, image=None, weights=None):
    correct = np.asarray(correct, dtype=np.float64)
    nothing = np.full(len(correct), np.nan)
    image = np.arange(len(correct)) if image is None else image
    return Predictions(
        nothing, nothing, image, np.zeros(len(correct), dtype=np.int64), correct,
        *(nothing for _ in range(4)), weights=weights,
        confidence=np.asarray(confidence, dtype=np.float64),
    )  # fmt: skip


def ece(known, n_bootstrap=200):
    statistic = expected_calibration_error(known)
    (estimate,) = estimate_statistics([statistic], known, n_bootstrap, seed=0)
    return estimate


def second_implementation(correct, confidence):
    """Sort, cut into 15 parts of equal size, average the absolute gaps."""
    order = np.argsort(confidence)
    total = 0.0
    for part in np.array_split(order, N_BINS):
        total += len(part) * abs(correct[part].mean() - confidence[part].mean())
    return total / len(correct)


def calibrated(n, seed=0):
    numbers = np.random.default_rng(seed)
    confidence = numbers.uniform(0.2, 1, n)
    return (numbers.uniform(size=n) < confidence).astype(float), confidence


@pytest.mark.parametrize("n", [15, 300, 3000])
def test_it_equals_a_second_implementation(n):
    correct, confidence = calibrated(n, seed=n)
    correct = correct * (confidence < 0.8)
    expected = second_implementation(correct, confidence)
    assert ece(predictions(correct, confidence)).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("confidence", "n_correct"), [(0.9, 60), (0.3, 60), (1.0, 100), (0.5, 0)])
def test_of_one_confidence_it_is_the_distance_to_the_accuracy(confidence, n_correct):
    correct = np.arange(100) < n_correct
    found = ece(predictions(correct, np.full(100, confidence)))
    assert found.value == pytest.approx(abs(confidence - n_correct / 100), abs=1e-12)


def test_a_calibrated_model_is_near_0_with_the_known_bias():
    errors = [ece(predictions(*calibrated(n)), 10).value for n in (1_500, 150_000)]
    for n, error in zip((1_500, 150_000), errors, strict=True):
        # E|N(0, p(1 − p) / n_b)| in each bin: √(2/π) of the standard deviation
        confidence = calibrated(n)[1]
        bins = equal_mass_bins(confidence, np.ones(n))
        means = np.array([confidence[bins == place].mean() for place in range(N_BINS)])
        bias = np.sqrt(2 / np.pi * means * (1 - means) * N_BINS / n).mean()
        assert error == pytest.approx(bias, rel=0.6)
    assert errors[1] < 0.005 < 0.02 < errors[0]


def test_its_interval_lies_around_it_though_resampling_raises_it():
    correct, confidence = calibrated(1_500)
    found = ece(predictions(correct, confidence), 500)
    low, high = found.interval(0.95)
    assert low < found.value < high
    assert found.replicates.mean() == pytest.approx(found.value, abs=1e-3)


def test_weights_count_as_copies_of_samples():
    correct, confidence = calibrated(45, seed=3)
    weights = np.tile([1.0, 2.0, 3.0], 15)
    copies = np.repeat(np.arange(45), weights.astype(int))
    one = ece(predictions(correct, confidence, weights=weights), 5).value
    two = ece(predictions(correct[copies], confidence[copies], image=copies), 5).value
    assert one == pytest.approx(two, abs=1e-12)


def test_equal_confidences_share_a_bin_and_bins_have_equal_mass():
    confidence = np.random.default_rng(0).uniform(size=1500)
    bins = equal_mass_bins(confidence, np.ones(1500))
    assert np.bincount(bins).tolist() == [100] * N_BINS
    tied = np.round(confidence, 1)
    bins = equal_mass_bins(tied, np.ones(1500))
    assert all(len(set(bins[tied == value])) == 1 for value in np.unique(tied))


def test_samples_without_a_prediction_are_left_out():
    correct, confidence = calibrated(300)
    more = predictions(np.r_[correct, 0, 0], np.r_[confidence, np.nan, np.nan])
    assert ece(more).value == pytest.approx(ece(predictions(correct, confidence)).value, abs=1e-12)
    assert expected_calibration_error(predictions([0, 1], [np.nan, np.nan])) is None
