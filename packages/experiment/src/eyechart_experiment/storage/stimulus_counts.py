"""Count how often each stimulus is taken by live trials and by responses that were not excluded.

A trial may stay live until its lease expires, after `lease_minutes` (see `study_config`).
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.orm import Session as Db

from eyechart_experiment.storage.database_tables import (
    DROPPED,
    EXPIRED,
    LIVE,
    RESPONDED,
    ExclusionRow,
    SessionRow,
    StimulusRow,
    TrialRow,
)

SWEEP = 50
"""Maximum number of expired leases released at once."""

_COUNT = (
    update(StimulusRow)
    # Stimuli without a capacity are not counted: updating them would only cause lock contention.
    .where(StimulusRow.id == bindparam("stimulus_id"), StimulusRow.capacity.is_not(None))
    .values(taken=StimulusRow.taken + bindparam("change"))
)
# Locked trials are skipped: another request is storing their response, or releasing them.
_OVER = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.state == LIVE, TrialRow.expires_at < bindparam("now"))
    .limit(SWEEP)
    .with_for_update(skip_locked=True, of=TrialRow)
)
# Locked, because a concurrent request may release the same trials.
_OUT = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.session_id == bindparam("session_id"), TrialRow.state == LIVE)
    .with_for_update()
)


def count(db: Db, stimulus_id: int, change: int) -> None:
    """Add `change` to a stimulus's `taken` count, unless its capacity is unlimited."""
    db.connection().execute(_COUNT, {"stimulus_id": stimulus_id, "change": change})


def try_reserve(db: Db, stimulus_id: int) -> bool:
    """Reserve a stimulus again for a late response; return False if it has enough responses."""
    # In one statement: between a check and an update others could take the last place.
    result = db.execute(
        update(StimulusRow)
        .where(
            StimulusRow.id == stimulus_id,
            or_(StimulusRow.capacity.is_(None), StimulusRow.taken < StimulusRow.capacity),
        )
        .values(taken=StimulusRow.taken + case((StimulusRow.capacity.is_(None), 0), else_=1))
        .execution_options(synchronize_session=False)
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]


def release_expired(db: Db, now: datetime) -> None:
    """Release up to `SWEEP` trials whose lease has expired, in any study."""
    _drop(db, db.connection().execute(_OVER, {"now": now}).all(), EXPIRED, now)


def drop_all(db: Db, session: SessionRow, reason: str, now: datetime) -> None:
    """Drop all live trials of a session."""
    _drop(db, db.connection().execute(_OUT, {"session_id": session.id}).all(), reason, now)


def _drop(db: Db, trials: Sequence[Row[int, int]], reason: str, now: datetime) -> None:
    """Drop locked live trials; their stimuli become available to other participants."""
    if not trials:
        return
    db.connection().execute(
        update(TrialRow)
        .where(TrialRow.id.in_([trial.id for trial in trials]))
        .values(state=DROPPED, drop_reason=reason, dropped_at=now)
    )
    # Always in the same order: two concurrent calls could otherwise deadlock.
    for stimulus_id in sorted(trial.stimulus_id for trial in trials):
        count(db, stimulus_id, -1)


def recount_session(db: Db, session: SessionRow) -> None:
    """Count a session's stimuli again; those of an excluded session become available to others."""
    db.flush()
    responded = select(TrialRow.stimulus_id).where(
        TrialRow.session_id == session.id, TrialRow.state == RESPONDED
    )
    recount(db, StimulusRow.id.in_(responded))


def recount(db: Db, condition: ColumnElement[bool]) -> None:
    """Recompute the `taken` counts of the stimuli that satisfy a condition."""
    wanted = and_(condition, StimulusRow.capacity.is_not(None))
    # Lock first: otherwise trials that arrive in the meantime would be left out of the counts.
    db.execute(
        select(StimulusRow.id).where(wanted).order_by(StimulusRow.id).with_for_update()
    ).all()
    excluded = exists().where(ExclusionRow.session_id == TrialRow.session_id)
    counts = (
        select(func.count())
        .where(
            TrialRow.stimulus_id == StimulusRow.id,
            or_(TrialRow.state == LIVE, and_(TrialRow.state == RESPONDED, ~excluded)),
        )
        .correlate(StimulusRow)
        .scalar_subquery()
    )
    db.execute(
        update(StimulusRow)
        .where(wanted)
        .values(taken=counts)
        .execution_options(synchronize_session=False)
    )
