"""What a planned same/different study can detect, with the tests that its analysis will use."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from eyechart.humans.same_different import ALIKE, MIN_OBSERVERS, MIN_RESPONSES
from eyechart.stats.intervals import CONFIDENCE, clustered_interval
from eyechart.stats.p_values import SIGNIFICANT, sign_flip

# The conventional power (Cohen, 1988).
POWER = 0.8
# Standard error of a power of 0.8: sqrt(0.8 * 0.2 / 200), about 0.03.
SIMULATIONS = 200
STEP = 0.01


@dataclass(frozen=True)
class PairPower:
    """What a study can say about one pair of corruptions.

    Attributes:
        n_responses: Responses per pair.
        n_participants: Participants who respond to a pair.
        detectable: Lowest accuracy at which a pair is told apart with a probability of at least
            80 %, after the correction over all pairs; None if there is none.
        alike: Probability that the interval shows that two corruptions are not told apart, if
            participants can only guess.
    """

    n_responses: int
    n_participants: int
    detectable: float | None
    alike: float


def pair_power(n_responses: int, n_participants: int, n_pairs: int, seed: int = 0) -> PairPower:
    """Return what a same/different study can detect, from simulated participants.

    Each participant is simulated with the same accuracy, and responses are spread evenly over
    participants. The test is the one over participants, corrected for `n_pairs` pairs as if all of
    them had the same p-value.

    Example:
        >>> pair_power(n_responses=200, n_participants=20, n_pairs=3).detectable
        0.63
    """
    # At least one response for each participant, which reduceat in `_correct` relies on.
    n_used = min(n_participants, n_responses)
    counts = np.full(n_used, n_responses // max(n_used, 1))
    counts[: n_responses - int(counts.sum())] += 1
    if n_used < MIN_OBSERVERS or n_responses < MIN_RESPONSES:
        return PairPower(n_responses, n_used, None, 0.0)

    def told_apart(accuracy: float) -> float:
        found = [
            # Correct minus incorrect responses, which is symmetric around 0 for a guess.
            sign_flip(2 * correct - counts) * n_pairs < SIGNIFICANT
            # The test is two-sided, but only an accuracy above guessing tells a pair apart.
            and 2 * correct.sum() > n_responses
            for correct in _correct(counts, accuracy, seed)
        ]
        return float(np.mean(found))

    # Bisection over whole steps: power grows with accuracy, and the random numbers are the same.
    low, high = ceil(0.5 / STEP), round(1 / STEP)
    # Bisection needs an upper end that is detected; with few participants, not even 100 % is.
    if told_apart(high * STEP) < POWER:
        detectable = None
    else:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if told_apart(middle * STEP) >= POWER else (middle, high)
        detectable = round(high * STEP, 2)
    limits = [
        clustered_interval(correct, counts, CONFIDENCE)[1]
        for correct in _correct(counts, 0.5, seed)
    ]
    return PairPower(n_responses, n_used, detectable, float(np.mean(np.array(limits) < ALIKE)))


def _correct(counts: NDArray[np.int64], accuracy: float, seed: int) -> NDArray[np.int64]:
    """Return simulated numbers of correct responses, one row per simulated study."""
    # 27 sets this stream apart from those of the other simulations with the same seed.
    random = np.random.default_rng((seed, 27))
    # Uniform numbers and not binomial ones, so that a higher accuracy never gives fewer hits.
    draws = random.random((SIMULATIONS, int(counts.sum()))) < accuracy
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(draws, starts, axis=1, dtype=np.int64)
