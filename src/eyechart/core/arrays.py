"""Type aliases for the NumPy arrays used in computations, and places in sorted arrays."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


def places_in(names: NDArray[np.generic], values: NDArray[np.generic]) -> IntArray:
    """Return the place of each value among sorted, distinct names, of which each value is one.

    Example:
        >>> places_in(np.array([2, 5, 7]), np.array([7, 2])).tolist()
        [2, 0]
    """
    # The images of most runs are numbered from 0 on, so that their numbers are their places.
    are_numbers = values.dtype.kind == names.dtype.kind == "i"
    if are_numbers and len(names) and names[0] == 0 and names[-1] == len(names) - 1:
        return values.astype(np.int64, copy=False)
    return np.searchsorted(names, values)
