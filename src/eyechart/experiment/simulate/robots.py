"""Robot participants: people with a known psychometric curve, and those who only want the money."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eyechart.experiment.simulate.psychometric import Psychometric

Kind = Literal["attentive", "guesser", "one-button", "hasty"]
SPAMMERS: tuple[Kind, ...] = ("guesser", "one-button", "hasty")

HESITATION_MS = (450.0, 0.35)
"""Median reaction time of an attentive robot after the grid is there, and its spread (log)."""


@dataclass(frozen=True)
class RobotQuestion:
    """What a robot is asked: the right answer, how much was changed, and the trial's role."""

    truth: str
    delta_v: float
    role: str


@dataclass(frozen=True)
class Reaction:
    """What a robot does: "" for no answer, and how long after it could."""

    choice: str
    rt_ms: float


class Robot:
    """One robot. Answers at random in its own way, always the same for the same seed."""

    def __init__(self, kind: Kind, seeds: Sequence[int], curve: Psychometric) -> None:
        self.kind, self.curve = kind, curve
        self._random = np.random.default_rng(seeds)
        self._favourite: str | None = None

    def react(self, question: RobotQuestion, choices: Sequence[str], response_ms: int) -> Reaction:
        """Return the answer to a stimulus, in the time that is given (0: any)."""
        truth = question.truth
        if self.kind == "attentive":
            right = self._random.random() < self._chance(question, len(choices))
            wrong = [name for name in choices if name != truth]
            choice = truth if right else str(self._random.choice(wrong))
        elif self.kind == "one-button":
            self._favourite = self._favourite or str(self._random.choice(list(choices)))
            choice = self._favourite
        else:
            choice = str(self._random.choice(list(choices)))
        rt_ms = self._hesitate()
        if response_ms and rt_ms > response_ms:
            # who is attentive makes haste; whether the answer is right must not depend on it
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
    """Return what each participant is: so many spammers of all kinds, at random places."""
    kinds: list[Kind] = ["attentive"] * (participants - spammers)
    kinds += [SPAMMERS[number % len(SPAMMERS)] for number in range(spammers)]
    order = np.random.default_rng((seed, 9)).permutation(participants)
    return [kinds[index] for index in order]
