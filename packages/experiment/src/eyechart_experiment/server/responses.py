"""Store responses idempotently; acknowledge them once they are on disk."""

from datetime import datetime

from sqlalchemy import Row, bindparam, exists, insert, select, update
from sqlalchemy.orm import Session as Db

from eyechart_experiment.server.session_progress import end, has_failed, progress_of
from eyechart_experiment.server.sessions import Rejection, state_of
from eyechart_experiment.server.trial_allocation import Admit, admit_everybody, locked
from eyechart_experiment.server.wire import Acknowledgement, Feedback, ResponseBody
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    DROPPED,
    FAILED,
    LIVE,
    RESPONDED,
    ResponseRow,
    SessionRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.stimulus_counts import try_reserve
from eyechart_experiment.study_config import StudyConfig

StoredTrial = Row[int, str, str, int, datetime, str, bytes | None]

# Built once, see trial_allocation.py. Locked, because the trial's lease may expire concurrently.
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
        TrialRow.public_id == bindparam("public_id"),
        TrialRow.session_id == bindparam("session_id"),
    )
    .with_for_update(of=TrialRow)
)
_RESPONDED = update(TrialRow).where(TrialRow.id == bindparam("trial_id")).values(state=RESPONDED)


def store(
    study: OpenStudy,
    session_id: int,
    trial_id: str,
    response: ResponseBody,
    now: datetime,
    *,
    admit: Admit = admit_everybody,
) -> Acknowledgement:
    """Store a response. A repeated request has no effect; a different response is rejected.

    Feedback is given on practice trials only.
    """
    with study.database.writing() as db:
        session = locked(db, session_id)
        # Within the transaction, because the token may have been replaced meanwhile.
        admit(session)
        key = {"public_id": trial_id, "session_id": session.id}
        trial = db.connection().execute(_TRIAL, key).one_or_none()
        if trial is None:
            raise Rejection(404, "no_trial", "This trial does not exist in this session.")
        # A page repeats a response whose acknowledgement was lost: the same body is accepted again.
        if trial.body_hash is None:
            _store(db, study.config, session, trial, response=response, now=now)
        elif trial.body_hash != response.digest:
            raise Rejection(409, "responded", "This trial already has another response.")
        feedback = None
        if trial.role == "practice":
            feedback = Feedback(correct=response.choice == trial.truth, truth=trial.truth)
        return Acknowledgement(feedback=feedback, state=state_of(db, study, session))


def _store(
    db: Db,
    config: StudyConfig,
    session: SessionRow,
    trial: StoredTrial,
    *,
    response: ResponseBody,
    now: datetime,
) -> None:
    # If it was shown again, a late response would be this participant's second one to it.
    shown_again = exists().where(
        TrialRow.session_id == session.id,
        TrialRow.stimulus_id == trial.stimulus_id,
        TrialRow.state.in_((LIVE, RESPONDED)),
    )
    if trial.state == DROPPED and (
        session.state != ACTIVE
        or db.scalar(select(shown_again))
        or not try_reserve(db, trial.stimulus_id)
    ):
        raise Rejection(410, "gone", "This trial has expired, and others have responded to it.")
    connection = db.connection()
    connection.execute(_RESPONDED, {"trial_id": trial.id})
    row = {
        "trial_id": trial.id,
        "client_uuid": str(response.uuid),
        "choice": response.choice,
        "correct": response.choice == trial.truth,
        "rt_ms": response.rt_ms,
        "stamps": dict(response.stamps),
        "flags": sorted({*response.flags, *_server_flags(config, trial, response, now)}),
        "body_hash": response.digest,
        "received_at": now,
    }
    connection.execute(insert(ResponseRow), row)
    # Only a qualification trial can end a session as failed.
    is_graded = trial.role == "qualification" and session.state == ACTIVE
    if is_graded and has_failed(config, progress_of(db, session)):
        end(db, session, FAILED, now)


def _server_flags(
    config: StudyConfig, trial: StoredTrial, response: ResponseBody, now: datetime
) -> set[str]:
    """Return the flags that the server adds to a response."""
    flags = set()
    if config.kind == "same-different":
        # rt_ms is measured from the images' onset; no limit if they stay until the response.
        before_ms = 0
        window_ms = config.show_ms + config.response_ms if config.show_ms else 0
    else:
        # rt_ms is measured from the response grid, which follows the fixation and the stimulus.
        before_ms, window_ms = config.fixation_ms + config.stimulus_ms, config.response_ms
    # The server's clock cannot be forged, so a response cannot arrive before the trial is over.
    passed_ms = (now - trial.served_at).total_seconds() * 1000
    if passed_ms < before_ms + (response.rt_ms or 0):
        flags.add("too_soon")
    if window_ms and response.rt_ms is not None and response.rt_ms > window_ms + 100:
        flags.add("too_late")
    return flags
