"""List what each session earns, from the server's own records, and verify completion codes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from typing import Literal, get_args

from sqlalchemy import and_, func, select

from eyechart.core.errors import UsageError
from eyechart_experiment.design.budget import failed_share
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.recruiters.recruiter import Outcome
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    RESPONDED,
    ROBOT,
    ExclusionRow,
    IdentityRow,
    ParticipantRow,
    SessionRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.safe_cells import safe
from eyechart_experiment.storage.session_records import MAIN, outcome_of
from eyechart_experiment.study_config import StudyConfig

HEAD = (
    "platform", "platform_id", "participant", "code", "outcome", "minutes", "amount", "currency",
    "excluded_by",
)  # fmt: skip
CENT = Decimal("0.01")
MAX_AMOUNT = 1000
"""Maximum pay of a session; more is a mistake, such as an amount in cents."""

SessionOutcome = Literal["finished", "failed", "screened-out", "active", "left"]
"""How a session ended; "active" sessions continue, "left" ones were given up."""


@dataclass(frozen=True)
class PayRates:
    """What sessions earn.

    Attributes:
        reward: For every session that reached an end.
        bonus: In addition, for a finished session.
        currency: Currency of all amounts.
        failed: Instead of the reward, for a session that failed the qualification; None for the
            reward.
    """

    reward: Decimal
    bonus: Decimal = Decimal(0)
    currency: str = "USD"
    failed: Decimal | None = None

    def __post_init__(self) -> None:
        amounts = {"reward": self.reward, "bonus": self.bonus, "failed": self.failed or Decimal(0)}
        for name, amount in amounts.items():
            # A NaN cannot be compared.
            if not amount.is_finite() or not 0 <= amount <= MAX_AMOUNT:
                raise UsageError(f"{name} must be in [0, {MAX_AMOUNT}], got {amount}.")

    def amount(self, outcome: SessionOutcome) -> Decimal:
        """Return the pay of a session with this outcome.

        Example:
            >>> rates = PayRates(Decimal("1.00"), Decimal("0.60"), failed=Decimal("0.40"))
            >>> [str(rates.amount(outcome)) for outcome in ("finished", "failed", "left")]
            ['1.60', '0.40', '0']
        """
        # No end was reached: neither active nor left sessions have a completion code.
        if outcome not in get_args(Outcome):
            return Decimal(0)
        if outcome == "failed" and self.failed is not None:
            return self.failed
        return self.reward + (self.bonus if outcome == "finished" else 0)


@dataclass(frozen=True)
class Payment:
    """A session and what it earns.

    Attributes:
        participant: The participant's pseudonym.
        ids: The participant's ids on the platform; empty once they were deleted.
        code: The completion code that the participant was shown; empty before the end.
        minutes: Time from joining to the end, or to the last request for a trial.
        excluded_by: Quality rules that the session violates. They do not change the amount.
    """

    platform: str
    participant: str
    ids: Mapping[str, str] = field(repr=False)
    code: str
    outcome: SessionOutcome
    minutes: float
    amount: Decimal
    currency: str
    excluded_by: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        """Return the payment's row in the table, in the order of `HEAD`."""
        # The participant's id on the platform; empty if there is none or it was deleted.
        person = "" if self.platform == ROBOT else RECRUITERS[self.platform].person
        # Platform ids come from a participant's browser: they must not become formulas.
        return (
            self.platform, safe(self.ids.get(person, "")), self.participant, self.code,
            self.outcome, f"{self.minutes:.1f}", f"{self.amount:.2f}", safe(self.currency),
            " ".join(self.excluded_by),
        )  # fmt: skip


def usual_rates(config: StudyConfig, hourly: float, currency: str = "USD") -> PayRates:
    """Return the rates at an hourly pay for the duration that participants are told.

    Those who fail are paid for the time until then.
    """
    # Rounded up: never below the hourly pay. By way of text, since the binary digits of a float
    # such as 12.1 could add a cent.
    reward = (Decimal(str(hourly)) * config.minutes / 60).quantize(CENT, ROUND_UP)
    failed = (reward * Decimal(str(failed_share(config)))).quantize(CENT, ROUND_UP)
    # Rounding up may leave nothing of a small difference.
    return PayRates(reward, currency=currency, failed=failed if failed < reward else None)


def read_payments(study: OpenStudy, rates: PayRates, now: datetime) -> list[Payment]:
    """Return what each session of a study earns, in order of their start."""
    config = study.config
    with study.database.reading() as db:
        is_main = and_(TrialRow.state == RESPONDED, TrialRow.role.in_(MAIN))
        counts = select(
            TrialRow.session_id,
            func.count().filter(is_main).label("n_main"),
            func.max(TrialRow.served_at).label("last"),
        ).group_by(TrialRow.session_id)
        trials = {row.session_id: row for row in db.execute(counts)}
        excluded: dict[int, tuple[str, ...]] = {}
        for session_id, rule in db.execute(
            select(ExclusionRow.session_id, ExclusionRow.rule).order_by(ExclusionRow.id)
        ):
            excluded[session_id] = (*excluded.get(session_id, ()), rule)
        ids = {row.session_id: row.ids for row in db.scalars(select(IdentityRow))}
        rows = db.execute(
            select(SessionRow, ParticipantRow)
            .join(ParticipantRow)
            .where(SessionRow.study_id == study.id)
            .order_by(SessionRow.id)
        ).all()
    payments = []
    for session, participant in rows:
        # Whoever left before the first trial was last seen when joining.
        trial_counts = trials.get(session.id)
        seen, n_main = (
            (session.created_at, 0)
            if trial_counts is None
            else (trial_counts.last, trial_counts.n_main)
        )
        if session.state == ACTIVE:
            is_gone = now - seen > timedelta(minutes=config.lease_minutes)
            outcome: SessionOutcome = "left" if is_gone else "active"
            code = ""
        else:
            ended = outcome_of(session.state, n_main, config)
            outcome, code = ended, session.code or ""
        until = session.finished_at or seen
        payments.append(
            Payment(
                platform=participant.platform,
                participant=participant.code,
                ids=ids.get(session.id, {}),
                code=code,
                outcome=outcome,
                minutes=(until - session.created_at).total_seconds() / 60,
                # simulated participants are not paid
                amount=Decimal(0) if participant.platform == ROBOT else rates.amount(outcome),
                currency=rates.currency,
                excluded_by=excluded.get(session.id, ()),
            )
        )
    return payments


def find_code(payments: Iterable[Payment], code: str) -> Payment | None:
    """Return the session with this completion code, or None if it was never given to anybody."""
    # Codes are typed or pasted by hand, maybe in lower case and with stray spaces.
    plain = code.strip().upper()
    # Sessions that have not ended share the empty code, which must not match any of them.
    return next((payment for payment in payments if payment.code and payment.code == plain), None)
