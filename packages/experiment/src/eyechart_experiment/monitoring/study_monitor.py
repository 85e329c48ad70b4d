"""Read how a running study is doing, with few and quick queries: participants wait meanwhile."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import get_args

from sqlalchemy import func, select
from sqlalchemy.orm import Session as Db

from eyechart_experiment.payments.payment_list import (
    Payment,
    PayRates,
    SessionOutcome,
    read_payments,
)
from eyechart_experiment.storage.database_tables import (
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy

HOURS = 24
NEWEST = 2000
"""Number of the newest main responses from which the timing is judged."""


@dataclass(frozen=True)
class StimulusProgress:
    """Main stimuli of one corruption or pair; `taken` counts responses and live trials."""

    name: str
    stimuli: int
    full: int
    taken: int
    wanted: int


@dataclass(frozen=True)
class TimingQuality:
    """Timing of the newest main responses, and refresh rates of the participants' screens.

    `flagged` is the fraction of responses with a timing flag; None without responses.
    """

    n_responses: int
    flagged: float | None
    refresh_hz: Mapping[int, int]


@dataclass(frozen=True)
class StudyMonitor:
    """How a study is doing.

    Attributes:
        outcomes: Number of sessions by outcome.
        excluded: Number of sessions that violate each quality rule.
        groups: Progress for each corruption or pair.
        filled: Number of main stimuli by how many responses they have.
        hourly: Number of responses in each of the last `HOURS` hours, the newest last.
        minutes: Median duration of finished sessions, in minutes.
        hours_left: Estimated time until all responses are there, at the pace of the last hour.
        cost: Pay of all sessions that ended, including the platform's fee.
    """

    name: str
    title: str
    is_open: bool
    now: datetime
    outcomes: Mapping[str, int]
    excluded: Mapping[str, int]
    groups: tuple[StimulusProgress, ...]
    filled: Mapping[int, int]
    hourly: tuple[int, ...]
    minutes: float | None
    hours_left: float | None
    cost: Decimal
    currency: str
    fee_text: str
    timing: TimingQuality

    @property
    def taken(self) -> int:
        """Number of main responses that are there or on their way."""
        return sum(group.taken for group in self.groups)

    @property
    def wanted(self) -> int:
        """Number of main responses wanted."""
        return sum(group.wanted for group in self.groups)


def read_monitor(
    study: OpenStudy, rates: PayRates, now: datetime, fee: float = 0.0, fee_text: str = ""
) -> StudyMonitor:
    """Return how a study is doing; nothing is written.

    Args:
        study: The study.
        rates: What sessions earn.
        now: The current time.
        fee: The platform's fee, as a fraction of the pay.
        fee_text: The fee in words, with its source.
    """
    payments = read_payments(study, rates, now)
    with study.database.reading() as db:
        status = db.scalar(select(StudyRow.status).where(StudyRow.id == study.id))
        groups, filled = _progress(db, study.id)
        hourly = _hourly(db, study.id, now)
        timing = _timing(db, study.id)
    left = sum(group.wanted - group.taken for group in groups)
    total = sum((payment.amount for payment in payments), Decimal(0))
    finished = [payment.minutes for payment in payments if payment.outcome == "finished"]
    return StudyMonitor(
        name=study.config.name,
        title=study.config.title,
        is_open=status == "open",
        now=now,
        outcomes=_outcomes(payments),
        excluded=dict(Counter(rule for row in payments for rule in row.excluded_by).most_common()),
        groups=groups,
        filled=filled,
        hourly=hourly,
        minutes=median(finished) if finished else None,
        # The last hour and not the mean of all: the pace changes when a listing opens or pauses.
        hours_left=left / hourly[-1] if hourly[-1] else None,
        # By way of text: 0.333 as a float has a long tail of binary digits.
        cost=total * (1 + Decimal(str(fee))),
        currency=rates.currency,
        fee_text=fee_text,
        timing=timing,
    )


def _outcomes(payments: Sequence[Payment]) -> dict[str, int]:
    counts = Counter(payment.outcome for payment in payments)
    return {name: counts[name] for name in get_args(SessionOutcome)}


def _progress(db: Db, study_id: int) -> tuple[tuple[StimulusProgress, ...], dict[int, int]]:
    query = (
        select(
            StimulusRow.pair, StimulusImageRow.corruption, StimulusRow.taken, StimulusRow.capacity
        )
        .join(StimulusImageRow, StimulusImageRow.stimulus_id == StimulusRow.id)
        .where(
            StimulusRow.study_id == study_id,
            StimulusRow.role == "main",
            # The first image stands for a pair, which would otherwise count twice.
            StimulusImageRow.place == 0,
        )
    )
    counts: dict[str, list[tuple[int, int]]] = {}
    for pair, corruption, taken, capacity in db.execute(query):
        counts.setdefault(pair or corruption, []).append((taken, capacity or 0))
    groups = tuple(
        StimulusProgress(
            name,
            stimuli=len(rows),
            full=sum(taken >= wanted for taken, wanted in rows),
            # A stimulus with too many responses must not make up for one that lacks some.
            taken=sum(min(taken, wanted) for taken, wanted in rows),
            wanted=sum(wanted for _, wanted in rows),
        )
        for name, rows in sorted(counts.items())
    )
    filled = Counter(taken for rows in counts.values() for taken, _ in rows)
    return groups, dict(sorted(filled.items()))


def _hourly(db: Db, study_id: int, now: datetime) -> tuple[int, ...]:
    """Return the number of main responses per hour, the newest hour last."""
    moments = db.scalars(
        select(ResponseRow.received_at)
        .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
        .join(SessionRow, SessionRow.id == TrialRow.session_id)
        .where(
            SessionRow.study_id == study_id,
            TrialRow.role == "main",
            ResponseRow.received_at > now - timedelta(hours=HOURS),
        )
    )
    # A response that arrived after `now` has the age -1, which no hour below asks for.
    ages = Counter(int((now - moment).total_seconds() // 3600) for moment in moments)
    return tuple(ages[hour] for hour in reversed(range(HOURS)))


def _timing(db: Db, study_id: int) -> TimingQuality:
    newest = db.scalars(
        select(ResponseRow.flags)
        .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
        .join(SessionRow, SessionRow.id == TrialRow.session_id)
        .where(SessionRow.study_id == study_id, TrialRow.role == "main")
        # The primary key grows with time, and its index makes a sort unnecessary.
        .order_by(ResponseRow.trial_id.desc())
        .limit(NEWEST)
    ).all()
    rates = db.execute(
        # Measured rates scatter: 59.9 and 60.1 Hz are the same kind of screen.
        select(func.round(SessionRow.hz), func.count())
        .where(SessionRow.study_id == study_id, SessionRow.hz.is_not(None))
        .group_by(func.round(SessionRow.hz))
    ).all()
    return TimingQuality(
        len(newest),
        sum("timing" in flags for flags in newest) / len(newest) if newest else None,
        {int(hz): n for hz, n in sorted(rates)},
    )
