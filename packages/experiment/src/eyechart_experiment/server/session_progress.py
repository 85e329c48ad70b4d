"""Compute a session's progress and its next phase from its trials; neither is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from random import Random

from sqlalchemy import bindparam, case, func, select
from sqlalchemy.orm import Session as Db

from eyechart_experiment.quality.judging import judge_session
from eyechart_experiment.quality.rules import min_catch
from eyechart_experiment.storage.database_tables import (
    DROPPED,
    ENDED,
    FAILED,
    FINISHED,
    LIVE,
    RESPONDED,
    ResponseRow,
    SessionRow,
    TrialRow,
)
from eyechart_experiment.storage.stimulus_counts import drop_all
from eyechart_experiment.study_config import StudyConfig

PHASES = ("practice", "qualification", "main")
LOOKAHEAD = 3
"""Maximum number of live trials per session, so that images can be prefetched."""


# Built once: compiling a statement takes longer than executing it.
_CORRECT = select(ResponseRow.correct).where(ResponseRow.trial_id == TrialRow.id).scalar_subquery()
_COUNTS = (
    select(
        TrialRow.role,
        TrialRow.state,
        func.count().label("trials"),
        # A subquery per trial: a join would read the responses of all sessions.
        func.sum(case((_CORRECT, 1), else_=0)).label("correct"),
    )
    .where(TrialRow.session_id == bindparam("session_id"))
    .group_by(TrialRow.role, TrialRow.state)
)


@dataclass(frozen=True)
class SessionProgress:
    """Counts, by role, of a session's trials that have a response, are live, correct or dropped."""

    responded: Mapping[str, int]
    live: Mapping[str, int]
    correct: Mapping[str, int]
    dropped: Mapping[str, int]

    @property
    def handed(self) -> int:
        """Number of trials ever handed out."""
        return sum(sum(counts.values()) for counts in (self.responded, self.live, self.dropped))

    def done(self, phase: str) -> int:
        """Return how many trials of a phase have a response; catch trials count as main trials."""
        return sum(self.responded.get(role, 0) for role in roles_of(phase))

    def n_live(self, phase: str) -> int:
        """Return how many trials of a phase are live."""
        return sum(self.live.get(role, 0) for role in roles_of(phase))

    def accuracy(self, phase: str) -> float:
        """Return the accuracy of the responses in a phase, or 1 if there are none."""
        correct = sum(self.correct.get(role, 0) for role in roles_of(phase))
        return correct / self.done(phase) if self.done(phase) else 1.0


def roles_of(phase: str) -> tuple[str, ...]:
    """Return the roles that trials of a phase can have."""
    return ("main", "catch") if phase == "main" else (phase,)


def progress_of(db: Db, session: SessionRow) -> SessionProgress:
    """Return the progress of a session."""
    rows = db.connection().execute(_COUNTS, {"session_id": session.id}).all()
    return SessionProgress(
        {row.role: row.trials for row in rows if row.state == RESPONDED},
        {row.role: row.trials for row in rows if row.state == LIVE},
        {row.role: int(row.correct or 0) for row in rows if row.state == RESPONDED},
        {row.role: row.trials for row in rows if row.state == DROPPED},
    )


def planned(config: StudyConfig) -> dict[str, int]:
    """Return the planned number of trials in each phase."""
    main = config.trials + config.catch
    return {"practice": config.practice, "qualification": config.qualification, "main": main}


def phase_of(config: StudyConfig, session: SessionRow, progress: SessionProgress) -> str:
    """Return the phase of a session: one of PHASES, "finish", or "done"."""
    if session.state in (FAILED, FINISHED):
        return "done"
    wanted = planned(config)
    return next((phase for phase in PHASES if progress.done(phase) < wanted[phase]), "finish")


def has_failed(config: StudyConfig, progress: SessionProgress) -> bool:
    """Return whether the qualification is complete and was not passed."""
    if progress.done("qualification") < config.qualification or progress.n_live("qualification"):
        return False
    return progress.accuracy("qualification") < config.pass_share


def has_evaded(config: StudyConfig, progress: SessionProgress) -> bool:
    """Return whether a participant avoided the qualification by dropping its trials.

    Participants who saw the images in another study get no qualification trials; they have dropped
    none, so they have not avoided the qualification.
    """
    if not progress.dropped.get("qualification"):
        return False
    too_few = 2 * progress.done("qualification") < config.qualification
    return too_few or progress.accuracy("qualification") < config.pass_share


def is_catch_due(config: StudyConfig, session: SessionRow, progress: SessionProgress) -> bool:
    """Return whether the next main trial is a catch trial; catch trials have random positions."""
    handed = progress.done("main") + progress.n_live("main")
    so_far = progress.responded.get("catch", 0) + progress.live.get("catch", 0)
    # Compare counts, not positions: a catch trial that was dropped is still due.
    return so_far < sum(position <= handed for position in catch_positions(config, session.seed))


def catch_positions(config: StudyConfig, seed: int) -> list[int]:
    """Return the positions of the catch trials in the main part.

    They follow from the session's stored seed, so that they survive a restart.
    """
    return _positions(planned(config)["main"], config.catch, seed)


# Needed for every main trial, although a session's positions never change.
@lru_cache(maxsize=1024)
def _positions(total: int, n_catch: int, seed: int) -> list[int]:
    if not n_catch:
        return []
    random = Random(seed)
    # One at a random position in each of equal sections, so that whoever has done a part of the
    # trials has done the same part of the catch trials.
    edges = [total * index // n_catch for index in range(n_catch + 1)]
    return [random.randrange(low, high) for low, high in pairwise(edges)]


def needs_catch(config: StudyConfig, progress: SessionProgress) -> bool:
    """Return whether a session for which no main stimulus is left needs more catch trials."""
    so_far = progress.responded.get("catch", 0) + progress.live.get("catch", 0)
    return so_far < min_catch(config)


def end(db: Db, session: SessionRow, state: str, now: datetime) -> None:
    """End a session; responses that do not count will be requested from other participants."""
    session.state = state
    session.finished_at = now
    # Before it is judged, because the rules see dropped trials as well.
    drop_all(db, session, ENDED, now)
    judge_session(db, session)
