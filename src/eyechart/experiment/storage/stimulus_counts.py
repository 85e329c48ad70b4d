"""How often each stimulus is taken: by trials that are out, and by responses that count.

How long a trial may be out, its lease, is `lease_minutes` in `study_config`.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.orm import Session as Db

from eyechart.experiment.storage.database_tables import (
    ANSWERED,
    DROPPED,
    LIVE,
    ExclusionRow,
    SessionRow,
    StimulusRow,
    TrialRow,
)

SWEEP = 50
"""How many leases that are over are taken back at once."""

_COUNT = (
    update(StimulusRow)
    # those that are wanted without end are not counted, so that nobody waits for others to do so
    .where(StimulusRow.id == bindparam("stimulus_id"), StimulusRow.capacity.is_not(None))
    .values(taken=StimulusRow.taken + bindparam("change"))
)
_OVER = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.state == LIVE, TrialRow.expires_at < bindparam("now"))
    .limit(SWEEP)
    .with_for_update(skip_locked=True, of=TrialRow)
)
# locked, for another one may take the same trials back at this moment
_OUT = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.session_id == bindparam("session_id"), TrialRow.state == LIVE)
    .with_for_update()
)


def count(db: Db, stimulus_id: int, change: int) -> None:
    """Change how often a stimulus is taken, where the database has it."""
    db.connection().execute(_COUNT, {"stimulus_id": stimulus_id, "change": change})


def take_again(db: Db, stimulus_id: int) -> bool:
    """Take a stimulus once more for an answer that comes late; False if it is full meanwhile."""
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
    """Take back trials whose lease is over, of whichever study, some at a time."""
    _drop(db, db.connection().execute(_OVER, {"now": now}).all())


def drop_all(db: Db, session: SessionRow) -> None:
    """Give up on all trials of a session that are out."""
    _drop(db, db.connection().execute(_OUT, {"session_id": session.id}).all())


def _drop(db: Db, trials: Sequence[Row[int, int]]) -> None:
    """Give up on trials that are out and locked; their stimuli go to somebody else."""
    if not trials:
        return
    db.connection().execute(
        update(TrialRow)
        .where(TrialRow.id.in_([trial.id for trial in trials]))
        .values(state=DROPPED)
    )
    # always in the same order, or two of these could wait for each other
    for stimulus_id in sorted(trial.stimulus_id for trial in trials):
        count(db, stimulus_id, -1)


def give_back(db: Db, session: SessionRow) -> None:
    """Ask others for what a session has answered, once it is written that it does not count."""
    db.flush()
    answered = select(TrialRow.stimulus_id).where(
        TrialRow.session_id == session.id, TrialRow.state == ANSWERED
    )
    _recount(db, StimulusRow.id.in_(answered))


def recount(db: Db, study_id: int) -> None:
    """Set how often each stimulus is taken to what trials say: out, or answered and counting."""
    _recount(db, StimulusRow.study_id == study_id)


def recount_some(db: Db, stimuli: Sequence[int]) -> None:
    """Set how often these stimuli are taken to what trials say."""
    _recount(db, StimulusRow.id.in_(set(stimuli)))


def _recount(db: Db, condition: ColumnElement[bool]) -> None:
    wanted = and_(condition, StimulusRow.capacity.is_not(None))
    # first nobody else may count: trials that come meanwhile would be overwritten
    db.execute(
        select(StimulusRow.id).where(wanted).order_by(StimulusRow.id).with_for_update()
    ).all()
    excluded = exists().where(ExclusionRow.session_id == TrialRow.session_id)
    counts = (
        select(func.count())
        .where(
            TrialRow.stimulus_id == StimulusRow.id,
            or_(TrialRow.state == LIVE, and_(TrialRow.state == ANSWERED, ~excluded)),
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
