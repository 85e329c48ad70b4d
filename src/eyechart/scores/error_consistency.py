"""Error consistency: whether two observers err on the same pictures, beyond what chance explains.

Cohen's κ of right and wrong answers (Geirhos et al., 2020), between models, people, or both.
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
from eyechart.curves.curve_settings import REPLICATES
from eyechart.stats.bootstrap import check_replicates, weight_blocks
from eyechart.stats.estimate import LEVELS, Estimate
from eyechart.stats.intervals import percentile_interval
from eyechart.stats.kappa import agreement, cohen_kappa

Labels = ArrayLike | None
"""A name or number for each trial."""

Rows = Sequence[ArrayLike] | NDArray[np.generic]
"""A row for each observer: whether each trial was right."""


@dataclass(frozen=True)
class ErrorConsistency:
    """κ with its intervals: 1 all errors alike, 0 as chance has it, below 0 less alike than that.

    `observed`: the share of trials on which both are right or both wrong; `expected`: that share
    if they erred independently. Over several pairs of observers or several conditions all three
    are means, and `undefined` of them had no κ, for both were always right or always wrong.
    `trials`: how many were compared.
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
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the error consistency of two observers: whether each was right, 0 or 1 by trial.

    κ = (observed − expected) / (1 − expected), with expected = p₁p₂ + (1 − p₁)(1 − p₂); NaN where
    that is 1. A trial that one did not do is NaN. `clusters`: the picture of each trial, which are
    resampled for the intervals; without it each trial is its own. `conditions`: κ is taken within
    each, and averaged: over conditions of unequal difficulty all observers seem to agree.
    """
    hits = _hits([first, second])
    return _over_pairs(
        hits, [(0, 1)], clusters, conditions=conditions, replicates=replicates, seed=seed
    )


def error_consistency_with_people(
    model: ArrayLike,
    people: Rows,
    clusters: Labels = None,
    *,
    conditions: Labels = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the mean error consistency of a model and each of several people.

    `people`: a row for each person, a column for each trial of the model, NaN where it was not
    shown. The rest is as in `error_consistency`.
    """
    hits = _hits([model, *as_list(people, "people")])
    pairs = [(0, row) for row in range(1, len(hits))]
    return _over_pairs(
        hits, pairs, clusters, conditions=conditions, replicates=replicates, seed=seed
    )


def error_consistency_of_people(
    people: Rows,
    clusters: Labels = None,
    *,
    conditions: Labels = None,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> ErrorConsistency:
    """Return the mean error consistency of all pairs of people: what a model can hope to reach."""
    hits = _hits(as_list(people, "people"))
    pairs = list(combinations(range(len(hits)), 2))
    return _over_pairs(
        hits, pairs, clusters, conditions=conditions, replicates=replicates, seed=seed
    )


def _over_pairs(
    hits: FloatArray,
    pairs: Sequence[tuple[int, int]],
    clusters: Labels,
    *,
    conditions: Labels,
    replicates: int,
    seed: int,
) -> ErrorConsistency:
    if not pairs:
        raise UsageError("Error consistency needs at least two observers.")
    replicates, seed = check_replicates(replicates, seed)
    trials = hits.shape[1]
    group = _numbered(clusters, trials, "clusters")
    condition = _numbered(conditions, trials, "conditions")
    if conditions is None:
        condition = np.zeros(trials, dtype=np.int64)
    sums = _sums(hits, pairs, group, condition)
    totals = np.asarray(sums.sum(axis=1)).reshape(4, -1)
    compared = totals[0] > 0
    if not compared.any():
        raise UsageError(
            "Error consistency needs trials that two observers did, and there are none."
        )
    observed, expected = (part[compared] for part in agreement(totals))
    kappas = cohen_kappa(totals[:, compared])
    drawn = np.empty(replicates)
    for part, weights in weight_blocks(sums.shape[1], replicates, seed):
        table = (sums @ weights.T).reshape(4, -1, len(weights))[:, compared]
        drawn[part] = _mean(cohen_kappa(table))
    return ErrorConsistency(
        _estimate(float(_mean(kappas)), drawn),
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
    """Return trials, hits of each and agreements, by (those four, pair, condition) and cluster."""
    conditions = int(condition.max()) + 1
    rows, columns, values = [], [], []
    for index, (one, two) in enumerate(pairs):
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
    """Return the mean of those that there are, over the first axis; NaN if there is none."""
    known = ~np.isnan(kappas)
    count = known.sum(axis=0)
    total = np.where(known, kappas, 0).sum(axis=0)
    mean: FloatArray = total / np.where(count > 0, count, np.nan)
    return mean


def _estimate(value: float, drawn: FloatArray) -> Estimate:
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return Estimate.of(value, (np.nan, np.nan), (np.nan, np.nan), drawn)
    wide, narrow = (percentile_interval(known, level) for level in LEVELS)
    return Estimate.of(value, wide, narrow, drawn)


def _hits(rows: Rows) -> FloatArray:
    try:
        hits = np.array([np.asarray(row, dtype=np.float64) for row in rows])
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise UsageError("Observers must be rows of 0 and 1, all equally long.") from None
    if hits.ndim != 2 or not hits.shape[1]:
        raise UsageError("Observers must be rows of 0 and 1, one for each trial.")
    other = hits[~(np.isin(hits, (0, 1)) | np.isnan(hits))]
    if len(other):
        raise UsageError(f"A trial must be 1 (right), 0 (wrong) or NaN (not done), got {other[0]}.")
    return hits


def _numbered(labels: Labels, trials: int, role: str) -> NDArray[np.int64]:
    """Return the number of each trial's label, in the order of their names."""
    if labels is None:
        return np.arange(trials)
    try:
        names = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        names = np.empty(0)
    if names.shape != (trials,) or names.dtype.kind not in "biufUS":
        raise UsageError(f"{role} must be a name or number for each of {trials} trials.")
    numbers: NDArray[np.int64] = np.unique(names, return_inverse=True)[1]
    return numbers
