"""Simulated responses to the planned stimuli of one corruption, in memory and without a server."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.core.arrays import FloatArray
from eyechart.humans.human_responses import CLEAN, HumanResponses, make_responses
from eyechart_experiment.design.stimulus_design import MAIN, PlannedStimulus
from eyechart_experiment.simulate.psychometric import Psychometric

CHOICES = 16
AGREEMENT = 0.46
"""Correlation between two participants' correctness on the same image at the same strength.

Some images are harder than others, so that k responses to one image say less than responses to k
images. Measured in the trials of Geirhos et al. (2018): 0.49 in 143 pairs of responses to low-pass
filtered images, and 0.42 in 60 pairs of responses to noisy images.
"""


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
    table: StimulusTable,
    curve: Psychometric,
    random: np.random.Generator,
    agreement: float = AGREEMENT,
) -> HumanResponses:
    """Return one simulated study's responses to corrupted and clean images."""
    corrupted = _hits(table.delta_v, table.n_wanted, curve, agreement, random)
    # A clean image's difficulty is drawn independently of its corrupted version's.
    clean = _hits(np.zeros(len(table.image)), table.n_clean, curve, agreement, random)
    rows = np.concatenate([corrupted[0], clean[0]])
    hits = np.concatenate([corrupted[1], clean[1]])
    n_corrupted = len(corrupted[0])
    delta_v = np.where(np.arange(len(rows)) < n_corrupted, table.delta_v[rows], 0.0)
    names = np.array(table.image)
    return make_responses(
        len(rows),
        source="simulation",
        choices=CHOICES,
        label_space="entry16",
        citation="",
        corruption=[table.corruption] * n_corrupted + [CLEAN] * (len(rows) - n_corrupted),
        subject=[""] * len(rows),
        image=names[rows].tolist(),
        label=["cat"] * len(rows),
        response=np.where(hits, "cat", "dog").tolist(),
        delta_v=delta_v.tolist(),
    )


def _hits(
    delta_v: FloatArray,
    counts: FloatArray,
    curve: Psychometric,
    agreement: float,
    random: np.random.Generator,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the stimulus of each response, and whether the response is correct."""
    rates = success_rates(delta_v, curve, agreement, random)
    rows = np.repeat(np.arange(len(delta_v)), counts.astype(np.int64))
    # All responses to a stimulus share its rate, which is what makes them correlate.
    return rows, random.random(len(rows)) < rates[rows]
