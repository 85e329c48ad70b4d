"""Read a study's responses from the database, all at once, as plain records.

Platform ids are not included.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session as Db

from eyechart_experiment.recruiters.recruiter import Outcome
from eyechart_experiment.storage.database_tables import (
    DROPPED,
    EXPIRED,
    FAILED,
    LIVE,
    RESPONDED,
    ExclusionRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.study_config import StudyConfig

MAIN = ("main", "catch")
"""Roles of trials in the main part; participants cannot tell these trials apart."""

MIN_SHARE = 0.5
"""Minimum fraction of the planned main trials of a finished session."""


@dataclass(frozen=True)
class ShownImage:
    """An image shown in a trial: its source image's name and digest, and its corruption."""

    name: str
    digest: str
    corruption: str
    parameters: Mapping[str, float]
    delta_v: float | None
    sha256: str
    row: int


@dataclass(frozen=True, kw_only=True)
class ShownTrial:
    """A trial as it was shown; see `TrialRow` in `database_tables`.

    `stimulus` is the id of the stimulus in the database.
    """

    number: int
    role: str
    truth: str
    served_at: datetime
    pair: str | None = None
    images: tuple[ShownImage, ...] = ()
    stimulus: int = 0


@dataclass(frozen=True, kw_only=True)
class TrialResponse(ShownTrial):
    """A trial with its response; see `ResponseRow` in `database_tables`."""

    choice: str
    correct: bool
    rt_ms: float | None
    stamps: Mapping[str, object]
    flags: tuple[str, ...]
    received_at: datetime


@dataclass(frozen=True, kw_only=True)
class DroppedTrial(ShownTrial):
    """A trial without a response that will not get one."""

    reason: str
    dropped_at: datetime


@dataclass(frozen=True)
class SessionRecord:
    """One participant's session in one study, with its responses in the order of the trials.

    `subject`: the participant's code. `excluded`: stored exclusions as (rule, detail).
    `last_seen`: when a trial was last handed out or responded to. `dropped`: trials
    that the participant was given without responding. `eyesight`: what the participant says about
    it.
    """

    id: int
    subject: str
    platform: str
    state: str
    hz: float | None
    screen: Mapping[str, object]
    created_at: datetime
    finished_at: datetime | None
    last_seen: datetime
    responses: tuple[TrialResponse, ...]
    excluded: tuple[tuple[str, str], ...] = ()
    dropped: tuple[DroppedTrial, ...] = ()
    eyesight: str | None = None

    def of(self, *roles: str) -> list[TrialResponse]:
        """Return the responses to trials with any of these roles."""
        return [response for response in self.responses if response.role in roles]

    def dropped_of(self, *roles: str) -> list[DroppedTrial]:
        """Return the dropped trials with any of these roles."""
        return [trial for trial in self.dropped if trial.role in roles]


def max_delta_v(images: Sequence[ShownImage]) -> float:
    """Return the largest Δv of the images of a trial; an unknown Δv counts as 0."""
    return max((image.delta_v or 0.0 for image in images), default=0.0)


def read_sessions(db: Db, study_id: int, session_id: int | None = None) -> list[SessionRecord]:
    """Return a study's sessions in order of their start, or only the session `session_id`."""
    wanted = [SessionRow.study_id == study_id]
    if session_id is not None:
        wanted.append(SessionRow.id == session_id)
    images = _images(db, study_id, session_id)
    responses: dict[int, list[TrialResponse]] = {}
    dropped: dict[int, list[DroppedTrial]] = {}
    last_seen: dict[int, list[datetime]] = {}
    now = datetime.now(UTC)
    for row in db.execute(_TRIALS.where(*wanted)):
        moments = last_seen.setdefault(row.session_id, [])
        moments += [row.served_at, row.received_at or row.served_at]
        shown = images.get(row.stimulus_id, ())
        if row.state == RESPONDED:
            response = TrialResponse(
                number=row.number,
                role=row.role,
                truth=row.truth,
                choice=row.choice,
                correct=row.correct,
                rt_ms=row.rt_ms,
                stamps=row.stamps,
                flags=tuple(map(str, row.flags)),
                served_at=row.served_at,
                received_at=row.received_at,
                pair=row.pair,
                images=shown,
                stimulus=row.stimulus_id,
            )
            responses.setdefault(row.session_id, []).append(response)
        # An expired trial stays live in the database until its stimulus is needed.
        elif row.state == DROPPED or row.expires_at < now:
            trial = DroppedTrial(
                number=row.number,
                role=row.role,
                truth=row.truth,
                reason=EXPIRED if row.state == LIVE else row.drop_reason,
                served_at=row.served_at,
                dropped_at=row.expires_at if row.state == LIVE else row.dropped_at,
                pair=row.pair,
                images=shown,
                stimulus=row.stimulus_id,
            )
            dropped.setdefault(row.session_id, []).append(trial)
    excluded: dict[int, tuple[tuple[str, str], ...]] = {}
    exclusions = select(ExclusionRow).join(SessionRow).where(*wanted).order_by(ExclusionRow.id)
    for exclusion in db.scalars(exclusions):
        known = excluded.get(exclusion.session_id, ())
        excluded[exclusion.session_id] = (*known, (exclusion.rule, exclusion.detail))
    sessions = select(SessionRow, ParticipantRow).join(ParticipantRow).where(*wanted)
    return [
        SessionRecord(
            id=session.id,
            subject=participant.code,
            platform=participant.platform,
            state=session.state,
            hz=session.hz,
            screen=session.screen,
            created_at=session.created_at,
            finished_at=session.finished_at,
            last_seen=max([session.created_at, *last_seen.get(session.id, ())]),
            responses=tuple(responses.get(session.id, ())),
            excluded=excluded.get(session.id, ()),
            dropped=tuple(dropped.get(session.id, ())),
            eyesight=session.eyesight,
        )
        for session, participant in db.execute(sessions.order_by(SessionRow.id))
    ]


