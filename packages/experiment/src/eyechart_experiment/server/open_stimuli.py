"""Query stimuli that still need responses and whose source images a participant has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Select, bindparam, exists, func, or_, select
from sqlalchemy.orm import Session as Db
from sqlalchemy.orm import aliased

from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    DROPPED,
    LIVE,
    RESPONDED,
    ExposureRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.study_config import StudyConfig


@dataclass(frozen=True)
class OpenStimulus:
    """A stimulus to hand out; `sources` are the source images it shows.

    `is_return`: whether this participant had it before, in a trial that was dropped.
    """

    stimulus_id: int
    role: str
    sources: tuple[int, ...]
    is_return: bool = False


def pick(db: Db, session: SessionRow, role: str, query: Select[int, int]) -> OpenStimulus | None:
    """Return the stimulus that a query selects for a participant; None if it selects nothing."""
    key = {"study_id": session.study_id, "participant_id": session.participant_id, "role": role}
    rows = db.connection().execute(query, key).all()
    return OpenStimulus(rows[0].id, role, tuple(row.source_id for row in rows)) if rows else None


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
STILL_OPEN = _with_sources(_open_to())
"""RESERVED picks at random: there are few reserved stimuli, and a fixed order would show them to
all participants in the same sequence. MIN_TAKEN locks its row and skips rows that are being
handed out to others; STILL_OPEN ignores locks, to tell "all taken" from "locked at this moment".
"""

_OTHER = aliased(TrialRow)
# Whoever drops a trial gets its stimulus again, so that dropping a hard one gains nothing. Locked
# like MIN_TAKEN, since another participant may take the last place.
_RETURNED = (
    select(TrialRow.stimulus_id, TrialRow.role)
    .join(StimulusRow, StimulusRow.id == TrialRow.stimulus_id)
    .where(
        TrialRow.session_id == bindparam("session_id"),
        TrialRow.role.in_(bindparam("roles", expanding=True)),
        TrialRow.state == DROPPED,
        or_(StimulusRow.capacity.is_(None), StimulusRow.taken < StimulusRow.capacity),
        ~exists().where(
            _OTHER.session_id == TrialRow.session_id,
            _OTHER.stimulus_id == TrialRow.stimulus_id,
            _OTHER.state.in_((LIVE, RESPONDED)),
        ),
    )
    .order_by(TrialRow.number)
    .limit(1)
    .with_for_update(skip_locked=True, of=StimulusRow)
)


@dataclass(frozen=True)
class StoredStimuli:
    """The stimuli in the database that are left for a session."""

    db: Db
    session: SessionRow

    def returned(self, roles: Sequence[str]) -> OpenStimulus | None:
        """Return the stimulus of the session's first dropped trial that can be shown again."""
        key = {"session_id": self.session.id, "roles": list(roles)}
        row = self.db.connection().execute(_RETURNED, key).first()
        if row is None:
            return None
        query = select(StimulusImageRow.source_id).where(
            StimulusImageRow.stimulus_id == row.stimulus_id
        )
        sources = tuple(self.db.scalars(query))
        return OpenStimulus(row.stimulus_id, row.role, sources, is_return=True)

    def reserved(self, role: str) -> OpenStimulus | None:
        """Return a random unseen stimulus for practice, qualification or a catch trial."""
        return pick(self.db, self.session, role, RESERVED)

    def least_taken(self) -> OpenStimulus | Literal["wait"] | None:
        """Return the unseen main stimulus with the fewest responses.

        Return None if no stimulus is left, and "wait" if all remaining stimuli are locked.
        """
        stimulus = pick(self.db, self.session, "main", MIN_TAKEN)
        if stimulus is not None:
            return stimulus
        return None if pick(self.db, self.session, "main", STILL_OPEN) is None else "wait"


def can_admit(
    db: Db, config: StudyConfig, study_id: int, now: datetime, participant_id: int | None = None
) -> bool:
    """Return whether a study has enough main trials left to admit a participant.

    Enough are `config.min_main` trials on different source images that the participant has not
    seen. `participant_id` is None for a participant who is not in the database.
    """
    is_open = or_(
        StimulusRow.taken < StimulusRow.capacity,
        # A trial whose lease has expired will be given to someone else, so it is available too.
        exists().where(
            TrialRow.stimulus_id == StimulusRow.id,
            TrialRow.state == LIVE,
            TrialRow.expires_at < now,
        ),
    )
    seen = exists().where(
        ExposureRow.source_id == StimulusImageRow.source_id,
        ExposureRow.participant_id == participant_id,
    )
    images = (
        select(func.count(StimulusImageRow.source_id.distinct()))
        .join(StimulusRow, StimulusRow.id == StimulusImageRow.stimulus_id)
        .where(
            StimulusRow.study_id == study_id,
            StimulusRow.role == "main",
            # Both images of a pair would count the same trial twice.
            StimulusImageRow.place == 0,
            is_open,
            ~seen,
        )
    )
    if (db.scalar(images) or 0) < config.min_main:
        return False
    # Who admits participants for a single trial accepts that others take it first.
    return config.min_main == 1 or _n_unclaimed(db, config, study_id, now) >= config.min_main


def _n_unclaimed(db: Db, config: StudyConfig, study_id: int, now: datetime) -> int:
    """Return the number of open places that participants who are present will not need."""
    lease = now - timedelta(minutes=config.lease_minutes)
    open_places = select(func.sum(StimulusRow.capacity - StimulusRow.taken)).where(
        StimulusRow.study_id == study_id, StimulusRow.role == "main"
    )
    # Not before the first trial: anybody can join with invented ids, and must not close the study.
    recent = exists().where(TrialRow.session_id == SessionRow.id, TrialRow.served_at > lease)
    present = select(SessionRow.id).where(
        SessionRow.study_id == study_id, SessionRow.state == ACTIVE, recent
    )
    n_present = select(func.count()).select_from(present.subquery())
    # Trials of those present that are in `taken` already.
    n_handed = select(func.count()).where(
        TrialRow.session_id.in_(present),
        TrialRow.role == "main",
        TrialRow.state.in_((LIVE, RESPONDED)),
    )
    needed = config.trials * (db.scalar(n_present) or 0) - (db.scalar(n_handed) or 0)
    return int(db.scalar(open_places) or 0) - max(needed, 0)
