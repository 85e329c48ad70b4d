"""Error consistency: do two observers err on the same images more often than chance explains?

Cohen's κ of correct and incorrect responses (Geirhos et al. 2020), for models, humans, or both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from eyechart.core.arguments import as_list
from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.stats.bootstrap import check_bootstrap, weight_blocks
from eyechart.stats.curve_settings import N_BOOTSTRAP
from eyechart.stats.estimate import LEVELS, Estimate
from eyechart.stats.intervals import percentile_interval


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


Labels = ArrayLike | None
"""Cluster or condition of each trial, as a name or number."""

Rows = Sequence[ArrayLike] | NDArray[np.generic]
"""One row per observer: 1 where the trial was correct, 0 where it was not."""


@dataclass(frozen=True)
class ErrorConsistency:
    """Error consistency κ with its intervals: 1 for identical errors, 0 at chance level.

    For several pairs of observers or several conditions, κ, `observed` and `expected` are means.

    Attributes:
        kappa: κ with its 95 % and 83 % intervals.
        observed: Fraction of trials on which both observers are correct or both are incorrect.
        expected: Expected value of this fraction if the two observers erred independently.
        trials: Number of trials compared.
        undefined: Number of pairs and conditions without κ, because both observers were always
            correct or always incorrect.

    Example:
        >>> import eyechart as ec
        >>> result = ec.error_consistency([1, 1, 0, 0], [1, 1, 0, 1])
        >>> result.observed, result.expected, result.trials
        (0.75, 0.5, 4)
    """

    kappa: Estimate
    observed: float
    expected: float
    trials: int
    undefined: int


def error_consistency(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Labels = None,
    *,
    conditions: Labels = None,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the error consistency κ of two observers.

    κ = (observed − expected) / (1 − expected), with expected = p₁p₂ + (1 − p₁)(1 − p₂); NaN where
    expected is 1.

    Args:
        first: 1 for correct, 0 for incorrect, NaN for a missing trial.
        second: Results of the other observer on the same trials.
        clusters: Image of each trial; images are resampled for the intervals. Without `clusters`,
            each trial is its own cluster.
        conditions: Condition of each trial; κ is computed within each condition and averaged, since
            pooling conditions of unequal difficulty makes all observers seem to agree.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.

    Example:
        >>> import eyechart as ec
        >>> ec.error_consistency([1, 1, 0, 0], [1, 1, 0, 1]).kappa.value
        0.5
    """
    return _over_pairs(
        _hits([first, second]),
        [(0, 1)],
        clusters,
        conditions=conditions,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )


