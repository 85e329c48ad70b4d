"""How many participants a study needs, how long each of them takes, and what that costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.experiment.study_config import StudyConfig

GROUP = "Budget"
READING_S = 90.0
"""For consent, instructions and the last page."""

BREAK_S = 20.0
FEEDBACK_S = 1.0
"""After each practice trial."""

ANSWER_S = {"categorise": 1.5, "same-different": 3.0}
"""Until somebody answers who has all the time in the world."""


@dataclass(frozen=True)
class Prices:
    """What a participant's hour costs, the recruiting site's fee as a share of that, and in what.

    `excluded`: the share of participants whose answers are expected not to count.
    """

    pay: Annotated[float, Option(help="For an hour, in the budget.", group=GROUP)] = 12.0
    fee: Annotated[
        float, Option(help="Of the recruiting site, a share of the pay.", group=GROUP)
    ] = 0.2
    currency: Annotated[str, Option(help="Of the pay.", group=GROUP)] = "USD"
    excluded: Annotated[
        float,
        Option(
            help="The share of participants who will not count.",
            group=GROUP,
            flags=("--expect-excluded",),
        ),
    ] = 0.2

    def check(self) -> None:
        """Refuse what cannot be paid."""
        if not 0 <= self.pay < math.inf:
            raise UsageError(f"pay must be an amount for an hour, 0 or more, got {self.pay}.")
        if not 0 <= self.fee < math.inf:
            raise UsageError(f"fee must be a share of the pay, such as 0.2, got {self.fee}.")
        if not 0 <= self.excluded < 1:
            raise UsageError(
                f"expect-excluded must be a share of the participants, from 0 to below 1, got"
                f" {self.excluded}."
            )


@dataclass(frozen=True)
class Budget:
    """What a study takes.

    `answers`: wanted in all. `by_trials`: participants who could give them if every one of them
    gave all of `trials`. `by_source`: the most answers that one photograph is to get, each from
    somebody else, so that at least so many participants are needed. `participants`: to be
    recruited, with those who will be excluded. `seconds` and `minutes`: of each. `hours`: of
    looking and answering in the main part alone.
    """

    answers: int
    by_trials: int
    by_source: int
    participants: int
    seconds: float
    minutes: int
    hours: float
    cost: float

    @property
    def counting(self) -> int:
        """How many participants are needed whose answers count."""
        return max(self.by_trials, self.by_source)


def trial_seconds(config: StudyConfig) -> float:
    """Return how long one trial takes, in s."""
    answer = config.response_ms / 1000 or ANSWER_S[config.kind]
    if config.kind == "same-different":
        return (config.fixation_ms + config.show_ms) / 1000 + answer
    return (config.fixation_ms + config.stimulus_ms + config.mask_ms) / 1000 + answer


def participant_seconds(config: StudyConfig) -> float:
    """Return how long one participant takes from the first page to the last, in s."""
    main = config.trials + config.catch
    trials = config.practice + config.qualification + main
    breaks = -(-main // config.block) - 1
    return (
        READING_S + trials * trial_seconds(config) + config.practice * FEEDBACK_S + breaks * BREAK_S
    )


def plan_budget(
    config: StudyConfig,
    answers: int,
    loads: Mapping[str, int],
    prices: Prices,
    minutes: int | None = None,
) -> Budget:
    """Return what a study takes.

    `answers`: wanted in all; `loads`: by photograph; `minutes`: paid to each participant, if not as
    many as they will take.
    """
    prices.check()
    by_trials = -(-answers // config.trials)
    by_source = max(loads.values(), default=0)
    seconds = participant_seconds(config)
    paid = math.ceil(seconds / 60) if minutes is None else minutes
    # what a share like 0.9 leaves over is not a person
    participants = math.ceil(max(by_trials, by_source) / (1 - prices.excluded) - 1e-9)
    return Budget(
        answers,
        by_trials,
        by_source,
        participants,
        seconds,
        paid,
        answers * trial_seconds(config) / 3600,
        participants * paid / 60 * prices.pay * (1 + prices.fee),
    )
