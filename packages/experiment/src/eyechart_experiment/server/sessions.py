"""Participants' sessions in a study: join, resume and finish."""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Db

from eyechart_experiment.quality.judging import judge_abandoned
from eyechart_experiment.recruiters import RECRUITERS
from eyechart_experiment.recruiters.link import RECRUITER as PLAIN_LINK
from eyechart_experiment.recruiters.recruiter import Arrival, Completion
from eyechart_experiment.server.session_progress import (
    PHASES,
    end,
    phase_of,
    planned,
    progress_of,
)
from eyechart_experiment.server.trial_allocation import (
    StoredStimuli,
    can_admit,
    locked,
    next_stimulus,
)
from eyechart_experiment.server.wire import JoinReply, ScreenSize, SessionState, TabClaim
from eyechart_experiment.storage.database import Database
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    CLEAN,
    FINISHED,
    RELOADED,
    ROBOT,
    ConsentRow,
    IdentityRow,
    InstallationRow,
    ParticipantRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.session_records import outcome_of
from eyechart_experiment.storage.stimulus_counts import drop_all
from eyechart_experiment.storage.tokens import (
    make_token,
    new_code,
    new_completion_code,
    pseudonym_digest,
    token_hash,
)
from eyechart_experiment.storage.withdrawal import withdrawn_at

PARTS_OF_NAMES: Mapping[str, str] = {
    "noise": "noise", "noc/gaussian": "noise", "salt_pepper": "noise",
    "blur": "blur",
    "snow": "snow", "frost": "frost", "fog": "fog", "rain": "rain", "spatter": "splashes",
    "bright": "brightness", "backlight": "brightness", "contrast": "contrast",
    "color": "color", "hue": "color", "gray_scale": "color", "saturate": "color",
    "quantization": "color",
    "pixelate": "pixels", "thumbnail": "pixels", "jpeg": "pixels", "artifacts": "pixels",
    "elastic": "distortion", "shear": "distortion", "perspective": "distortion",
    "rotate": "rotation", "rotation": "rotation", "mirror": "rotation",
    "translat": "shift", "scale": "size",
    "rhombus": "cover", "circles": "cover", "obstruction": "cover", "border": "cover",
    "style": "style",
}  # fmt: skip
"""Words by parts of corruptions' names; the first part that a name contains decides. By name,
because importing the corruptions takes seconds in which participants would wait for the server.
"""


