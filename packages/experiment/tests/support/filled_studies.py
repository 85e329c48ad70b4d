"""Studies with responses: participants of known behavior, without a browser and without a server.

Rows go into a real database through its models. Nobody sees an image twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import selectinload

from eyechart.images.labels.imagenet import CATEGORIES
from eyechart_experiment.simulate.robots import Reaction, trial_stamps
from eyechart_experiment.storage.database_tables import (
    ExposureRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import connect_study
from eyechart_experiment.storage.session_records import SessionRecord, TrialResponse
from eyechart_experiment.study_config import StudyConfig

START = datetime(2030, 5, 1, 12, tzinfo=UTC)
Choose = Callable[[str, float, np.random.Generator], str]
"""From the truth, Δv and random numbers to how a participant responds."""


@dataclass(frozen=True)
class Robot:
    """How a participant responds. `rt`: mean and spread of the reaction time in ms; there is no
    response where it is above `limit`. `flags`: each with how often it comes. `shown_ms`: how long
    the screen shows an image. `screen`: what the browser says of it."""

    choose: Choose
    rt: tuple[float, float] = (750.0, 180.0)
    flags: Sequence[tuple[str, float]] = ()
    limit: float = 1500.0
    shown_ms: float = 200.0
    screen: dict[str, Any] = field(default_factory=dict)

    def response(
        self, truth: str, delta_v: float, numbers: np.random.Generator
    ) -> tuple[str, float | None, list[str]]:
        """Return the choice, the reaction time and the flags."""
        rt = max(20.0, float(numbers.normal(*self.rt)))
        flags = [name for name, often in self.flags if numbers.random() < often]
        if rt > self.limit:
            return "", None, flags
        return self.choose(truth, delta_v, numbers), rt, flags


def right_with(rate: Callable[[float], float], choices: Sequence[str] = CATEGORIES) -> Choose:
    """Right so often at a Δv, and otherwise any of the other choices."""

    def choose(truth: str, delta_v: float, numbers: np.random.Generator) -> str:
        if numbers.random() < rate(delta_v):
            return truth
        place = choices.index(truth) + 1 + int(numbers.integers(len(choices) - 1))
        return choices[place % len(choices)]

    return choose


def always(choice: str) -> Choose:
    return lambda truth, delta_v, numbers: choice


def anything(choices: Sequence[str] = CATEGORIES) -> Choose:
    return lambda truth, delta_v, numbers: choices[int(numbers.integers(len(choices)))]


def attentive(delta_v: float) -> float:
    """How often an attentive person is right, from 0.95 down to chance."""
    return float(1 / 16 + (0.95 - 1 / 16) / (1 + np.exp(12 * (delta_v - 0.7))))


def stamps_of(robot: Robot, rt: float | None, config: StudyConfig) -> dict[str, float]:
    """Return the stamps of a page that shows the image for as long as the robot says."""
    is_pair = config.kind == "same-different"
    exposure = None if is_pair or robot.shown_ms == 200.0 else robot.shown_ms
    return trial_stamps(Reaction("", rt or 0.0), config, exposure)


def lasting(stamps: dict[str, float]) -> timedelta:
    return timedelta(milliseconds=stamps["end"] + 100)


def sitting_of(robot: Robot, config: StudyConfig, seed: int, **more: Any) -> SessionRecord:
    """Return a whole session of a robot that was never stored; as many of each role as planned."""
    numbers = np.random.default_rng(seed)
    pairs = config.kind == "same-different"
    responses = []
    now = START
    for role in ("practice", "qualification", "main", "catch"):
        count = config.trials if role == "main" else getattr(config, role)
        for place in range(count):
            truth = ("same", "different")[place % 2] if pairs else CATEGORIES[place % 16]
            change = float(numbers.random()) if role == "main" else 0.0
            choice, rt, flags = robot.response(truth, change, numbers)
            stamps = stamps_of(robot, rt, config)
            served, now = now, now + lasting(stamps)
            responses.append(
                TrialResponse(
                    number=len(responses), role=role, truth=truth, choice=choice,
                    correct=choice == truth, rt_ms=rt, stamps=stamps, flags=tuple(flags),
                    served_at=served, received_at=now,
                )
            )  # fmt: skip
    facts = {"state": "finished", "hz": 60.0, "finished_at": START}
    facts |= more
    return SessionRecord(
        id=seed, subject=f"P{seed}", platform="link", screen={}, created_at=START, last_seen=START,
        responses=tuple(responses), **facts,
    )  # fmt: skip


def fill(
    folder: Any,
    robots: Sequence[Robot],
    *,
    counts: dict[str, int] | None = None,
    state: str = "finished",
    seed: int = 0,
    names: str = "P",
    minutes: float = 6.0,
    now: datetime = START,
) -> None:
    """Let robots take part one after the other; main stimuli that have fewest responses come first.

    `counts`: trials of each role, those of the study if not given.
    """
    study = connect_study(folder)
    database = study.database
    config = folder.config
    wanted = {
        "practice": config.practice, "qualification": config.qualification, "main": config.trials,
        "catch": config.catch,
    } | (counts or {})  # fmt: skip
    numbers = np.random.default_rng(seed)
    with database.writing() as db:
        stimuli = db.scalars(
            select(StimulusRow)
            .where(StimulusRow.study_id == study.id)
            .options(selectinload(StimulusRow.images).selectinload(StimulusImageRow.source))
            .order_by(StimulusRow.id)
        ).all()
        # ids given here, for asking the database for each would take most of the time
        ids = count(1 + (db.scalar(select(func.max(TrialRow.id))) or 0))
        for place, robot in enumerate(robots):
            session = _session(db, study.id, f"{names}{place:03d}", robot, state, minutes, now)
            shown = list(_shown(stimuli, wanted, numbers))
            pairs = [
                _response(next(ids), session, stimulus, number, robot, numbers, now, config)
                for number, stimulus in enumerate(shown)
            ]
            db.add_all(trial for trial, _ in pairs)
            db.flush()
            db.add_all(response for _, response in pairs)
            db.add_all(
                ExposureRow(participant_id=session.participant_id, source_id=image.source_id)
                for stimulus in shown
                for image in stimulus.images
            )
    database.close()


def _session(
    db: Any, study_id: int, code: str, robot: Robot, state: str, minutes: float, now: datetime
) -> SessionRow:
    person = ParticipantRow(code=code, platform="link", digest=uuid4().hex, created_at=now)
    db.add(person)
    db.flush()
    session = SessionRow(
        study_id=study_id, participant_id=person.id, state=state, token_hash=uuid4().hex,
        expires_at=now, seed=0, code=uuid4().hex[:16], screen=robot.screen, hz=60.0, created_at=now,
        finished_at=None if state == "active" else now + timedelta(minutes=minutes),
    )  # fmt: skip
    db.add(session)
    db.flush()
    return session


def _shown(
    stimuli: Sequence[StimulusRow], wanted: dict[str, int], numbers: np.random.Generator
) -> Iterator[StimulusRow]:
    """Yield what one person is shown, and count it as taken."""
    seen: set[int] = set()
    for role, most in wanted.items():
        own = [
            each
            for each in stimuli
            if each.role == role and (each.capacity is None or each.taken < each.capacity)
        ]
        order = numbers.random(len(own))
        given = 0
        for index in sorted(range(len(own)), key=lambda i: (own[i].taken, order[i])):
            sources = {image.source_id for image in own[index].images}
            if given < most and not seen & sources:
                seen |= sources
                given += 1
                own[index].taken += 1
                yield own[index]


def _response(
    trial_id: int,
    session: SessionRow,
    stimulus: StimulusRow,
    number: int,
    robot: Robot,
    numbers: np.random.Generator,
    now: datetime,
    config: StudyConfig,
) -> tuple[TrialRow, ResponseRow]:
    change = max(image.delta_v or 0.0 for image in stimulus.images)
    choice, rt, flags = robot.response(stimulus.truth, change, numbers)
    # a trial takes up to 2.3 s
    served, received = (now + timedelta(seconds=3 * n) for n in (number, number + 1))
    trial = TrialRow(
        id=trial_id, public_id=uuid4().hex, session_id=session.id, number=number,
        key=str(uuid4()), role=stimulus.role, stimulus_id=stimulus.id, state="responded",
        served_at=served, expires_at=served,
    )  # fmt: skip
    response = ResponseRow(
        trial_id=trial_id, client_uuid=str(uuid4()), choice=choice,
        correct=choice == stimulus.truth, rt_ms=rt,
        stamps=stamps_of(robot, rt, config) | {"hz": 60}, flags=flags,
        body_hash=b"0" * 32, received_at=received,
    )  # fmt: skip
    return trial, response
