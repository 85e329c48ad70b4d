"""Deleting everything of a participant who wants that, from all studies of the database."""

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart.experiment.database import Database
from eyechart.experiment.leases import recount_some
from eyechart.experiment.tables import (
    Consent,
    Exclusion,
    Exposure,
    Identity,
    Participant,
    Response,
    Session,
    Trial,
)
from eyechart.experiment.tokens import pseudonym_digest


def withdraw(database: Database, secret: bytes, who: str) -> int:
    """Delete a participant, by code or by platform's id; return how many answers there were.

    Nothing is left, not even what they have seen; others are asked for their answers.
    """
    with database.writing() as db:
        person = _find(db, secret, who)
        sessions = select(Session.id).where(Session.participant_id == person.id)
        trials = select(Trial.id).where(Trial.session_id.in_(sessions))
        answers = len(
            db.scalars(select(Response.trial_id).where(Response.trial_id.in_(trials))).all()
        )
        seen = db.scalars(select(Trial.stimulus_id).where(Trial.session_id.in_(sessions))).all()
        db.execute(delete(Response).where(Response.trial_id.in_(trials)))
        db.execute(delete(Trial).where(Trial.session_id.in_(sessions)))
        db.execute(delete(Exclusion).where(Exclusion.session_id.in_(sessions)))
        for table in (Identity, Consent, Exposure, Session):
            db.execute(delete(table).where(table.participant_id == person.id))
        db.execute(delete(Participant).where(Participant.id == person.id))
        # others are asked for what this person has answered or had out
        recount_some(db, seen)
    _forget(database)
    return answers


def forget_identities(database: Database, study_id: int) -> int:
    """Delete the platforms' ids of a study, once everybody was paid; return how many there were."""
    with database.writing() as db:
        own = select(Session.id).where(Session.study_id == study_id)
        rows = db.execute(
            delete(Identity).where(Identity.session_id.in_(own)).returning(Identity.session_id)
        ).all()
    _forget(database)
    return len(rows)


def _find(db: Db, secret: bytes, who: str) -> Participant:
    digests = [pseudonym_digest(secret, each, who) for each in ("link", "mturk", "prolific")]
    found = db.scalars(
        select(Participant).where(or_(Participant.code == who, Participant.digest.in_(digests)))
    ).all()
    if len(found) != 1:
        raise UsageError(
            f"There is no participant '{who}': give the code from the end of the experiment, or"
            " the platform's id."
        )
    return found[0]


def _forget(database: Database) -> None:
    """Let nothing of what was deleted stay in the file."""
    if database.is_sqlite:
        # the driver's own connection: a transaction would forbid both
        one = database.engine.raw_connection()
        try:
            one.cursor().execute("VACUUM")
            one.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            one.close()
