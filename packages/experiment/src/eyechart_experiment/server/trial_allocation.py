"""Choose a session's next stimulus: one with the fewest responses and an unseen source image.

Everything happens in one transaction. No stimulus is handed out more often than wanted, and no
participant sees a source image twice, even with concurrent requests; only the stimulus of a trial
that the participant dropped is shown again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Select, bindparam, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Db
from sqlalchemy.orm import aliased, contains_eager

from eyechart_experiment.server.session_progress import (
    LOOKAHEAD,
    PHASES,
    SessionProgress,
    end,
    has_evaded,
    has_failed,
    is_catch_due,
    needs_catch,
    planned,
    progress_of,
    roles_of,
)
from eyechart_experiment.server.wire import NextTrial, TrialInfo
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    DROPPED,
    FAILED,
    LIVE,
    RESPONDED,
    ExposureRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.stimulus_counts import count, release_expired
from eyechart_experiment.storage.tokens import new_public_id
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


TRIES = 5

NextStep = Literal["wait", "finish", "failed"]
"""What happens if there is no stimulus to show."""

# Statements are built once: compiling one takes longer than executing it.
_LOCKED = (
    select(SessionRow)
    .join(SessionRow.participant)
    .options(contains_eager(SessionRow.participant))
    .where(SessionRow.id == bindparam("session_id"))
    .with_for_update(of=SessionRow)
)
# Also select the trial already requested with this key, and whether any lease has expired.
_ASKED = _LOCKED.add_columns(
    select(TrialRow.id)
    .where(TrialRow.session_id == SessionRow.id, TrialRow.key == bindparam("key"))
    .scalar_subquery(),
    exists().where(TrialRow.state == LIVE, TrialRow.expires_at < bindparam("now")),
)
_KNOWN = select(
    TrialRow.public_id,
    TrialRow.role,
    TrialRow.number,
    TrialRow.state,
    select(func.count())
    .where(StimulusImageRow.stimulus_id == TrialRow.stimulus_id)
    .scalar_subquery()
    .label("n_images"),
).where(TrialRow.id == bindparam("trial_id"))
# A key is required and unique within the session; the public id is both.
_FREE_KEY = (
    update(TrialRow).where(TrialRow.id == bindparam("trial_id")).values(key=TrialRow.public_id)
)


Admit = Callable[[SessionRow], None]
"""Called in the transaction that continues a session; raises if the caller may not continue it."""


def admit_everybody(session: SessionRow) -> None:
    """Accept every caller."""


def allocate(
    study: OpenStudy, session_id: int, key: str, now: datetime, admit: Admit = admit_everybody
) -> NextTrial:
    """Return a session's next trial, or the next step if no trial can be handed out.

    A request with the same `key` returns the same trial.
    """
    for attempt in range(TRIES):
        try:
            with study.database.writing() as db:
                return _allocate(db, study.config, session_id, key, now, admit=admit)
        except IntegrityError:
            # A concurrent request showed this participant the same image, or used the same key:
            # retry.
            if attempt == TRIES - 1:
                raise
    raise AssertionError


def locked(db: Db, session_id: int) -> SessionRow:
    """Return a session, locked against changes until the transaction ends."""
    return db.execute(_LOCKED, {"session_id": session_id}).scalar_one()


def _allocate(
    db: Db, config: StudyConfig, session_id: int, key: str, now: datetime, *, admit: Admit
) -> NextTrial:
    request = {"session_id": session_id, "key": key, "now": now}
    session, known_id, is_any_over = db.execute(_ASKED, request).one()
    # Under the session's lock: its token or tab may have changed since the request arrived.
    admit(session)
    if known_id is not None:
        known = db.connection().execute(_KNOWN, {"trial_id": known_id}).one()
        if known.state == LIVE:
            trial = _trial_info(config, known.public_id, known.role, known.number, known.n_images)
            return NextTrial(next="trial", trial=trial)
        # Responded to, or dropped before the reply arrived: the key can be used for a new trial.
        db.connection().execute(_FREE_KEY, {"trial_id": known_id})
    if session.state != ACTIVE:
        return NextTrial(next="failed" if session.state == FAILED else "done", trial=None)
    # No background task does this: an expired lease matters only when a stimulus is needed.
    if is_any_over:
        release_expired(db, now)
    progress = progress_of(db, session)
    choice: OpenStimulus | NextStep = "failed"
    if not has_failed(config, progress):
        choice = next_stimulus(config, session, progress, StoredStimuli(db, session))
    if choice == "failed":
        end(db, session, FAILED, now)
    if isinstance(choice, str):
        return NextTrial(next=choice, trial=None)
    return hand_out(db, config, session, choice, number=progress.handed, key=key, now=now)


def next_stimulus(
    config: StudyConfig, session: SessionRow, progress: SessionProgress, pool: StoredStimuli
) -> OpenStimulus | NextStep:
    """Return the stimulus of a pool to show next, or the next step if there is none to show."""
    for phase in PHASES:
        missing = planned(config)[phase] - progress.done(phase)
        n_live = progress.n_live(phase)
        if missing <= 0:
            continue
        if n_live >= LOOKAHEAD:
            return "wait"
        choice = None
        if n_live < missing:
            choice = _find(config, session, progress, pool, phase=phase)
        if choice is not None:
            return choice
        # Nothing is left to show, or the whole phase is live: wait for its responses first.
        if n_live:
            return "wait"
        if phase == "qualification" and has_evaded(config, progress):
            return "failed"
    return "finish"


def _find(
    config: StudyConfig,
    session: SessionRow,
    progress: SessionProgress,
    pool: StoredStimuli,
    *,
    phase: str,
) -> OpenStimulus | Literal["wait"] | None:
    """Return a stimulus for a phase, "wait" if all are locked, or None if none is left."""
    roles = roles_of(phase)
    # Most sessions drop nothing, and the query is then saved.
    if any(progress.dropped.get(role) for role in roles):
        returned = pool.returned(roles)
        if returned is not None:
            return returned
    if phase != "main":
        return pool.reserved(phase)
    if is_catch_due(config, session, progress):
        catch = pool.reserved("catch")
        if catch is not None:
            return catch
    stimulus = pool.least_taken()
    if stimulus is None and needs_catch(config, progress):
        return pool.reserved("catch")
    return stimulus


def hand_out(
    db: Db,
    config: StudyConfig,
    session: SessionRow,
    stimulus: OpenStimulus,
    *,
    number: int,
    key: str,
    now: datetime,
) -> NextTrial:
    """Record a stimulus as live in a session, and its source images as seen by the participant."""
    count(db, stimulus.stimulus_id, 1)
    connection = db.connection()
    if not stimulus.is_return:
        # In a fixed order: a participant active in two studies could otherwise cause a deadlock.
        exposures = [
            {"participant_id": session.participant_id, "source_id": source_id}
            for source_id in sorted(set(stimulus.sources))
        ]
        connection.execute(insert(ExposureRow), exposures)
    public_id = new_public_id()
    row = {
        "public_id": public_id,
        "session_id": session.id,
        "number": number,
        "key": key,
        "role": stimulus.role,
        "stimulus_id": stimulus.stimulus_id,
        "state": LIVE,
        "served_at": now,
        "expires_at": now + timedelta(minutes=config.lease_minutes),
    }
    connection.execute(insert(TrialRow), row)
    trial = _trial_info(config, public_id, stimulus.role, number, len(stimulus.sources))
    return NextTrial(next="trial", trial=trial)


def _trial_info(
    config: StudyConfig, public_id: str, role: str, number: int, n_images: int
) -> TrialInfo:
    return TrialInfo.model_validate(
        {
            "id": public_id,
            # Participants must not be able to recognize catch trials.
            "phase": "main" if role == "catch" else role,
            "images": [f"{public_id}-{index}" for index in range(n_images)],
            "number": number,
            "of": sum(planned(config).values()),
        }
    )