# Columns and not rows, which take several times as long to read.
_TRIALS = (
    select(
        TrialRow.session_id,
        TrialRow.stimulus_id,
        TrialRow.number,
        TrialRow.role,
        TrialRow.state,
        TrialRow.served_at,
        TrialRow.expires_at,
        TrialRow.drop_reason,
        TrialRow.dropped_at,
        StimulusRow.truth,
        StimulusRow.pair,
        ResponseRow.choice,
        ResponseRow.correct,
        ResponseRow.rt_ms,
        ResponseRow.stamps,
        ResponseRow.flags,
        ResponseRow.received_at,
    )
    .join(SessionRow, SessionRow.id == TrialRow.session_id)
    .join(StimulusRow, StimulusRow.id == TrialRow.stimulus_id)
    .outerjoin(ResponseRow, ResponseRow.trial_id == TrialRow.id)
    .order_by(TrialRow.session_id, TrialRow.number)
)


def _images(
    db: Db, study_id: int, session_id: int | None = None
) -> dict[int, tuple[ShownImage, ...]]:
    """Return the images of every stimulus in a study, or in a session, by stimulus id."""
    query = (
        select(StimulusImageRow, SourceImageRow)
        .join(SourceImageRow, SourceImageRow.id == StimulusImageRow.source_id)
        .join(StimulusRow, StimulusRow.id == StimulusImageRow.stimulus_id)
        .where(StimulusRow.study_id == study_id)
        .order_by(StimulusImageRow.stimulus_id, StimulusImageRow.place)
    )
    if session_id is not None:
        in_session = select(TrialRow.stimulus_id).where(TrialRow.session_id == session_id)
        query = query.where(StimulusRow.id.in_(in_session))
    rows = db.execute(query).all()
    names = public_names({source.name for _, source in rows})
    images: dict[int, tuple[ShownImage, ...]] = {}
    for row, source in rows:
        image = ShownImage(
            name=names[source.name],
            digest=source.digest,
            corruption=row.corruption,
            parameters=row.parameters,
            delta_v=row.delta_v,
            sha256=row.sha256,
            row=row.row,
        )
        images[row.stimulus_id] = (*images.get(row.stimulus_id, ()), image)
    return images


def public_names(names: Collection[str]) -> dict[str, str]:
    """Map names of images to names without the folders of the machine on which a study was made.

    Absolute paths become relative to the folder that contains them all; other names are unchanged.

    Example:
        >>> public_names({"/home/lab/a/1.png", "/home/lab/b/1.png"})["/home/lab/b/1.png"]
        'b/1.png'
    """
    absolute = {name for name in names if Path(name).is_absolute()}
    root = Path(os.path.commonpath([Path(name).parent for name in absolute])) if absolute else None
    return {
        name: Path(name).relative_to(root).as_posix() if root and name in absolute else name
        for name in names
    }


def outcome_of(state: str, n_main: int, config: StudyConfig) -> Outcome:
    """Return the outcome of a session that has ended.

    Args:
        state: The session's state, `FAILED` or `FINISHED`.
        n_main: Number of responses in the main part, including catch trials.
        config: Settings of the study.

    Returns:
        "screened-out" if the study ran out of stimuli before the participant had done half of the
        planned trials.
    """
    if state == FAILED:
        return "failed"
    is_short = n_main < MIN_SHARE * (config.trials + config.catch)
    return "screened-out" if is_short else "finished"
