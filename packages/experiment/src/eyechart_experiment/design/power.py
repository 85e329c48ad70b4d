"""What a planned study can show, computed from simulated participants before there are data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from eyechart.core.arrays import FloatArray
from eyechart.core.errors import UsageError
from eyechart.humans.human_responses import CLEAN, HumanResponses, make_responses
from eyechart.humans.reference import Reference
from eyechart.humans.same_different import ALIKE, MIN_OBSERVERS, MIN_RESPONSES
from eyechart.scores.human_relative import compared_replicates
from eyechart.stats.curve import Curve, fit_curve
from eyechart.stats.intervals import CONFIDENCE, clustered_interval, percentile_interval
from eyechart.stats.p_values import SIGNIFICANT, sign_flip
from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.design.stimulus_design import MAIN, PlannedStimulus

CHOICES = 16
AGREEMENT = 0.46
"""Correlation between two participants' correctness on the same image at the same strength.

Some images are harder than others, so that k responses to one image say less than responses to k
images. Measured in the trials of Geirhos et al. (2018): 0.49 in 143 pairs of responses to low-pass
filtered images, and 0.42 in 60 pairs of responses to noisy images.
"""

STUDIES, N_BOOTSTRAP = 4, 200
"""Number of simulated studies over which the half-width is averaged, and replicates in each."""

MIN_IMAGES = 20
"""Minimum number of images; a bootstrap over fewer claims a precision that it cannot know."""

BEHIND = 0.15
"""The model to which humans are compared loses its accuracy at a Δv that is lower by this."""

# The conventional power (Cohen, 1988).
POWER = 0.8
# Standard error of a power of 0.8: sqrt(0.8 * 0.2 / 200), about 0.03.
SIMULATIONS = 200
STEP = 0.01


@dataclass(frozen=True)
class StimulusTable:
    """The main stimuli of one corruption: source image, Δv, and number of responses wanted.

    `n_clean` is the number of responses wanted for the clean version of each image.
    """

    corruption: str
    image: tuple[str, ...]
    delta_v: FloatArray
    n_wanted: FloatArray
    n_clean: FloatArray

    @property
    def n_responses(self) -> int:
        """Number of responses to corrupted images."""
        return int(self.n_wanted.sum())


def stimulus_tables(stimuli: Sequence[PlannedStimulus]) -> list[StimulusTable]:
    """Return a table for every corruption of a categorization study, in alphabetical order."""
    main = [stimulus for stimulus in stimuli if stimulus.role == MAIN]
    clean = {
        stimulus.images[0].digest: stimulus.capacity or 0
        for stimulus in main
        if stimulus.images[0].is_clean
    }
    by_name: dict[str, list[PlannedStimulus]] = {}
    for stimulus in main:
        if not stimulus.images[0].is_clean:
            by_name.setdefault(stimulus.images[0].corruption, []).append(stimulus)
    return [
        StimulusTable(
            name,
            tuple(stimulus.images[0].digest for stimulus in group),
            np.array([stimulus.images[0].change for stimulus in group]),
            np.array([stimulus.capacity or 0 for stimulus in group], dtype=np.float64),
            np.array(
                [clean.get(stimulus.images[0].digest, 0) for stimulus in group], dtype=np.float64
            ),
        )
        for name, group in sorted(by_name.items())
    ]


def success_rates(
    delta_v: FloatArray, curve: Psychometric, agreement: float, random: np.random.Generator
) -> FloatArray:
    """Return each stimulus's probability of a correct response.

    Stimuli with the same Δv differ: their probabilities have a beta distribution around the curve,
    such that the responses of two participants to the same stimulus have the correlation
    `agreement`.
    """
    mean = np.array([curve(value, CHOICES) for value in delta_v])
    if not agreement:
        return mean
    # Beta-binomial: the correlation within a stimulus is 1 / (a + b + 1), solved here for a + b.
    strength = 1 / agreement - 1
    # The beta distribution is not defined for a mean of exactly 0 or 1.
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    rates: FloatArray = random.beta(mean * strength, (1 - mean) * strength)
    return rates


def simulate_responses(
    table: StimulusTable, curve: Psychometric, random: np.random.Generator
) -> HumanResponses:
    """Return one simulated study's responses to corrupted and clean images."""
    rows, hits = _hits(table.delta_v, table.n_wanted, curve, random)
    # A clean image's difficulty is drawn independently of its corrupted version's.
    clean_rows, clean_hits = _hits(np.zeros(len(table.image)), table.n_clean, curve, random)
    n_corrupted, n_clean = len(rows), len(clean_rows)
    return make_responses(
        n_corrupted + n_clean,
        source="simulation",
        choices=CHOICES,
        label_space="entry16",
        citation="",
        corruption=[table.corruption] * n_corrupted + [CLEAN] * n_clean,
        subject=[""] * (n_corrupted + n_clean),
        image=np.array(table.image)[np.concatenate([rows, clean_rows])].tolist(),
        label=["cat"] * (n_corrupted + n_clean),
        response=np.where(np.concatenate([hits, clean_hits]), "cat", "dog").tolist(),
        delta_v=[*table.delta_v[rows].tolist(), *([0.0] * n_clean)],
    )


