"""Read a study's responses from the database, all at once, as plain records.

Platform ids are not included.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.storage.database_tables import (
    ExclusionRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)

MAIN = ("main", "catch")
"""Roles of trials in the main part; participants cannot tell these trials apart."""


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


@dataclass(frozen=True)
class TrialResponse:
    """A trial with its response; see `TrialRow` and `ResponseRow` in `database_tables`.

    `stimulus` is the id of the stimulus in the database.
    """

    number: int
    role: str
    truth: str
    choice: str
    correct: bool
    rt_ms: float | None
    stamps: Mapping[str, object]
    flags: tuple[str, ...]
    served_at: datetime
    received_at: datetime
    pair: str | None = None
    images: tuple[ShownImage, ...] = ()
    stimulus: int = 0


@dataclass(frozen=True)
class SessionRecord:
    """One participant's session in one study, with its responses in the order of the trials.

    `subject`: the participant's code. `excluded`: stored exclusions as (rule, detail), by version
    of the rules. `last_seen`: when a trial was last handed out or responded to. `eyesight`: what
    the participant says about it.
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
    excluded: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    eyesight: str | None = None

    def of(self, *roles: str) -> list[TrialResponse]:
        """Return the responses to trials with any of these roles."""
        return [response for response in self.responses if response.role in roles]


def read_sessions(db: Db, study_id: int, session_id: int | None = None) -> list[SessionRecord]:
    """Return a study's sessions in order of their start, or only the session `session_id`."""
    sessions = (
        select(SessionRow, ParticipantRow)
        .join(ParticipantRow)
        .where(SessionRow.study_id == study_id)
    )
    excluded = select(ExclusionRow).join(SessionRow).where(SessionRow.study_id == study_id)
    served = (
        select(TrialRow.session_id, TrialRow.served_at)
        .join(SessionRow)
        .where(SessionRow.study_id == study_id)
    )
    trials = _responded(study_id)
    if session_id is not None:
        sessions = sessions.where(SessionRow.id == session_id)
        excluded = excluded.where(SessionRow.id == session_id)
        served = served.where(SessionRow.id == session_id)
        trials = trials.where(TrialRow.session_id == session_id)
    responses: dict[int, list[TrialResponse]] = {}
    # A single session is read for the quality rules, which need no images.
    images = _images(db, study_id) if session_id is None else {}
    for owner, response in _read(db, trials, images):
        responses.setdefault(owner, []).append(response)
    rules: dict[int, dict[int, tuple[tuple[str, str], ...]]] = {}
    for row in db.execute(excluded.order_by(ExclusionRow.id)).scalars():
        by_version = rules.setdefault(row.session_id, {})
        by_version[row.version] = (*by_version.get(row.version, ()), (row.rule, row.detail))
    last: dict[int, datetime] = {}
    for owner, moment in db.execute(served):
        last[owner] = max(last.get(owner, moment), moment)
    return [
        SessionRecord(
            session.id,
            participant.code,
            participant.platform,
            session.state,
            session.hz,
            session.screen,
            session.created_at,
            session.finished_at,
            max(
                session.created_at,
                last.get(session.id, session.created_at),
                *(response.received_at for response in responses.get(session.id, ())),
            ),
            tuple(responses.get(session.id, ())),
            rules.get(session.id, {}),
            session.eyesight,
        )
        for session, participant in db.execute(sessions.order_by(SessionRow.id))
    ]


def _responded(study_id: int) -> Select[*tuple[object, ...]]:
    return (
        select(
            TrialRow.session_id,
            TrialRow.stimulus_id,
            TrialRow.number,
            TrialRow.role,
            StimulusRow.truth,
            ResponseRow.choice,
            ResponseRow.correct,
            ResponseRow.rt_ms,
            ResponseRow.stamps,
            ResponseRow.flags,
            TrialRow.served_at,
            ResponseRow.received_at,
            StimulusRow.pair,
        )
        .join(ResponseRow, ResponseRow.trial_id == TrialRow.id)
        .join(StimulusRow, StimulusRow.id == TrialRow.stimulus_id)
        .where(StimulusRow.study_id == study_id)
        .order_by(TrialRow.session_id, TrialRow.number)
    )


def _read(
    db: Db, query: Select[*tuple[object, ...]], images: Mapping[int, tuple[ShownImage, ...]]
) -> Iterator[tuple[int, TrialResponse]]:
    for row in db.execute(query):
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
            images=images.get(row.stimulus_id, ()),
            stimulus=row.stimulus_id,
        )
        yield row.session_id, response


def _images(db: Db, study_id: int) -> dict[int, tuple[ShownImage, ...]]:
    """Return the images of every stimulus in a study, by stimulus id."""
    query = (
        select(StimulusImageRow, SourceImageRow)
        .join(SourceImageRow, SourceImageRow.id == StimulusImageRow.source_id)
        .join(StimulusRow, StimulusRow.id == StimulusImageRow.stimulus_id)
        .where(StimulusRow.study_id == study_id)
        .order_by(StimulusImageRow.stimulus_id, StimulusImageRow.place)
    )
    images: dict[int, tuple[ShownImage, ...]] = {}
    for row, source in db.execute(query):
        image = ShownImage(
            name=source.name,
            digest=source.digest,
            corruption=row.corruption,
            parameters=row.parameters,
            delta_v=row.delta_v,
            sha256=row.sha256,
            row=row.row,
        )
        images[row.stimulus_id] = (*images.get(row.stimulus_id, ()), image)
    return images
