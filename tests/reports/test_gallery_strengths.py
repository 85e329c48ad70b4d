"""The strengths that give an image of the gallery its Δv: known functions are inverted."""

from collections import Counter

import numpy as np
import pytest

from eyechart.reports.series.gallery import CLOSE, MOST_STEPS, find_strengths


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_the_strength_of_a_known_function_is_found(power):
    """Δv = (severity / 5) ** power is met within CLOSE; the inverse is known."""
    target = np.linspace(0.05, 0.95, 40)
    calls = Counter()

    def measure(rows, severity):
        calls.update(rows.tolist())
        return (severity / 5) ** power

    severity, found = find_strengths(target, 0.0, np.zeros(40), np.ones(40), measure)
    np.testing.assert_allclose(found, target, atol=CLOSE, rtol=0)
    np.testing.assert_allclose((severity / 5) ** power, found, atol=1e-12)
    assert max(calls.values()) <= MOST_STEPS


def test_rows_are_looked_at_by_their_own_function():
    slope = np.array([0.2, 0.5, 1.0])
    target = np.array([0.1, 0.1, 0.1])
    severity, _ = find_strengths(
        target, 0.0, np.zeros(3), slope, lambda rows, severity: slope[rows] * severity / 5
    )
    np.testing.assert_allclose(severity, 5 * target / slope, atol=5 * CLOSE / slope.min())


def test_a_function_of_steps_ends_at_the_nearest_step_on_either_side():
    """Kernels of whole numbers: Δv is one of 0, 0.25, 0.5, 0.75, 1."""
    target = np.array([0.06, 0.2, 0.31, 0.6, 0.74, 0.9])

    def measure(rows, severity):
        return np.floor(severity / 5 * 4 + 0.5) / 4

    severity, found = find_strengths(target, 0.0, np.zeros(6), np.ones(6), measure)
    np.testing.assert_array_equal(found, measure(None, severity))
    # the two steps around the target are at its bracket's ends: either, but none further off
    assert np.all(np.abs(found - target) < 0.25)
    np.testing.assert_array_equal(found[[1, 3, 4]], [0.25, 0.5, 0.75])


def test_a_target_beyond_reach_gets_the_nearer_end():
    target = np.array([0.9, 0.01])
    severity, found = find_strengths(
        target, 1.0, np.array([0.1, 0.1]), np.array([0.5, 0.5]),
        lambda rows, severity: 0.1 + 0.1 * (severity - 1),
    )  # fmt: skip
    np.testing.assert_allclose(severity, [5, 1], atol=0.05)
    np.testing.assert_allclose(found, [0.5, 0.1], atol=0.005)


def test_a_row_that_is_at_its_target_already_is_not_measured():
    def never(rows, severity):
        raise AssertionError

    severity, found = find_strengths(
        np.array([0.2, 0.8]), 1.0, np.array([0.2, 0.1]), np.array([0.9, 0.8]), never
    )
    assert severity.tolist() == [1, 5] and found.tolist() == [0.2, 0.8]
