"""Simulate how a study's responses are collected, to plan how many participants it needs.

Stimuli go to participants as the server hands them out: the one with the fewest responses first,
and no image twice. Some participants are excluded and some leave, and their stimuli go to others.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from eyechart_experiment.study_config import StudyConfig

PLANNED_SHARE = 0.95
"""Share of the studies that shall end with all responses."""

PRESENT = 8
"""Number of participants who take part at the same time, and share what is left at the end."""

MAX_RUNS, MIN_RUNS, RESPONSES_SIMULATED = 100, 20, 400_000
"""Number of simulated studies; of large studies fewer are simulated."""

PATIENCE = 20
"""A simulated study ends after this many times as many participants as without any loss."""

Place = tuple[int, tuple[Hashable, ...]]
"""A stimulus of the main part: how many responses are wanted, and its source images."""


@dataclass(frozen=True)
class Losses:
    """Expected fractions of participants who are excluded, and who leave before the end.

    Half of the excluded ones do not pass the qualification; the others are excluded at the end.
    """

    excluded: float
    leaving: float


@dataclass(frozen=True)
class Collection:
    """How the collection of a study's responses ends.

    Attributes:
        n_participants: Number of participants with which `PLANNED_SHARE` of the studies end.
        n_short: Mean number of participants who get less than half of the main trials.
        complete_share: Share of the studies in which all stimuli have their responses.
        n_incomplete: Mean number of stimuli that lack responses.
    """

    n_participants: int
    n_short: float
    complete_share: float
    n_incomplete: float

    @property
    def is_complete(self) -> bool:
        """Whether enough of the studies end with all responses."""
        return self.complete_share >= PLANNED_SHARE


def plan_collection(
    places: Sequence[Place], config: StudyConfig, losses: Losses, seed: int
) -> Collection:
    """Return how the collection ends if participants are admitted by the study's `min_main`."""
    wanted = sum(capacity for capacity, _ in places)
    n_runs = min(MAX_RUNS, max(MIN_RUNS, RESPONSES_SIMULATED // max(wanted, 1)))
    # 29: a stream of random numbers that no other simulation of a plan uses.
    runs = [
        _Run(places, config, losses, np.random.default_rng((seed, 29, number)))
        for number in range(n_runs)
    ]
    for run in runs:
        run.collect()
    n_incomplete = [run.n_incomplete for run in runs]
    # Above the planned share, because so few runs know their extremes only roughly.
    enough = np.quantile([run.n_joined for run in runs], (1 + PLANNED_SHARE) / 2, method="higher")
    return Collection(
        int(enough),
        float(np.mean([run.n_short for run in runs])),
        n_incomplete.count(0) / n_runs,
        float(np.mean(n_incomplete)),
    )


class _Run:
    """One simulated collection."""

    def __init__(
        self,
        places: Sequence[Place],
        config: StudyConfig,
        losses: Losses,
        random: np.random.Generator,
    ) -> None:
        # In random order, which decides between stimuli with equally many responses.
        order = random.permutation(len(places))
        self._images = [places[index][1] for index in order]
        numbers = {name: number for number, name in enumerate({own[0] for own in self._images})}
        self._first_image = np.array([numbers[own[0]] for own in self._images], dtype=np.int64)
        self._wanted = np.array([places[index][0] for index in order], dtype=np.int64)
        self._taken = np.zeros(len(places), dtype=np.int64)
        self._config, self._losses, self._random = config, losses, random
        self.n_joined, self.n_short = 0, 0

    @property
    def n_incomplete(self) -> int:
        """Number of stimuli that lack responses."""
        return int((self._taken < self._wanted).sum())

    def collect(self) -> None:
        """Admit participants until none is admitted any more."""
        n_most = PATIENCE * (int(self._wanted.sum()) // self._config.trials + 1)
        n_most += PATIENCE * int(self._wanted.max(initial=0))
        while self.n_joined < n_most and self._admits():
            # With a larger minimum, nobody is admitted for what those who are present will need.
            n_present = PRESENT if self._config.min_main == 1 else 1
            n_open = int((self._wanted - self._taken).sum())
            share = min(self._config.trials, -(-n_open // n_present))
            returned: list[int] = []
            for _ in range(n_present):
                if not self._admits():
                    break
                self.n_joined += 1
                returned += self._take_part(share)
            np.subtract.at(self._taken, np.array(returned, dtype=np.int64), 1)

    def _admits(self) -> bool:
        is_open = self._taken < self._wanted
        n_open = int((self._wanted - self._taken).sum())
        if self._config.min_main == 1 or n_open < self._config.min_main:
            return n_open >= self._config.min_main
        n_images = np.count_nonzero(np.bincount(self._first_image[is_open]))
        return bool(n_images >= self._config.min_main)

    def _take_part(self, share: int) -> list[int]:
        """Let a participant respond; return the stimuli that go to others after the session."""
        fate = self._random.random()
        if fate < self._losses.excluded / 2:
            return []
        left_at = self._random.random() if fate > 1 - self._losses.leaving else 1.0
        stimuli = self._choose(min(share, round(left_at * self._config.trials)))
        self._taken[stimuli] += 1
        self.n_short += left_at == 1 and len(stimuli) < self._config.trials / 2
        has_left_early = len(stimuli) < self._config.trials / 2 and left_at < 1
        return stimuli if fate < self._losses.excluded or has_left_early else []

    def _choose(self, most: int) -> list[int]:
        open_ones = np.flatnonzero(self._taken < self._wanted)
        seen: set[Hashable] = set()
        chosen: list[int] = []
        for index in open_ones[np.argsort(self._taken[open_ones], kind="stable")].tolist():
            if len(chosen) >= most:
                break
            if seen.isdisjoint(self._images[index]):
                seen.update(self._images[index])
                chosen.append(index)
        return chosen