def error_consistency_with_humans(
    model: ArrayLike,
    humans: Rows,
    clusters: Labels = None,
    *,
    conditions: Labels = None,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the mean error consistency of a model with each of several humans.

    Args:
        model: 1 for correct, 0 for incorrect, by trial.
        humans: One row per human, one column per trial of the model; NaN for trials not shown.
        clusters: As in `error_consistency`.
        conditions: As in `error_consistency`.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.

    Example:
        >>> import eyechart as ec
        >>> humans = [[1, 1, 0, 1], [1, 1, 0, 0]]
        >>> ec.error_consistency_with_humans([1, 1, 0, 0], humans).kappa.value
        0.75
    """
    hits = _hits([model, *as_list(humans, "humans")])
    return _over_pairs(
        hits,
        [(0, row) for row in range(1, len(hits))],
        clusters,
        conditions=conditions,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )


def error_consistency_of_humans(
    humans: Rows,
    clusters: Labels = None,
    *,
    conditions: Labels = None,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the mean error consistency of all pairs of humans: the ceiling for a model.

    Args:
        humans: One row per human, one column per trial; NaN for trials not shown.
        clusters: As in `error_consistency`.
        conditions: As in `error_consistency`.
        n_bootstrap: Number of bootstrap replicates.
        seed: Seed of the bootstrap.

    Example:
        >>> import eyechart as ec
        >>> ec.error_consistency_of_humans([[1, 1, 0, 0], [1, 1, 0, 1]]).kappa.value
        0.5
    """
    hits = _hits(as_list(humans, "humans"))
    return _over_pairs(
        hits,
        list(combinations(range(len(hits)), 2)),
        clusters,
        conditions=conditions,
        n_bootstrap=n_bootstrap,
        seed=seed,
    )


def _over_pairs(
    hits: FloatArray,
    pairs: Sequence[tuple[int, int]],
    clusters: Labels,
    *,
    conditions: Labels,
    n_bootstrap: int,
    seed: int,
) -> ErrorConsistency:
    if not pairs:
        raise UsageError("Error consistency needs at least two observers.")
    n_bootstrap, seed = check_bootstrap(n_bootstrap, seed)
    trials = hits.shape[1]
    group = _numbered(clusters, trials, "clusters")
    condition = _numbered(conditions, trials, "conditions")
    if conditions is None:
        condition = np.zeros(trials, dtype=np.int64)
    # Sums per cluster are enough for κ, so a replicate is one matrix product with its weights.
    sums = _sums(hits, pairs, group, condition)
    totals = np.asarray(sums.sum(axis=1)).reshape(4, -1)
    compared = totals[0] > 0
    if not compared.any():
        raise UsageError(
            "Error consistency needs trials that both observers completed, but there are none."
        )
    observed, expected = (part[compared] for part in agreement(totals))
    kappas = cohen_kappa(totals[:, compared])
    drawn = np.empty(n_bootstrap)
    for part, weights in weight_blocks(sums.shape[1], n_bootstrap, seed):
        # Rows are ordered by quantity, so that the reshape yields the four sums of κ.
        table = (sums @ weights.T).reshape(4, -1, len(weights))[:, compared]
        drawn[part] = _mean(cohen_kappa(table))
    # A replicate in which every pair agrees on all trials has no κ: the interval leaves it out.
    known = drawn[~np.isnan(drawn)]
    wide = narrow = (np.nan, np.nan)
    if len(known):
        wide, narrow = (percentile_interval(known, level) for level in LEVELS)
    return ErrorConsistency(
        Estimate.of(float(_mean(kappas)), wide, narrow, drawn),
        float(observed.mean()),
        float(expected.mean()),
        int(totals[0].sum()),
        int(np.isnan(kappas).sum()),
    )


def _sums(
    hits: FloatArray,
    pairs: Sequence[tuple[int, int]],
    group: NDArray[np.int64],
    condition: NDArray[np.int64],
) -> csr_matrix:
    """Return a sparse matrix of sums: (quantity × pair × condition) by cluster.

    The four quantities are trials, correct responses of each observer, and agreements.
    """
    conditions = int(condition.max()) + 1
    rows, columns, values = [], [], []
    for index, (one, two) in enumerate(pairs):
        # The sum is NaN where either observer lacks the trial.
        seen = np.flatnonzero(~np.isnan(hits[one] + hits[two]))
        first, second = hits[one, seen], hits[two, seen]
        for part, counted in enumerate((np.ones(len(seen)), first, second, first == second)):
            rows.append((part * len(pairs) + index) * conditions + condition[seen])
            columns.append(group[seen])
            values.append(counted.astype(np.float64))
    where = (np.concatenate(rows), np.concatenate(columns))
    shape = (4 * len(pairs) * conditions, int(group.max()) + 1)
    return csr_matrix((np.concatenate(values), where), shape=shape)


def _mean(kappas: FloatArray) -> FloatArray:
    """Return the mean over the first axis, leaving out NaN; NaN if nothing is left."""
    known = ~np.isnan(kappas)
    count = known.sum(axis=0)
    total = np.where(known, kappas, 0).sum(axis=0)
    # NaN as divisor gives NaN without a warning.
    return np.asarray(total / np.where(count > 0, count, np.nan))


def _hits(rows: Rows) -> FloatArray:
    try:
        hits = np.array([np.asarray(row, dtype=np.float64) for row in rows])
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError("Observers must be rows of 0 and 1 of equal length.") from None
    if hits.ndim != 2 or not hits.shape[1]:
        raise UsageError("Observers must be rows of 0 and 1, one for each trial.")
    other = hits[~(np.isin(hits, (0, 1)) | np.isnan(hits))]
    if len(other):
        raise UsageError(
            f"A trial must be 1 (correct), 0 (incorrect) or NaN (missing), got {other[0]}."
        )
    return hits


def _numbered(labels: Labels, trials: int, role: str) -> NDArray[np.int64]:
    """Return the index of each trial's label among the sorted distinct labels."""
    if labels is None:
        return np.arange(trials)
    try:
        names = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        names = np.empty(0)
    if names.shape != (trials,) or names.dtype.kind not in "biufUS":
        raise UsageError(f"{role} must be a name or number for each of {trials} trials.")
    return np.asarray(np.unique(names, return_inverse=True)[1])
