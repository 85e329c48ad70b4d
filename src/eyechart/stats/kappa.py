"""Cohen's κ of binary outcomes from counts: agreement beyond chance.

Counts may be weighted, and several κ can be computed at once; observers are models or humans.
"""

import numpy as np

from eyechart.core.arrays import FloatArray


def agreement(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the observed and the expected rate of agreement; NaN where there are no trials.

    Args:
        table: Along its first axis: the number of trials, the hits of the first observer, the hits
            of the second, and the number of trials in which they agree. Other axes are arbitrary.

    Example:
        >>> observed, expected = agreement(np.array([10.0, 5.0, 5.0, 8.0]))
        >>> float(observed), float(expected)
        (0.8, 0.5)
    """
    # NaN instead of a division by zero
    trials = np.where(table[0] > 0, table[0], np.nan)
    first, second, observed = table[1:] / trials
    return observed, first * second + (1 - first) * (1 - second)


def cohen_kappa(table: FloatArray) -> FloatArray:
    """Return κ = (observed − expected) / (1 − expected); NaN where expected is 1.

    Args:
        table: The counts that `agreement` takes.

    Example:
        >>> float(cohen_kappa(np.array([10.0, 5.0, 5.0, 8.0])))  # 8 of 10 agree, 5 by chance
        0.6000000000000001
    """
    observed, expected = agreement(table)
    # exact because hits are counts: an observer that is always correct has expected == 1
    room = np.where(expected < 1, 1 - expected, np.nan)
    kappas: FloatArray = (observed - expected) / room
    return kappas
