"""Simulated participants: attentive robots with a known psychometric curve, and others.

Spammers do not look at the images. A clicker does so only in the main part, after passing the
qualification. A dropper reloads the page instead of giving half of its incorrect responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eyechart.experiment.simulate.psychometric import Psychometric
from eyechart.experiment.storage.session_records import MAIN

Kind = Literal["attentive", "guesser", "one-button", "hasty", "dropper", "clicker"]
SPAMMERS: tuple[Kind, ...] = ("guesser", "one-button", "hasty")

DROPPED_SHARE = 0.5
"""Share of the trials with an incorrect response that a dropper drops."""

HESITATION_MS = (450.0, 0.35)
"""Median reaction time of attentive robots after the grid appears, and its log-normal spread."""


@dataclass(frozen=True)
class RobotQuestion:
    """What a robot knows about a trial: the correct response, Δv, its role and its stimulus."""

    truth: str
    delta_v: float
    role: str
    stimulus: int = -1


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
        self._looks: dict[int, str] = {}

    def react(self, question: RobotQuestion, choices: Sequence[str], response_ms: int) -> Reaction:
        """Return the response to a stimulus within `response_ms` (0: no limit)."""
        if self.kind == "dropper":
            # A second look at the same stimulus tells it no more than the first.
            choice = self._looks.get(question.stimulus) or self._recognize(question, choices)
            self._looks[question.stimulus] = choice
        elif self.kind == "attentive" or (
            self.kind == "clicker" and question.role in ("practice", "qualification")
        ):
            choice = self._recognize(question, choices)
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

    def drops(self, question: RobotQuestion, reaction: Reaction) -> bool:
        """Return whether the robot reloads the page instead of giving this response."""
        if self.kind != "dropper" or question.role not in MAIN or reaction.choice == question.truth:
            return False
        return bool(self._random.random() < DROPPED_SHARE)

    def _recognize(self, question: RobotQuestion, choices: Sequence[str]) -> str:
        if self._random.random() < self._chance(question, len(choices)):
            return question.truth
        incorrect = [name for name in choices if name != question.truth]
        return str(self._random.choice(incorrect))

    def _chance(self, question: RobotQuestion, choices: int) -> float:
        if choices > 2:
            return self.curve(question.delta_v, choices)
        return self.curve.tell if question.role == "main" else 1 - self.curve.lapse

    def _hesitate(self) -> float:
        if self.kind == "hasty":
            return float(self._random.uniform(20, 120))
        median, spread = HESITATION_MS
        return float(median * np.exp(spread * self._random.standard_normal()))


def kinds_of(
    participants: int, spammers: int, seed: int, droppers: int = 0, clickers: int = 0
) -> list[Kind]:
    """Return the kind of each participant; those who are not attentive have random positions."""
    kinds: list[Kind] = ["attentive"] * (participants - spammers - droppers - clickers)
    kinds += [SPAMMERS[number % len(SPAMMERS)] for number in range(spammers)]
    kinds += ["dropper"] * droppers
    kinds += ["clicker"] * clickers
    order = np.random.default_rng((seed, 9)).permutation(participants)
    return [kinds[index] for index in order]
