"""Places in sorted arrays."""

import numpy as np
import pytest

from eyechart.core.arrays import places_in


@pytest.mark.parametrize(
    "names", [[0, 1, 2, 3], [0, 1, 2, 5], [1, 2, 3, 4], [-1, 0, 2, 3], [0.0, 1.5, 2.0, 3.0], "abcd"]
)
def test_places_are_those_in_the_sorted_list(names):
    names = np.array(list(names))
    values = names[[2, 0, 3, 3]]
    assert places_in(names, values).tolist() == [names.tolist().index(v) for v in values.tolist()]


def test_nothing_has_no_places():
    assert places_in(np.array([0, 1]), np.array([], dtype=int)).tolist() == []
    assert places_in(np.array([], dtype=int), np.array([], dtype=int)).tolist() == []
