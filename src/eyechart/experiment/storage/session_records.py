"""What the database holds of a study's answers, as plain records: read once, then only looked at.

Platform ids are not among it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.storage.database_tables import (
    ExclusionRow,
    ParticipantRow,
    PictureRow,
    ResponseRow,
    SessionRow,
    SourceImageRow,
    StimulusRow,
    TrialRow,
)

MAIN = ("main", "catch")
"""Roles of the trials of the main part, which look alike to participants."""


@dataclass(frozen=True)
class ShownImage:
    """A picture of a trial: the photograph's name and digest, and what was done to it."""

    name: str
    digest: str
    corruption: str
    parameters: Mapping[str, Any]
    delta_v: float | None
    sha256: str
    row: int


@dataclass(frozen=True)
class TrialResponse:
    """A trial that was answered; see `tables.Trial` and `tables.Response`.

    `stimulus`: its row in the database.
    """

    number: int
    role: str
    truth: str
    choice: str
    correct: bool
    rt_ms: float | None
    stamps: Mapping[str, Any]
    flags: tuple[str, ...]
    served_at: datetime
    received_at: datetime
    pair: str | None = None
    pictures: tuple[ShownImage, ...] = ()
    stimulus: int = 0


@dataclass(frozen=True)
class SessionRecord:
    """One participant's session in one study, with its answers in the order of the trials.

    `subject`: the participant's code. `excluded`: exclusions that are written in the database, by
    version, as (rule, detail). `last_seen`: when a trial was last handed out or answered.
    """

    id: int
    subject: str
    platform: str
    state: str
    hz: float | None
    screen: Mapping[str, Any]
    created_at: datetime
    finished_at: datetime | None
    last_seen: datetime
    answers: tuple[TrialResponse, ...]
    excluded: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def of(self, *roles: str) -> list[TrialResponse]:
        """Return the answers of trials of some roles."""
        return [answer for answer in self.answers if answer.role in roles]


def read_sittings(db: Db, study_id: int, session_id: int | None = None) -> list[SessionRecord]:
    """Return the sessions of a study in the order in which they began; one only if it is named."""
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
    trials = _answered(study_id)
    if session_id is not None:
        sessions = sessions.where(SessionRow.id == session_id)
        excluded = excluded.where(SessionRow.id == session_id)
        served = served.where(SessionRow.id == session_id)
        trials = trials.where(TrialRow.session_id == session_id)
    answers: dict[int, list[TrialResponse]] = {}
    pictures = _pictures(db, study_id) if session_id is None else {}
    for owner, answer in _read(db, trials, pictures):
        answers.setdefault(owner, []).append(answer)
    rules: dict[int, dict[int, tuple[tuple[str, str], ...]]] = {}
    for row in db.execute(excluded.order_by(ExclusionRow.id)).scalars():
        own = rules.setdefault(row.session_id, {})
        own[row.version] = (*own.get(row.version, ()), (row.rule, row.detail))
    last: dict[int, datetime] = {}
    for owner, moment in db.execute(served):
        last[owner] = max(last.get(owner, moment), moment)
    return [
        SessionRecord(
            session.id,
            person.code,
            person.platform,
            session.state,
            session.hz,
            session.screen,
            session.created_at,
            session.finished_at,
            max(
                session.created_at,
                last.get(session.id, session.created_at),
                *(answer.received_at for answer in answers.get(session.id, ())),
            ),
            tuple(answers.get(session.id, ())),
            rules.get(session.id, {}),
        )
        for session, person in db.execute(sessions.order_by(SessionRow.id))
    ]


def _answered(study_id: int) -> Select[Any]:
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
    db: Db, query: Select[Any], pictures: Mapping[int, tuple[ShownImage, ...]]
) -> Iterator[tuple[int, TrialResponse]]:
    for (
        owner,
        stimulus,
        number,
        role,
        truth,
        choice,
        correct,
        rt,
        stamps,
        flags,
        *rest,
    ) in db.execute(query):
        served, received, pair = rest
        yield (
            owner,
            TrialResponse(
                number, role, truth, choice, correct, rt, stamps, tuple(map(str, flags)), served,
                received, pair, pictures.get(stimulus, ()), stimulus,
            ),
        )  # fmt: skip


def _pictures(db: Db, study_id: int) -> dict[int, tuple[ShownImage, ...]]:
    """Return the pictures of each stimulus of a study, by the stimulus's id."""
    query = (
        select(PictureRow, SourceImageRow)
        .join(SourceImageRow, SourceImageRow.id == PictureRow.source_id)
        .join(StimulusRow, StimulusRow.id == PictureRow.stimulus_id)
        .where(StimulusRow.study_id == study_id)
        .order_by(PictureRow.stimulus_id, PictureRow.place)
    )
    found: dict[int, tuple[ShownImage, ...]] = {}
    for own, source in db.execute(query):
        shown = ShownImage(
            source.name, source.digest, own.corruption, own.parameters, own.delta_v, own.sha256,
            own.row,
        )  # fmt: skip
        found[own.stimulus_id] = (*found.get(own.stimulus_id, ()), shown)
    return found