class Rejection(Exception):
    """A rejected request; `code` is for the page, the message for the participant."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def count_visit(database: Database, study_id: int) -> None:
    """Count that the page of a study was opened; nothing else is stored before the consent."""
    with database.writing() as db:
        visits = update(StudyRow).where(StudyRow.id == study_id)
        db.execute(visits.values(visits=StudyRow.visits + 1))


def join(
    study: OpenStudy,
    arrival: Arrival,
    screen: ScreenSize | None,
    now: datetime,
    eyesight: str | None = None,
    browser: str = "",
    code: str = "",
) -> tuple[JoinReply, bool]:
    """Return the session of an arriving participant, and whether it is new.

    A new token invalidates the previous one. `eyesight` is what the participant says about it. The
    browser's random id, or the participant code, shows that a session is the caller's.

    Raises:
        Rejection: If the participant cannot take part, or began in another browser.
    """
    for attempt in range(2):
        try:
            with study.database.writing() as db:
                session, is_new = _find_session(db, study, arrival, now)
                if not (is_new or _is_owner(db, session, arrival, browser, code)):
                    raise Rejection(
                        409,
                        "elsewhere",
                        "You began in another browser: continue there, or enter the participant"
                        " code that it shows.",
                    )
                _keep_ids(db, session, arrival)
                if browser:
                    session.browser = token_hash(browser)
                if is_new and screen is not None:
                    session.screen = screen.model_dump()
                if is_new:
                    session.eyesight = eyesight
                expires_at = now + timedelta(minutes=study.config.token_minutes)
                token = make_token(study.secret, session.id, expires_at)
                session.token_hash, session.expires_at = token_hash(token), expires_at
                reply = JoinReply(token=token, expires_at=expires_at, state=session.state)
                return reply, is_new
        except IntegrityError:
            # The same participant joined twice concurrently, and the retry finds the other session;
            # or a code is in use.
            if attempt:
                raise
    raise AssertionError


def _find_session(
    db: Db, study: OpenStudy, arrival: Arrival, now: datetime
) -> tuple[SessionRow, bool]:
    """Return the session of a participant, and whether it is new."""
    digest = pseudonym_digest(study.secret, arrival.platform, arrival.person)
    participant = db.execute(
        select(ParticipantRow).where(ParticipantRow.digest == digest)
    ).scalar_one_or_none()
    session = None
    if participant is not None:
        session = db.execute(
            select(SessionRow)
            .where(SessionRow.study_id == study.id, SessionRow.participant_id == participant.id)
            .with_for_update()
        ).scalar_one_or_none()
    is_new = session is None
    if session is None:
        if db.scalar(select(StudyRow.status).where(StudyRow.id == study.id)) != "open":
            raise Rejection(409, "closed", "This study is closed.")
        known_id = None if participant is None else participant.id
        if not (
            can_admit(db, study.config, study.id, now, known_id)
            or (
                judge_abandoned(db, study.id, now)
                and can_admit(db, study.config, study.id, now, known_id)
            )
        ):
            raise Rejection(409, "full", "This study has all the responses that it needs.")
        if participant is None:
            is_simulated = db.scalar(select(InstallationRow.simulated))
            platform = ROBOT if is_simulated else arrival.platform
            participant = ParticipantRow(
                code=_unused(study, new_code), platform=platform, digest=digest, created_at=now
            )
            db.add(participant)
            db.flush()
        session = _new_session(db, study, participant, now)
    elif session.state != ACTIVE:
        identity = db.get(IdentityRow, session.id)
        # A participant who has finished arrives again with a new task of the platform.
        if identity is not None and identity.ids != arrival.ids:
            raise Rejection(409, "again", "You have taken part in this study before.")
    return session, is_new


def _is_owner(db: Db, session: SessionRow, arrival: Arrival, browser: str, code: str) -> bool:
    """Return whether the caller is the participant, and not somebody who knows a platform id."""
    if browser and session.browser == token_hash(browser):
        return True
    # Typed by hand, maybe in lower case and with stray spaces.
    if code.strip().upper() == session.participant.code:
        return True
    recruiter = RECRUITERS[arrival.platform]
    if recruiter.secret == recruiter.person:
        return True
    identity = db.get(IdentityRow, session.id)
    known = "" if identity is None else identity.ids.get(recruiter.secret, "")
    return known != "" and known == arrival.ids.get(recruiter.secret)


def _unused(study: OpenStudy, make_code: Callable[[], str]) -> str:
    """Return a new code that nobody who has withdrawn had; those in use are unique by an index."""
    while withdrawn_at(study.folder, code := make_code()) is not None:
        pass
    return code


def _new_session(
    db: Db, study: OpenStudy, participant: ParticipantRow, now: datetime
) -> SessionRow:
    # Records exactly which text the participant agreed to.
    text_hash = hashlib.sha256(study.config.consent.encode()).hexdigest()
    db.add(
        ConsentRow(
            participant_id=participant.id, study_id=study.id, text_hash=text_hash, agreed_at=now
        )
    )
    session = SessionRow(
        study_id=study.id,
        participant_id=participant.id,
        state=ACTIVE,
        # Replaced by `join`, which needs the session's id; no token has an empty hash.
        token_hash="",
        expires_at=now,
        # An integer column of PostgreSQL has 31 bits and a sign.
        seed=secrets.randbits(31),
        code=_unused(study, new_completion_code),
        screen={},
        created_at=now,
    )
    db.add(session)
    db.flush()
    return session


def _keep_ids(db: Db, session: SessionRow, arrival: Arrival) -> None:
    """Store the platform's latest ids, with which the participant will submit the task."""
    ids = dict(arrival.ids)
    identity = db.get(IdentityRow, session.id)
    if identity is not None:
        identity.ids = ids
    elif session.state == ACTIVE:
        # Ids of a finished session may have been deleted on purpose and are not stored again.
        row = IdentityRow(session_id=session.id, participant_id=session.participant_id, ids=ids)
        db.add(row)


