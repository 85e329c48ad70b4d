"""How often each stimulus is taken: by trials that are out, and by answers that count."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.orm import Session as Db

from eyechart.experiment.tables import (
    ANSWERED,
    DROPPED,
    LIVE,
    Exclusion,
    Session,
    Stimulus,
    Trial,
)

SWEEP = 50
"""How many leases that are over are taken back at once."""

_COUNT = (
    update(Stimulus)
    # those that are wanted without end are not counted, so that nobody waits for others to do so
    .where(Stimulus.id == bindparam("stimulus_id"), Stimulus.capacity.is_not(None))
    .values(taken=Stimulus.taken + bindparam("change"))
)
_OVER = (
    select(Trial.id, Trial.stimulus_id)
    .where(Trial.state == LIVE, Trial.expires_at < bindparam("now"))
    .limit(SWEEP)
    .with_for_update(skip_locked=True, of=Trial)
)
# locked, for another one may take the same trials back at this moment
_OUT = (
    select(Trial.id, Trial.stimulus_id)
    .where(Trial.session_id == bindparam("session_id"), Trial.state == LIVE)
    .with_for_update()
)


def count(db: Db, stimulus_id: int, change: int) -> None:
    """Change how often a stimulus is taken, where the database has it."""
    db.connection().execute(_COUNT, {"stimulus_id": stimulus_id, "change": change})


def take_again(db: Db, stimulus_id: int) -> bool:
    """Take a stimulus once more for an answer that comes late; False if it is full meanwhile."""
    result = db.execute(
        update(Stimulus)
        .where(
            Stimulus.id == stimulus_id,
            or_(Stimulus.capacity.is_(None), Stimulus.taken < Stimulus.capacity),
        )
        .values(taken=Stimulus.taken + case((Stimulus.capacity.is_(None), 0), else_=1))
        .execution_options(synchronize_session=False)
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]


def release_expired(db: Db, now: datetime) -> None:
    """Take back trials whose lease is over, of whichever study, some at a time."""
    _drop(db, db.connection().execute(_OVER, {"now": now}).all())


def drop_all(db: Db, session: Session) -> None:
    """Give up on all trials of a session that are out."""
    _drop(db, db.connection().execute(_OUT, {"session_id": session.id}).all())


def _drop(db: Db, trials: Sequence[Row[int, int]]) -> None:
    """Give up on trials that are out and locked; their stimuli go to somebody else."""
    if not trials:
        return
    db.connection().execute(
        update(Trial).where(Trial.id.in_([trial.id for trial in trials])).values(state=DROPPED)
    )
    # always in the same order, or two of these could wait for each other
    for stimulus_id in sorted(trial.stimulus_id for trial in trials):
        count(db, stimulus_id, -1)


def give_back(db: Db, session: Session) -> None:
    """Ask others for what a session has answered, once it is written that it does not count."""
    db.flush()
    answered = select(Trial.stimulus_id).where(
        Trial.session_id == session.id, Trial.state == ANSWERED
    )
    _recount(db, Stimulus.id.in_(answered))


def recount(db: Db, study_id: int) -> None:
    """Set how often each stimulus is taken to what trials say: out, or answered and counting."""
    _recount(db, Stimulus.study_id == study_id)


def recount_some(db: Db, stimuli: Sequence[int]) -> None:
    """Set how often these stimuli are taken to what trials say."""
    _recount(db, Stimulus.id.in_(set(stimuli)))


def _recount(db: Db, which: ColumnElement[bool]) -> None:
    wanted = and_(which, Stimulus.capacity.is_not(None))
    # first nobody else may count: trials that come meanwhile would be overwritten
    db.execute(select(Stimulus.id).where(wanted).order_by(Stimulus.id).with_for_update()).all()
    excluded = exists().where(Exclusion.session_id == Trial.session_id)
    counts = (
        select(func.count())
        .where(
            Trial.stimulus_id == Stimulus.id,
            or_(Trial.state == LIVE, and_(Trial.state == ANSWERED, ~excluded)),
        )
        .correlate(Stimulus)
        .scalar_subquery()
    )
    db.execute(
        update(Stimulus)
        .where(wanted)
        .values(taken=counts)
        .execution_options(synchronize_session=False)
    )
