"""Estimate how many participants a study needs, how long sessions take, and the total cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from eyechart.core.errors import UsageError
from eyechart.core.options import Option
from eyechart.core.registry import one_of, unknown_name
from eyechart_experiment.recruiters import DEFAULT_FEE, PLATFORM_FEES
from eyechart_experiment.study_config import StudyConfig

GROUP = "Budget"
READING_S = 90.0
"""Seconds for consent, instructions and the last page."""

BREAK_S = 20.0
FEEDBACK_S = 1.0
"""Seconds of feedback after each practice trial."""

RESPONSE_S = {"categorise": 1.5, "same-different": 3.0}
"""Typical response time in seconds in trials without a time limit, for each kind of study."""


@dataclass(frozen=True)
class Prices:
    """Prices from which a study's cost is computed: hourly pay, platform fee and currency.

    `excluded` is the expected fraction of participants whose responses will not count, and
    `leaving` that of participants who leave before the end.
    """

    pay: Annotated[float, Option(help="Hourly pay, used to estimate the cost.", group=GROUP)] = 12.0
    fee: Annotated[
        float | None,
        Option(
            help="The recruitment platform's fee, as a fraction of the pay; overrides --fee-of.",
            group=GROUP,
            is_advanced=True,
        ),
    ] = None
    fee_of: Annotated[
        str,
        Option(
            help=f"Platform whose published fee is used: {one_of(tuple(PLATFORM_FEES))}.",
            group=GROUP,
            metavar="PLATFORM",
            is_advanced=True,
        ),
    ] = DEFAULT_FEE
    currency: Annotated[str, Option(help="Currency of the pay.", group=GROUP, is_advanced=True)] = (
        "USD"
    )
    excluded: Annotated[
        float,
        Option(
            help="Expected fraction of participants who will be excluded.",
            group=GROUP,
            is_advanced=True,
            flags=("--expect-excluded",),
        ),
    ] = 0.2
    leaving: Annotated[
        float,
        Option(
            help="Expected fraction of participants who leave before the end.",
            group=GROUP,
            is_advanced=True,
            flags=("--expect-leaving",),
        ),
    ] = 0.05

    @property
    def fee_fraction(self) -> float:
        """The platform's fee as a fraction of the pay."""
        return PLATFORM_FEES[self.fee_of].fraction if self.fee is None else self.fee

    @property
    def fee_text(self) -> str:
        """The platform's fee, with its source and date unless it was given as a number."""
        text = f"{self.fee_fraction:.1%}"
        if self.fee is not None:
            return text
        fee = PLATFORM_FEES[self.fee_of]
        return f"{text} ({fee.name}: {fee.applies_to}; {fee.source}, {fee.read_on})"

    def check(self) -> None:
        """Raise `UsageError` if an amount or a fraction is out of range."""
        if not 0 <= self.pay < math.inf:
            raise UsageError(f"pay must be an hourly amount of at least 0, got {self.pay}.")
        if self.fee is not None and not 0 <= self.fee < math.inf:
            raise UsageError(f"fee must be a fraction of the pay, such as 0.2, got {self.fee}.")
        if self.fee_of not in PLATFORM_FEES:
            raise unknown_name("platform fee", self.fee_of, PLATFORM_FEES)
        if not 0 <= self.excluded < 1:
            raise UsageError(
                f"expect-excluded must be a fraction of the participants, in [0, 1), got"
                f" {self.excluded}."
            )
        if not 0 <= self.leaving <= 1 - self.excluded:
            raise UsageError(
                "expect-leaving must be a fraction of the participants who are not excluded, in"
                f" [0, {1 - self.excluded:g}], got {self.leaving}."
            )


@dataclass(frozen=True)
class Budget:
    """Estimated number of participants, duration and cost of a study.

    Attributes:
        responses: Total number of responses wanted.
        by_trials: Number of participants needed if each completes all main trials.
        by_source: Largest number of responses wanted for any one source image. Each response must
            come from a different participant, so this is a lower bound on the number of
            participants.
        participants: Number of participants to recruit, including those who will be excluded.
        seconds: Duration of one session, in seconds.
        minutes: Paid minutes per participant.
        hours: Total time that participants spend on main trials, in hours.
        cost: Total cost, including the recruitment platform's fee.
    """

    responses: int
    by_trials: int
    by_source: int
    participants: int
    seconds: float
    minutes: int
    hours: float
    cost: float

    @property
    def counting(self) -> int:
        """Number of participants needed, not counting those who will be excluded."""
        return max(self.by_trials, self.by_source)


def trial_seconds(config: StudyConfig) -> float:
    """Return the duration of one trial in seconds."""
    # 0 means no time limit: then a typical time is assumed.
    response = config.response_ms / 1000 or RESPONSE_S[config.kind]
    if config.kind == "same-different":
        return (config.fixation_ms + config.show_ms) / 1000 + response
    return (config.fixation_ms + config.stimulus_ms + config.mask_ms) / 1000 + response


def participant_seconds(config: StudyConfig) -> float:
    """Return the duration of one session, from the first page to the last, in seconds."""
    main = config.trials + config.catch
    trials = config.practice + config.qualification + main
    # No break after the last block.
    breaks = -(-main // config.block) - 1
    return (
        READING_S + trials * trial_seconds(config) + config.practice * FEEDBACK_S + breaks * BREAK_S
    )


def failed_share(config: StudyConfig) -> float:
    """Return the share of a session's duration that participants need who fail the qualification.

    Example:
        >>> round(failed_share(StudyConfig(name="naming", title="Naming")), 2)
        0.41
    """
    trials = config.practice + config.qualification
    seconds = READING_S + trials * trial_seconds(config) + config.practice * FEEDBACK_S
    return seconds / participant_seconds(config)


def plan_budget(
    config: StudyConfig,
    responses: int,
    loads: Mapping[str, int],
    prices: Prices,
    minutes: int | None = None,
    participants: int | None = None,
) -> Budget:
    """Return the budget of a study.

    Args:
        config: Settings of the study.
        responses: Total number of responses wanted.
        loads: Number of responses wanted per source image.
        prices: Pay, fee and expected fraction of excluded participants.
        minutes: Paid minutes per participant; None to pay for the estimated duration.
        participants: Number of participants to recruit; None to assume that everybody gets all
            main trials.
    """
    # Rounded up in integers, without floating-point error.
    by_trials = -(-responses // config.trials)
    by_source = max(loads.values(), default=0)
    seconds = participant_seconds(config)
    paid = math.ceil(seconds / 60) if minutes is None else minutes
    if participants is None:
        # 1e-9: floating-point error must not round an exact quotient up to one more participant.
        participants = math.ceil(max(by_trials, by_source) / (1 - prices.excluded) - 1e-9)
    return Budget(
        responses,
        by_trials,
        by_source,
        participants,
        seconds,
        paid,
        responses * trial_seconds(config) / 3600,
        participants * paid / 60 * prices.pay * (1 + prices.fee_fraction),
    )
