"""Simulated participants: attentive robots with a known psychometric curve, and spammers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eyechart.experiment.simulate.psychometric import Psychometric

Kind = Literal["attentive", "guesser", "one-button", "hasty"]
SPAMMERS: tuple[Kind, ...] = ("guesser", "one-button", "hasty")

HESITATION_MS = (450.0, 0.35)
"""Median reaction time of attentive robots after the grid appears, and its log-normal spread."""


@dataclass(frozen=True)
class RobotQuestion:
    """What a robot knows about a trial: the correct response, Δv and the trial's role."""

    truth: str
    delta_v: float
    role: str


@dataclass(frozen=True)
class Reaction:
    """A robot's response ("" for none) and its reaction time."""

    choice: str
    rt_ms: float


class Robot:
    """One robot; its responses are random, but the same seeds give the same responses."""

    def __init__(self, kind: Kind, seeds: Sequence[int], curve: Psychometric) -> None:
        self.kind, self.curve = kind, curve
        self._random = np.random.default_rng(seeds)
        self._favourite: str | None = None

    def react(self, question: RobotQuestion, choices: Sequence[str], response_ms: int) -> Reaction:
        """Return the response to a stimulus within `response_ms` (0: no limit)."""
        truth = question.truth
        if self.kind == "attentive":
            is_correct = self._random.random() < self._chance(question, len(choices))
            incorrect = [name for name in choices if name != truth]
            choice = truth if is_correct else str(self._random.choice(incorrect))
        elif self.kind == "one-button":
            self._favourite = self._favourite or str(self._random.choice(list(choices)))
            choice = self._favourite
        else:
            choice = str(self._random.choice(list(choices)))
        rt_ms = self._hesitate()
        if response_ms and rt_ms > response_ms:
            # Shorten slow reactions instead of dropping them: accuracy must not depend on speed.
            rt_ms = response_ms * 0.9
        return Reaction(choice, rt_ms)

    def _chance(self, question: RobotQuestion, choices: int) -> float:
        if choices > 2:
            return self.curve(question.delta_v, choices)
        return self.curve.tell if question.role == "main" else 1 - self.curve.lapse

    def _hesitate(self) -> float:
        if self.kind == "hasty":
            return float(self._random.uniform(20, 120))
        median, spread = HESITATION_MS
        return float(median * np.exp(spread * self._random.standard_normal()))


def kinds_of(participants: int, spammers: int, seed: int) -> list[Kind]:
    """Return each participant's kind; `spammers` is the number of spammers, placed at random."""
    kinds: list[Kind] = ["attentive"] * (participants - spammers)
    kinds += [SPAMMERS[number % len(SPAMMERS)] for number in range(spammers)]
    order = np.random.default_rng((seed, 9)).permutation(participants)
    return [kinds[index] for index in order]
