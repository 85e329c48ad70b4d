"""Coming, coming back, and being done: a participant's session in a study."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Db

from eyechart.experiment.design.study_config import StudyConfig
from eyechart.experiment.recruiters.recruiter import Arrival, Completion, complete
from eyechart.experiment.server.open_stimuli import has_room
from eyechart.experiment.server.session_progress import (
    PHASES,
    end,
    is_active,
    phase_of,
    planned,
    progress_of,
)
from eyechart.experiment.server.tokens import (
    completion_code,
    make_token,
    new_code,
    pseudonym_digest,
    token_hash,
)
from eyechart.experiment.server.trial_allocation import is_over, locked
from eyechart.experiment.storage.database import Database
from eyechart.experiment.storage.database_tables import (
    ACTIVE,
    FAILED,
    FINISHED,
    ConsentRow,
    IdentityRow,
    ParticipantRow,
    SessionRow,
    StudyRow,
)
from eyechart.experiment.storage.leases import drop_all


class Refusal(Exception):
    """A participant cannot do this now. `code` is for the page, the text for a person."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Joined:
    """A session to go on with. `token` is told this once."""

    token: str
    expires_at: datetime
    state: str
    is_new: bool


@dataclass(frozen=True)
class State:
    """How far a session is, for the page. `right_share`: at the end of a block only."""

    state: str
    phase: str
    answered: Mapping[str, int]
    planned: Mapping[str, int]
    right_share: float | None
    participant: str
    completion: Completion | None


def join(
    database: Database,
    study: StudyRow,
    config: StudyConfig,
    secret: bytes,
    arrival: Arrival,
    screen: Mapping[str, Any],
    now: datetime,
) -> Joined:
    """Return the session of whoever arrives: the one they had here, or a new one.

    A new token makes the old one void.
    """
    digest = pseudonym_digest(secret, arrival.platform, arrival.person)
    for attempt in range(2):
        try:
            with database.writing() as db:
                return _join(db, study, config, secret, arrival, digest, screen, now)
        except IntegrityError:
            # the same person came twice at the same moment: the other one is there now
            if attempt:
                raise
    raise AssertionError


def _join(
    db: Db,
    study: StudyRow,
    config: StudyConfig,
    secret: bytes,
    arrival: Arrival,
    digest: str,
    screen: Mapping[str, Any],
    now: datetime,
) -> Joined:
    person = db.execute(
        select(ParticipantRow).where(ParticipantRow.digest == digest)
    ).scalar_one_or_none()
    session = None
    if person is not None:
        session = db.execute(
            select(SessionRow)
            .where(SessionRow.study_id == study.id, SessionRow.participant_id == person.id)
            .with_for_update()
        ).scalar_one_or_none()
    is_new = session is None
    if session is None:
        if db.scalar(select(StudyRow.status).where(StudyRow.id == study.id)) != "open":
            raise Refusal(409, "closed", "This study is closed.")
        if not has_room(db, study.id, now):
            raise Refusal(409, "full", "This study has all the answers that it needs.")
        session = _new_session(db, study, config, arrival, person, digest, screen, now)
    elif not is_active(session) and _is_another_task(db, session, arrival):
        raise Refusal(409, "again", "You have taken part in this study before.")
    _keep_ids(db, session, arrival)
    expires_at = now + timedelta(minutes=config.token_minutes)
    token = make_token(secret, session.id, expires_at)
    session.token_hash, session.expires_at = token_hash(token), expires_at
    return Joined(token, expires_at, session.state, is_new)


def _new_session(
    db: Db,
    study: StudyRow,
    config: StudyConfig,
    arrival: Arrival,
    person: ParticipantRow | None,
    digest: str,
    screen: Mapping[str, Any],
    now: datetime,
) -> SessionRow:
    if person is None:
        person = ParticipantRow(
            code=new_code(), platform=arrival.platform, digest=digest, created_at=now
        )
        db.add(person)
        db.flush()
    text = hashlib.sha256(config.consent.encode()).hexdigest()
    db.add(ConsentRow(participant_id=person.id, study_id=study.id, text_hash=text, agreed_at=now))
    session = SessionRow(
        study_id=study.id,
        participant_id=person.id,
        state=ACTIVE,
        token_hash="",
        expires_at=now,
        seed=secrets.randbits(31),
        screen=dict(screen),
        created_at=now,
    )
    db.add(session)
    db.flush()
    return session


def _is_another_task(db: Db, session: SessionRow, arrival: Arrival) -> bool:
    """Whether somebody who is done comes with another task, which nothing was done for."""
    identity = db.get(IdentityRow, session.id)
    return arrival.platform != "link" and identity is not None and identity.ids != arrival.ids


def _keep_ids(db: Db, session: SessionRow, arrival: Arrival) -> None:
    """Store the platform's ids; whoever gave a task back and took another hands in that one."""
    ids = dict(arrival.ids) if arrival.platform != "link" else {}
    identity = db.get(IdentityRow, session.id)
    if identity is not None:
        identity.ids = ids
    elif is_active(session):
        # of a session that is over, whoever runs the study has them forgotten
        db.add(IdentityRow(session_id=session.id, participant_id=session.participant_id, ids=ids))


def claim_tab(
    database: Database, session_id: int, tab: str, hz: float | None, now: datetime
) -> None:
    """Let one browser tab go on with a session; trials that another one had out are given up."""
    with database.writing() as db:
        session = locked(db, session_id)
        session.tab = tab
        if hz is not None:
            session.hz = hz
        if is_active(session):
            drop_all(db, session)


def state_of(db: Db, config: StudyConfig, secret: bytes, session: SessionRow) -> State:
    """Return how far a session is."""
    progress = progress_of(db, session)
    main = progress.done("main")
    at_break = main > 0 and main % config.block == 0
    return State(
        session.state,
        phase_of(config, session, progress),
        {phase: progress.done(phase) for phase in PHASES},
        planned(config),
        progress.right_share("main") if at_break else None,
        session.participant.code,
        None if is_active(session) else _completion(db, config, secret, session),
    )


def finish(
    database: Database, config: StudyConfig, secret: bytes, session_id: int, now: datetime
) -> State:
    """End a session that has all its answers, or for which there is nothing left to show."""
    with database.writing() as db:
        session = locked(db, session_id)
        if is_active(session):
            if not is_over(db, config, session):
                raise Refusal(409, "unfinished", "There are trials left.")
            end(db, session, FINISHED, now)
        return state_of(db, config, secret, session)


def _completion(db: Db, config: StudyConfig, secret: bytes, session: SessionRow) -> Completion:
    identity = db.get(IdentityRow, session.id)
    return complete(
        session.participant.platform,
        {} if identity is None else identity.ids,
        config,
        completion_code(secret, session.id),
        session.state == FAILED,
    )
