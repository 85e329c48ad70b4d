"""Simulated participants: attentive robots with a known psychometric curve, and others.

Spammers do not look at the images. A clicker does so only in the main part, after passing the
qualification. A leaver closes the page at a random trial of the main part. A dropper reloads the
page instead of giving half of its incorrect responses. Quitters respond at random in the last 25 %
or 40 % of the main part. The other cheaters recognize every image with a changed page: a gazer
looks at it for 20 s, and claims a refresh rate of which this is about one frame; an unstamped robot
sends no time stamps; a racer responds within 0.3 s, and sends the stamps of a whole trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eyechart_experiment.design.psychometric import Psychometric
from eyechart_experiment.storage.session_records import MAIN
from eyechart_experiment.study_config import StudyConfig

Kind = Literal[
    "attentive", "guesser", "one-button", "hasty", "dropper", "clicker", "leaver", "quitter-25",
    "quitter-40", "gazer", "unstamped", "racer",
]  # fmt: skip
SPAMMERS: tuple[Kind, ...] = ("guesser", "one-button", "hasty")
FORGERS: tuple[Kind, ...] = ("gazer", "unstamped", "racer")
CHEATERS: tuple[Kind, ...] = ("quitter-25", "quitter-40", *FORGERS)

CARELESS_FROM: dict[Kind, float] = {"clicker": 0.0, "quitter-25": 0.75, "quitter-40": 0.6}
"""The share of the main part from which a robot responds at random."""

DROPPED_SHARE = 0.5
"""Share of the trials with an incorrect response that a dropper drops."""

USUAL_HZ = 60.0
FRAME_MS = 1000 / USUAL_HZ

GAZE_MS, GAZE_HZ = 20_000.0, 0.05
"""How long a gazer looks at an image, and the refresh rate that it claims."""

RACE_MS = 300.0
"""How long a racer takes for a whole trial."""

HESITATION_MS = (450.0, 0.35)
"""Median reaction time of attentive robots after the grid appears, and its log-normal spread."""


@dataclass(frozen=True)
class RobotQuestion:
    """What a robot knows about a trial: the correct response, Δv, its role and its stimulus.

    `progress`: the share of the main part that is done.
    """

    truth: str
    delta_v: float
    role: str
    stimulus: int = -1
    progress: float = 0.0


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
        # Drawn for leavers only: other kinds keep the random numbers that they always had.
        self._leaves_at = self._random.random() if kind == "leaver" else 1.0

    def react(self, question: RobotQuestion, choices: Sequence[str], response_ms: int) -> Reaction:
        """Return the response to a stimulus within `response_ms` (0: no limit)."""
        if self.kind == "dropper":
            # A second look at the same stimulus tells it no more than the first.
            choice = self._looks.get(question.stimulus) or self._recognize(question, choices)
            self._looks[question.stimulus] = choice
        elif self.kind in FORGERS:
            choice = question.truth
        elif self.kind in ("attentive", "leaver") or (
            self.kind in CARELESS_FROM
            and (question.role not in MAIN or question.progress < CARELESS_FROM[self.kind])
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

    def leaves(self, question: RobotQuestion) -> bool:
        """Return whether the robot closes the page instead of responding."""
        return question.role in MAIN and question.progress >= self._leaves_at

    def stamps(self, reaction: Reaction, config: StudyConfig) -> dict[str, float]:
        """Return the time stamps that the robot sends with a response."""
        if self.kind == "unstamped":
            return {}
        if self.kind == "gazer":
            return trial_stamps(reaction, config, GAZE_MS, GAZE_HZ)
        return trial_stamps(reaction, config)

    def trial_ms(self, reaction: Reaction, config: StudyConfig) -> float:
        """Return how long a trial takes on the server's clock."""
        if self.kind == "racer":
            return RACE_MS
        exposure_ms = GAZE_MS if self.kind == "gazer" else None
        return trial_stamps(reaction, config, exposure_ms)["end"] + 100

    def drops(self, question: RobotQuestion, reaction: Reaction) -> bool:
        """Return whether the robot reloads the page instead of giving this response."""
        if self.kind != "dropper" or question.role not in MAIN or reaction.choice == question.truth:
            return False
        return bool(self._random.random() < DROPPED_SHARE)

    def _recognize(self, question: RobotQuestion, choices: Sequence[str]) -> str:
        if len(choices) > 2:
            chance = self.curve(question.delta_v, len(choices))
        else:
            chance = self.curve.tell if question.role == "main" else 1 - self.curve.lapse
        if self._random.random() < chance:
            return question.truth
        incorrect = [name for name in choices if name != question.truth]
        return str(self._random.choice(incorrect))

    def _hesitate(self) -> float:
        if self.kind == "hasty":
            return float(self._random.uniform(20, 120))
        median, spread = HESITATION_MS
        return float(median * np.exp(spread * self._random.standard_normal()))


def trial_stamps(
    reaction: Reaction, config: StudyConfig, exposure_ms: float | None = None, hz: float = USUAL_HZ
) -> dict[str, float]:
    """Return the time stamps of a trial as a page sends them, for the planned exposure or another.

    Phases last the nearest whole number of frames of a screen with the usual refresh rate.
    """
    is_pair, planned = config.kind == "same-different", {"fixation": float(config.fixation_ms)}
    window_ms = config.response_ms or reaction.rt_ms
    if not is_pair:
        planned["stimulus"] = float(config.stimulus_ms)
        planned |= {"blank": FRAME_MS, "mask": float(config.mask_ms), "response": window_ms}
    else:
        # Buttons are visible with the images, and the reaction time is counted from their onset.
        shown_ms = min(config.show_ms or reaction.rt_ms, reaction.rt_ms)
        planned |= {"stimulus": shown_ms, "response": reaction.rt_ms - shown_ms}
    if exposure_ms is not None:
        planned["stimulus"] = exposure_ms
    stamps, at = {}, 0.0
    for phase, planned_ms in planned.items():
        if planned_ms > 0:
            stamps[phase] = round(at, 1)
            at += FRAME_MS * max(1, round(planned_ms / FRAME_MS))
    return {**stamps, "end": round(at, 1), "hz": hz}


def kinds_of(
    participants: int,
    spammers: int,
    seed: int,
    droppers: int = 0,
    clickers: int = 0,
    cheaters: int = 0,
    leavers: int = 0,
) -> list[Kind]:
    """Return the kind of each participant; those who are not attentive have random positions."""
    n_attentive = participants - spammers - droppers - clickers - cheaters - leavers
    groups: list[tuple[tuple[Kind, ...], int]] = [
        (("attentive",), n_attentive),
        (SPAMMERS, spammers),
        (("dropper",), droppers),
        (("clicker",), clickers),
        (("leaver",), leavers),
        (CHEATERS, cheaters),
    ]
    kinds = [group[number % len(group)] for group, n in groups for number in range(n)]
    order = np.random.default_rng((seed, 9)).permutation(participants)
    return [kinds[index] for index in order]
