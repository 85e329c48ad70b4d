"""Which stimuli are open to a participant: wanted still, and of photographs not yet seen."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, bindparam, exists, func, or_, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.tables import LIVE, Exposure, Picture, Session, Stimulus, Trial


@dataclass(frozen=True)
class Found:
    """A stimulus to hand out. `sources`: the photographs that it shows."""

    stimulus_id: int
    role: str
    sources: tuple[int, ...]


def pick(db: Db, session: Session, role: str, query: Select[int, int]) -> Found | None:
    """Return the stimulus that a query gives for a participant, None if there is none."""
    own = {"study_id": session.study_id, "participant_id": session.participant_id, "role": role}
    rows = db.connection().execute(query, own).all()
    return Found(rows[0].id, role, tuple(row.source_id for row in rows)) if rows else None


def _open_to() -> Select[int]:
    """Return the query for stimuli that can be shown to a participant."""
    seen = exists().where(
        Picture.stimulus_id == Stimulus.id,
        Exposure.source_id == Picture.source_id,
        Exposure.participant_id == bindparam("participant_id"),
    )
    return select(Stimulus.id).where(
        Stimulus.study_id == bindparam("study_id"),
        Stimulus.role == bindparam("role"),
        or_(Stimulus.capacity.is_(None), Stimulus.taken < Stimulus.capacity),
        ~seen,
    )


def _with_sources(query: Select[int]) -> Select[int, int]:
    one = query.limit(1).subquery()
    return select(one.c.id, Picture.source_id).join(Picture, Picture.stimulus_id == one.c.id)


RESERVED = _with_sources(_open_to().order_by(func.random()))
LEAST_TAKEN = _with_sources(
    _open_to()
    .order_by(Stimulus.taken, Stimulus.shuffle)
    .with_for_update(skip_locked=True, of=Stimulus)
)
STILL_OPEN = _with_sources(_open_to())
"""Few are reserved: in a fixed order they would come in the same one for everybody. The least taken
one is locked, and those that others are being given at this moment are passed over; whether any is
open at all is asked without that."""


def has_room(db: Db, study_id: int, now: datetime) -> bool:
    """Whether a study wants more answers than are given or under way."""
    wanted = exists().where(
        Stimulus.study_id == study_id,
        Stimulus.role == "main",
        Stimulus.taken < Stimulus.capacity,
    )
    over = exists().where(
        Trial.state == LIVE,
        Trial.expires_at < now,
        Trial.role == "main",
        Trial.stimulus_id == Stimulus.id,
        Stimulus.study_id == study_id,
    )
    return bool(db.scalar(select(or_(wanted, over))))