def _hits(
    delta_v: FloatArray,
    counts: FloatArray,
    curve: Psychometric,
    random: np.random.Generator,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the stimulus of each response, and whether the response is correct."""
    rates = success_rates(delta_v, curve, AGREEMENT, random)
    rows = np.repeat(np.arange(len(delta_v)), counts.astype(np.int64))
    # All responses to a stimulus share its rate, which is what makes them correlate.
    return rows, random.random(len(rows)) < rates[rows]


def expected_precision(
    table: StimulusTable, seed: int
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the precision to expect for one corruption; None if there is too little data.

    Simulated responses to the planned stimuli are analyzed as those of a real study are: a curve
    with a bootstrap over images, by the estimator that `eyechart evaluate` uses. The model sees
    each stimulus once.

    Args:
        table: The planned stimuli.
        seed: Random seed.

    Returns:
        The area under the assumed human curve (R_a^h) and the HMRI of the assumed model, which is
        `BEHIND` humans; each with half the width of its 95 % interval.
    """
    if len(table.image) < MIN_IMAGES:
        return None
    human = Psychometric()
    model = replace(human, middle=human.middle - BEHIND)
    areas, hmris = [], []
    for number in range(STUDIES):
        # One stream per study: adding studies does not change the earlier ones.
        random = np.random.default_rng((seed, number, 26))
        try:
            human_curve = human_curve_of(table, human, random)
            model_curve = _model_curve(table, model, random)
            hmri, _ = compared_replicates(human_curve, model_curve)
        except UsageError:
            return None
        areas.append((human_curve.area, np.ptp(percentile_interval(human_curve.areas, CONFIDENCE))))
        # A replicate in which HMRI is not defined is NaN.
        hmris.append((np.nanmean(hmri), np.ptp(percentile_interval(hmri, CONFIDENCE))))
    (area, area_width), (hmri_mean, hmri_width) = (
        np.mean(pairs, axis=0).tolist() for pairs in (areas, hmris)
    )
    return (area, area_width / 2), (hmri_mean, hmri_width / 2)


def human_curve_of(
    table: StimulusTable,
    curve: Psychometric,
    random: np.random.Generator,
    n_bootstrap: int = N_BOOTSTRAP,
) -> Curve:
    """Return the human curve of one simulated study, with bootstrap replicates over images."""
    responses = simulate_responses(table, curve, random)
    fitted = Reference("simulated", responses).curve(table.corruption, n_bootstrap=n_bootstrap)
    if fitted is None:
        raise UsageError(f"{table.corruption} has no stimuli.")
    return fitted


def _model_curve(table: StimulusTable, curve: Psychometric, random: np.random.Generator) -> Curve:
    """Return the curve of a model that predicts each stimulus once."""
    # A model gives one prediction per image, so that images that differ in difficulty need no term.
    rates = success_rates(table.delta_v, curve, 0.0, random)
    clean = success_rates(np.zeros(len(rates)), curve, 0.0, random)
    hits, clean_hits = (random.random(len(rates)) < chances for chances in (rates, clean))
    return fit_curve(
        table.delta_v,
        hits.astype(np.float64),
        anchor=clean_hits.astype(np.float64),
        clusters=np.array(table.image),
        n_bootstrap=N_BOOTSTRAP,
    )


def pair_power(
    n_responses: int, n_participants: int, n_pairs: int, seed: int = 0
) -> tuple[float | None, float]:
    """Return what a same/different study can detect, from simulated participants.

    Each participant is simulated with the same accuracy, and responses are spread evenly over
    participants. The test is the one over participants, corrected for `n_pairs` pairs as if all of
    them had the same p-value.

    Args:
        n_responses: Responses per pair.
        n_participants: Participants who respond to a pair.
        n_pairs: Number of pairs.
        seed: Random seed.

    Returns:
        The lowest accuracy at which a pair is told apart with a probability of at least 80 %, after
        the correction over all pairs, or None if there is none; and the probability that the
        interval shows that two corruptions are not told apart, if participants can only guess.

    Example:
        >>> detectable, alike = pair_power(n_responses=200, n_participants=20, n_pairs=3)
        >>> detectable
        0.63
    """
    # At least one response for each participant, which reduceat in `_correct` relies on.
    n_used = min(n_participants, n_responses)
    counts = np.full(n_used, n_responses // max(n_used, 1))
    counts[: n_responses - int(counts.sum())] += 1
    if n_used < MIN_OBSERVERS or n_responses < MIN_RESPONSES:
        return None, 0.0

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
    return detectable, float(np.mean(np.array(limits) < ALIKE))


def _correct(counts: NDArray[np.int64], accuracy: float, seed: int) -> NDArray[np.int64]:
    """Return simulated numbers of correct responses, one row per simulated study."""
    # 27 sets this stream apart from those of the other simulations with the same seed.
    random = np.random.default_rng((seed, 27))
    # Uniform numbers and not binomial ones, so that a higher accuracy never gives fewer hits.
    draws = random.random((SIMULATIONS, int(counts.sum()))) < accuracy
    starts = np.cumsum(counts) - counts
    return np.add.reduceat(draws, starts, axis=1, dtype=np.int64)