def claim_tab(study: OpenStudy, session_id: int, claim: TabClaim, now: datetime) -> None:
    """Make a browser tab the session's current one and drop the session's live trials."""
    with study.database.writing() as db:
        session = locked(db, session_id)
        session.tab = str(claim.tab)
        if claim.hz is not None:
            session.hz = claim.hz
        if session.state == ACTIVE:
            # It is not known what the other tab has shown, so its trials cannot be continued.
            drop_all(db, session, RELOADED, now)


def state_of(db: Db, study: OpenStudy, session: SessionRow) -> SessionState:
    """Return the progress of a session."""
    config, progress = study.config, progress_of(db, session)
    main = progress.done("main")
    at_break = main > 0 and main % config.block == 0
    return SessionState.model_validate(
        {
            "state": session.state,
            "phase": phase_of(config, session, progress),
            "responded": {phase: progress.done(phase) for phase in PHASES},
            "planned": planned(config),
            "accuracy": progress.accuracy("main") if at_break else None,
            "participant": session.participant.code,
            "changes": [] if session.state == ACTIVE else _changes(db, study.id),
            "completion": None if session.state == ACTIVE else _completion(db, study, session),
        }
    )


def _changes(db: Db, study_id: int) -> list[str]:
    """Return how a study's main trials change images, in everyday words."""
    query = (
        select(StimulusImageRow.corruption)
        .join(StimulusRow, StimulusRow.id == StimulusImageRow.stimulus_id)
        .where(
            StimulusRow.study_id == study_id,
            StimulusRow.role == "main",
            StimulusImageRow.corruption != CLEAN,
        )
    )
    return changes_of(db.scalars(query.distinct()))


def changes_of(corruptions: Iterable[str]) -> list[str]:
    """Return how images were changed, in everyday words, each once, for the last page.

    Example:
        >>> changes_of(["vcr/median_blur", "frost", "vcr/gaussian_noise", "mine/sepia"])
        ['noise', 'blur', 'frost', 'other']
    """
    found = {
        next((word for part, word in PARTS_OF_NAMES.items() if part in name), "other")
        for name in corruptions
    }
    return [word for word in dict.fromkeys([*PARTS_OF_NAMES.values(), "other"]) if word in found]


def finish(study: OpenStudy, session_id: int, now: datetime) -> SessionState:
    """End a session that is complete or has no stimulus left."""
    with study.database.writing() as db:
        session = locked(db, session_id)
        if session.state == ACTIVE:
            progress, left = progress_of(db, session), StoredStimuli(db, session)
            if next_stimulus(study.config, session, progress, left) != "finish":
                raise Rejection(409, "unfinished", "There are trials left.")
            end(db, session, FINISHED, now)
        return state_of(db, study, session)


def _completion(db: Db, study: OpenStudy, session: SessionRow) -> Completion:
    identity = db.get(IdentityRow, session.id)
    n_main = progress_of(db, session).done("main")
    outcome = outcome_of(session.state, n_main, study.config)
    # Robots are no recruitment platform: they see the page of participants with a plain link.
    platform = session.participant.platform
    recruiter = PLAIN_LINK if platform == ROBOT else RECRUITERS[platform]
    ids = {} if identity is None else identity.ids
    return recruiter.complete(ids, study.config.recruiter_settings, session.code, outcome)
