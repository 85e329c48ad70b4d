"""What the database holds of a study's answers, as plain records: read once, then only looked at.

Platform ids are not among it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.tables import (
    Exclusion,
    Participant,
    Picture,
    Response,
    Session,
    SourceImage,
    Stimulus,
    Trial,
)

MAIN = ("main", "catch")
"""Roles of the trials of the main part, which look alike to participants."""


@dataclass(frozen=True)
class Shown:
    """A picture of a trial: the photograph's name and digest, and what was done to it."""

    name: str
    digest: str
    corruption: str
    parameters: Mapping[str, Any]
    delta_v: float | None
    sha256: str
    row: int


@dataclass(frozen=True)
class Answer:
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
    pictures: tuple[Shown, ...] = ()
    stimulus: int = 0


@dataclass(frozen=True)
class Sitting:
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
    answers: tuple[Answer, ...]
    excluded: Mapping[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def of(self, *roles: str) -> list[Answer]:
        """Return the answers of trials of some roles."""
        return [answer for answer in self.answers if answer.role in roles]


def read_sittings(db: Db, study_id: int, session_id: int | None = None) -> list[Sitting]:
    """Return the sessions of a study in the order in which they began; one only if it is named."""
    sessions = select(Session, Participant).join(Participant).where(Session.study_id == study_id)
    excluded = select(Exclusion).join(Session).where(Session.study_id == study_id)
    served = (
        select(Trial.session_id, Trial.served_at).join(Session).where(Session.study_id == study_id)
    )
    trials = _answered(study_id)
    if session_id is not None:
        sessions = sessions.where(Session.id == session_id)
        excluded = excluded.where(Session.id == session_id)
        served = served.where(Session.id == session_id)
        trials = trials.where(Trial.session_id == session_id)
    answers: dict[int, list[Answer]] = {}
    pictures = _pictures(db, study_id) if session_id is None else {}
    for owner, answer in _read(db, trials, pictures):
        answers.setdefault(owner, []).append(answer)
    rules: dict[int, dict[int, tuple[tuple[str, str], ...]]] = {}
    for row in db.execute(excluded.order_by(Exclusion.id)).scalars():
        own = rules.setdefault(row.session_id, {})
        own[row.version] = (*own.get(row.version, ()), (row.rule, row.detail))
    last: dict[int, datetime] = {}
    for owner, moment in db.execute(served):
        last[owner] = max(last.get(owner, moment), moment)
    return [
        Sitting(
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
        for session, person in db.execute(sessions.order_by(Session.id))
    ]


def _answered(study_id: int) -> Select[Any]:
    return (
        select(
            Trial.session_id,
            Trial.stimulus_id,
            Trial.number,
            Trial.role,
            Stimulus.truth,
            Response.choice,
            Response.correct,
            Response.rt_ms,
            Response.stamps,
            Response.flags,
            Trial.served_at,
            Response.received_at,
            Stimulus.pair,
        )
        .join(Response, Response.trial_id == Trial.id)
        .join(Stimulus, Stimulus.id == Trial.stimulus_id)
        .where(Stimulus.study_id == study_id)
        .order_by(Trial.session_id, Trial.number)
    )


def _read(
    db: Db, query: Select[Any], pictures: Mapping[int, tuple[Shown, ...]]
) -> Iterator[tuple[int, Answer]]:
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
            Answer(
                number, role, truth, choice, correct, rt, stamps, tuple(map(str, flags)), served,
                received, pair, pictures.get(stimulus, ()), stimulus,
            ),
        )  # fmt: skip


def _pictures(db: Db, study_id: int) -> dict[int, tuple[Shown, ...]]:
    """Return the pictures of each stimulus of a study, by the stimulus's id."""
    query = (
        select(Picture, SourceImage)
        .join(SourceImage, SourceImage.id == Picture.source_id)
        .join(Stimulus, Stimulus.id == Picture.stimulus_id)
        .where(Stimulus.study_id == study_id)
        .order_by(Picture.stimulus_id, Picture.place)
    )
    found: dict[int, tuple[Shown, ...]] = {}
    for own, source in db.execute(query):
        shown = Shown(
            source.name, source.digest, own.corruption, own.parameters, own.delta_v, own.sha256,
            own.row,
        )  # fmt: skip
        found[own.stimulus_id] = (*found.get(own.stimulus_id, ()), shown)
    return found
