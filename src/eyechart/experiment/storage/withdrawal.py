"""Delete all data of a participant who withdraws, from all studies of the database."""

from collections.abc import Sequence

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart.experiment.recruiters import RECRUITERS
from eyechart.experiment.storage.database import Database
from eyechart.experiment.storage.database_tables import (
    ACTIVE,
    ConsentRow,
    ExclusionRow,
    ExposureRow,
    IdentityRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    TrialRow,
)
from eyechart.experiment.storage.stimulus_counts import recount_some
from eyechart.experiment.storage.tokens import completion_code, pseudonym_digest


def withdraw(database: Database, secret: bytes, name: str) -> int:
    """Delete a participant by a code or platform id; return the number of responses deleted.

    Nothing is kept, not even the list of images seen. The participant's stimuli become available
    to other participants.
    """
    with database.writing() as db:
        participant = _find(db, secret, name)
        sessions = select(SessionRow.id).where(SessionRow.participant_id == participant.id)
        trials = select(TrialRow.id).where(TrialRow.session_id.in_(sessions))
        responses = len(
            db.scalars(select(ResponseRow.trial_id).where(ResponseRow.trial_id.in_(trials))).all()
        )
        seen = db.scalars(
            select(TrialRow.stimulus_id).where(TrialRow.session_id.in_(sessions))
        ).all()
        # In this order, because foreign keys do not allow a row without the one it refers to.
        db.execute(delete(ResponseRow).where(ResponseRow.trial_id.in_(trials)))
        db.execute(delete(TrialRow).where(TrialRow.session_id.in_(sessions)))
        db.execute(delete(ExclusionRow).where(ExclusionRow.session_id.in_(sessions)))
        for table in (IdentityRow, ConsentRow, ExposureRow, SessionRow):
            db.execute(delete(table).where(table.participant_id == participant.id))
        db.execute(delete(ParticipantRow).where(ParticipantRow.id == participant.id))
        # This participant's responses and live trials are requested from other participants.
        recount_some(db, seen)
    _forget(database)
    return responses


def active_identities(database: Database, study_id: int) -> int:
    """Return how many sessions of a study that have not ended have platform ids."""
    with database.reading() as db:
        rows = select(IdentityRow.ids).join(SessionRow, SessionRow.id == IdentityRow.session_id)
        rows = rows.where(SessionRow.study_id == study_id, SessionRow.state == ACTIVE)
        # Plain links have no ids, but a row.
        return sum(bool(ids) for ids in db.scalars(rows))


def forget_identities(database: Database, study_id: int) -> int:
    """Delete a study's platform ids, which are needed only for payment; return their number."""
    with database.writing() as db:
        sessions = select(SessionRow.id).where(SessionRow.study_id == study_id)
        rows = db.execute(
            delete(IdentityRow)
            .where(IdentityRow.session_id.in_(sessions))
            .returning(IdentityRow.session_id)
        ).all()
    _forget(database)
    return len(rows)


def _find(db: Db, secret: bytes, name: str) -> ParticipantRow:
    digests = [pseudonym_digest(secret, platform, name) for platform in RECRUITERS]
    participants = db.scalars(
        select(ParticipantRow).where(
            or_(ParticipantRow.code == name, ParticipantRow.digest.in_(digests))
        )
    ).all()
    # The last page shows one code only, which may be the completion code.
    participants = participants or _finished(db, secret, name)
    if len(participants) != 1:
        raise UsageError(
            f"There is no participant '{name}': pass the code that the experiment showed, or the"
            " platform's id."
        )
    return participants[0]


def _finished(db: Db, secret: bytes, code: str) -> Sequence[ParticipantRow]:
    """Return the participant with a completion code, which is computed and not stored."""
    sessions = db.scalars(select(SessionRow)).all()
    return [row.participant for row in sessions if completion_code(secret, row.id) == code]


def _forget(database: Database) -> None:
    """Remove deleted data from the SQLite file and its write-ahead log."""
    if database.is_sqlite:
        # The raw connection: neither statement is allowed in a transaction.
        one = database.engine.raw_connection()
        try:
            one.cursor().execute("VACUUM")
            one.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            one.close()
