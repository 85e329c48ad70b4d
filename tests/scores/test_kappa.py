"""Cohen's κ against its definition by a table of four counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.scores.error_consistency import agreement, cohen_kappa

CELLS = st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any)


def counts_of(both, first_only, second_only, neither):
    """Trials, hits of each, agreements: what κ is computed from."""
    trials = both + first_only + second_only + neither
    return np.array([trials, both + first_only, both + second_only, both + neither], dtype=float)


@given(CELLS)
def test_it_is_that_of_the_confusion_matrix(cells):
    """As textbooks and scikit-learn have it: 1 less observed over expected disagreement."""
    both, first_only, second_only, neither = cells
    matrix = np.array([[both, first_only], [second_only, neither]], dtype=float)
    expected = np.outer(matrix.sum(axis=1), matrix.sum(axis=0)) / matrix.sum()
    apart = ~np.eye(2, dtype=bool)
    room = expected[apart].sum()
    wanted = 1 - matrix[apart].sum() / room if room else np.nan
    assert cohen_kappa(counts_of(*cells)) == pytest.approx(wanted, abs=1e-9, nan_ok=True)


def test_many_at_once_are_each_by_itself_and_no_trials_are_undetermined():
    tables = np.stack([counts_of(8, 1, 2, 9), counts_of(5, 5, 5, 5), np.zeros(4)], axis=1)
    kappas = cohen_kappa(tables)
    assert kappas[:2] == pytest.approx([cohen_kappa(tables[:, 0]), 0])
    assert np.isnan(kappas[2])
    observed, expected = agreement(tables)
    assert observed[:2] == pytest.approx([0.85, 0.5]) and expected[1] == pytest.approx(0.5)


def test_alike_is_one_opposite_is_minus_one_and_always_right_has_none():
    assert cohen_kappa(counts_of(5, 0, 0, 5)) == 1
    assert cohen_kappa(counts_of(0, 5, 5, 0)) == -1
    assert np.isnan(cohen_kappa(counts_of(7, 0, 0, 0)))
