"""Query stimuli that still need responses and whose source images a participant has not seen."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, bindparam, exists, func, or_, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.storage.database_tables import (
    LIVE,
    ExposureRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)


@dataclass(frozen=True)
class OpenStimulus:
    """A stimulus to hand out; `sources` are the source images it shows."""

    stimulus_id: int
    role: str
    sources: tuple[int, ...]


def pick(db: Db, session: SessionRow, role: str, query: Select[int, int]) -> OpenStimulus | None:
    """Return the stimulus that a query selects for a participant; None if it selects nothing."""
    key = {"study_id": session.study_id, "participant_id": session.participant_id, "role": role}
    rows = db.connection().execute(query, key).all()
    return OpenStimulus(rows[0].id, role, tuple(row.source_id for row in rows)) if rows else None


def pick_between(
    db: Db, session: SessionRow, corruption: str, low: float, high: float
) -> OpenStimulus | None:
    """Return a main stimulus of a corruption with Δv in [low, high), or None if none is open."""
    key = {
        "study_id": session.study_id, "participant_id": session.participant_id, "role": "main",
        "corruption": corruption, "low": low, "high": high,
    }  # fmt: skip
    rows = db.connection().execute(BETWEEN, key).all()
    return OpenStimulus(rows[0].id, "main", tuple(row.source_id for row in rows)) if rows else None


def _open_to() -> Select[int]:
    """Return the query for stimuli that can be shown to a participant."""
    seen = exists().where(
        StimulusImageRow.stimulus_id == StimulusRow.id,
        ExposureRow.source_id == StimulusImageRow.source_id,
        ExposureRow.participant_id == bindparam("participant_id"),
    )
    return select(StimulusRow.id).where(
        StimulusRow.study_id == bindparam("study_id"),
        StimulusRow.role == bindparam("role"),
        or_(StimulusRow.capacity.is_(None), StimulusRow.taken < StimulusRow.capacity),
        ~seen,
    )


def _with_sources(query: Select[int]) -> Select[int, int]:
    # The limit is inside: after the join it would cut off the second image of a pair.
    one = query.limit(1).subquery()
    return select(one.c.id, StimulusImageRow.source_id).join(
        StimulusImageRow, StimulusImageRow.stimulus_id == one.c.id
    )


RESERVED = _with_sources(_open_to().order_by(func.random()))
MIN_TAKEN = _with_sources(
    _open_to()
    .order_by(StimulusRow.taken, StimulusRow.shuffle)
    .with_for_update(skip_locked=True, of=StimulusRow)
)
BETWEEN = _with_sources(
    _open_to()
    .where(
        exists().where(
            StimulusImageRow.stimulus_id == StimulusRow.id,
            StimulusImageRow.corruption == bindparam("corruption"),
            StimulusImageRow.delta_v >= bindparam("low"),
            StimulusImageRow.delta_v < bindparam("high"),
        )
    )
    .order_by(StimulusRow.taken, StimulusRow.shuffle)
    .with_for_update(skip_locked=True, of=StimulusRow)
)
STILL_OPEN = _with_sources(_open_to())
"""RESERVED picks at random: there are few reserved stimuli, and a fixed order would show them to
all participants in the same sequence. MIN_TAKEN locks its row and skips rows that are being
handed out to others; STILL_OPEN ignores locks, to tell "all taken" from "locked at this moment".
"""


def has_room(db: Db, study_id: int, now: datetime) -> bool:
    """Return whether a study wants more responses than are stored or pending."""
    wanted = exists().where(
        StimulusRow.study_id == study_id,
        StimulusRow.role == "main",
        StimulusRow.taken < StimulusRow.capacity,
    )
    # A trial whose lease has expired will be given to someone else, so it is available too.
    over = exists().where(
        TrialRow.state == LIVE,
        TrialRow.expires_at < now,
        TrialRow.role == "main",
        TrialRow.stimulus_id == StimulusRow.id,
        StimulusRow.study_id == study_id,
    )
    return bool(db.scalar(select(or_(wanted, over))))
