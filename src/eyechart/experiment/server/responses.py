"""Answers: stored once, however often they are sent; acknowledged when they are on disk."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.orm import Session as Db

from eyechart.experiment.design.study_config import StudyConfig
from eyechart.experiment.server.session_progress import end, has_failed, is_active, progress_of
from eyechart.experiment.server.sessions import Refusal, State, state_of
from eyechart.experiment.server.trial_allocation import Admit, everybody, locked
from eyechart.experiment.storage.database import Database
from eyechart.experiment.storage.database_tables import (
    ANSWERED,
    DROPPED,
    FAILED,
    ResponseRow,
    SessionRow,
    StimulusRow,
    TrialRow,
)
from eyechart.experiment.storage.leases import take_again

MOST_MS = 3_600_000.0
"""No reaction time is longer than an hour."""

AsStored = Row[int, str, str, int, datetime, str, bytes | None]

# written down once, see trial_allocation.py; locked, for the trial's lease may end at this moment
_TRIAL = (
    select(
        TrialRow.id,
        TrialRow.role,
        TrialRow.state,
        TrialRow.stimulus_id,
        TrialRow.served_at,
        StimulusRow.truth,
        ResponseRow.body_hash,
    )
    .join(StimulusRow)
    .outerjoin(ResponseRow, ResponseRow.trial_id == TrialRow.id)
    .where(
        TrialRow.public_id == bindparam("public_id"), TrialRow.session_id == bindparam("session_id")
    )
    .with_for_update(of=TrialRow)
)
_ANSWERED = update(TrialRow).where(TrialRow.id == bindparam("trial_id")).values(state=ANSWERED)


@dataclass(frozen=True)
class Given:
    """An answer as it comes from the browser: see `tables.Response`."""

    uuid: str
    choice: str
    rt_ms: float | None
    stamps: Mapping[str, float]
    flags: Sequence[str]

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).digest()


@dataclass(frozen=True)
class Stored:
    """What the page is told of an answer. `truth`: of practice trials only."""

    right: bool | None
    truth: str | None
    state: State


def store(
    database: Database,
    config: StudyConfig,
    secret: bytes,
    session_id: int,
    trial_id: str,
    given: Given,
    now: datetime,
    admit: Admit = everybody,
) -> Stored:
    """Store an answer; the same again changes nothing, another one is refused."""
    with database.writing() as db:
        session = locked(db, session_id)
        admit(session)
        own = {"public_id": trial_id, "session_id": session.id}
        trial = db.connection().execute(_TRIAL, own).one_or_none()
        if trial is None:
            raise Refusal(404, "no_trial", "There is no such trial in this session.")
        if trial.body_hash is None:
            _store(db, config, session, trial, given, now)
        elif trial.body_hash != given.digest:
            raise Refusal(409, "answered", "This trial has another answer already.")
        practice = trial.role == "practice"
        return Stored(
            given.choice == trial.truth if practice else None,
            trial.truth if practice else None,
            state_of(db, config, secret, session),
        )


def _store(
    db: Db, config: StudyConfig, session: SessionRow, trial: AsStored, given: Given, now: datetime
) -> None:
    if trial.state == DROPPED and not (is_active(session) and take_again(db, trial.stimulus_id)):
        raise Refusal(410, "gone", "This trial was over, and others have answered it.")
    connection = db.connection()
    connection.execute(_ANSWERED, {"trial_id": trial.id})
    row = {
        "trial_id": trial.id,
        "client_uuid": given.uuid,
        "choice": given.choice,
        "correct": given.choice == trial.truth,
        "rt_ms": given.rt_ms,
        "stamps": dict(given.stamps),
        "flags": sorted({*given.flags, *_found(config, trial, given, now)}),
        "body_hash": given.digest,
        "received_at": now,
    }
    connection.execute(insert(ResponseRow), row)
    # no other answer can make anybody fail
    is_graded = trial.role == "qualification" and is_active(session)
    if is_graded and has_failed(config, progress_of(db, session)):
        end(db, session, FAILED, now)


def _found(config: StudyConfig, trial: AsStored, given: Given, now: datetime) -> set[str]:
    """Return what is odd about an answer as the server sees it."""
    flags = set()
    needed = config.fixation_ms + config.stimulus_ms + (given.rt_ms or 0)
    if config.kind == "same-different":
        needed = given.rt_ms or 0
    if (now - trial.served_at).total_seconds() * 1000 < needed:
        flags.add("too_soon")
    window = config.response_ms
    if config.kind == "same-different":
        # from the pictures' onset; where they stay until the answer there is no end
        window = config.show_ms + config.response_ms if config.show_ms else 0
    if window and given.rt_ms is not None and given.rt_ms > window + 100:
        flags.add("too_late")
    return flags
