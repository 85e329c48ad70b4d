"""Statistical tests of one session: dropped trials against the others, late ones against early."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, comb, erfc, sqrt

import numpy as np

from eyechart_experiment.quality.trial_validity import AWAY
from eyechart_experiment.storage.session_records import (
    MAIN,
    SessionRecord,
    TrialResponse,
    max_delta_v,
)

SIMILAR_DELTA_V = 0.2
"""Width of the ranges of Δv within which trials count as equally hard."""


def p_harder(dropped: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of the one-sided Mann-Whitney test that `dropped` has larger values.

    By the normal approximation with corrections for ties and continuity; 1 if there is nothing to
    compare. Not from SciPy, whose statistics take a second to load, in which participants wait.

    Example:
        >>> p_harder([0.8, 0.9, 0.7], [0.1, 0.2, 0.3, 0.4, 0.5]) < 0.05
        True
    """
    n_dropped, n_others = len(dropped), len(others)
    total = n_dropped + n_others
    values = np.concatenate([np.asarray(dropped, float), np.asarray(others, float)])
    _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(counts) < 2 or not n_dropped or not n_others:
        return 1.0
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[indices]
    u = float(ranks[:n_dropped].sum()) - n_dropped * (n_dropped + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum()) / (total * (total - 1))
    spread = sqrt(n_dropped * n_others / 12 * (total + 1 - ties))
    z = (u - n_dropped * n_others / 2 - 0.5) / spread
    return 0.5 * erfc(z / sqrt(2))


def selection(record: SessionRecord) -> tuple[int, float]:
    """Return how many different stimuli of the main part were dropped, and whether by their Δv.

    The second value is the p-value of the test that dropped stimuli have larger Δv than those to
    which the participant responded at once. A stimulus that was dropped and responded to when it
    came back counts as dropped. So does one during which the participant left the page, since its
    trial does not count either.
    """
    away = [response for response in record.of(*MAIN) if set(AWAY) & set(response.flags)]
    dropped = {trial.stimulus: max_delta_v(trial.images) for trial in record.dropped_of(*MAIN)}
    dropped |= {response.stimulus: max_delta_v(response.images) for response in away}
    others = [
        max_delta_v(response.images)
        for response in record.of(*MAIN)
        if response.stimulus not in dropped
    ]
    return len(dropped), p_harder(list(dropped.values()), others)


def p_fewer(groups: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the p-value of the exact test that fewer are correct late than before, in all groups.

    A group of equally hard trials has the numbers of correct and of all trials before, and of
    correct and of all late trials. Given its number of correct trials, how many of them are late
    follows a hypergeometric distribution; the sum over the groups is tested.

    Example:
        >>> round(p_fewer([(9, 10, 1, 4), (10, 10, 0, 1)]), 4)
        0.0046
    """
    distribution, n_late = np.ones(1), 0
    for correct_before, before, correct_late, late in groups:
        correct, total = correct_before + correct_late, before + late
        weights = [comb(correct, n) * comb(total - correct, late - n) for n in range(late + 1)]
        distribution = np.convolve(distribution, np.asarray(weights) / comb(total, late))
        n_late += correct_late
    return float(distribution[: n_late + 1].sum())


def p_late(responses: Sequence[TrialResponse], share: float) -> float:
    """Return the p-value of the test that the last `share` of the responses is worse."""
    first = len(responses) - ceil(share * len(responses))
    counts: dict[tuple[str, int], Counter[str]] = {}
    for index, response in enumerate(responses):
        hardness = int(max_delta_v(response.images) / SIMILAR_DELTA_V)
        count = counts.setdefault((response.role, hardness), Counter())
        part = "late" if index >= first else "before"
        count[part] += 1
        count[f"correct {part}"] += response.correct
    return p_fewer(
        (count["correct before"], count["before"], count["correct late"], count["late"])
        for count in counts.values()
    )
