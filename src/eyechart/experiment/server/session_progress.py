"""How far a session has come, and so what comes next: counted from its trials, never stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random

from sqlalchemy import bindparam, case, exists, func, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.quality.judging import judge_session
from eyechart.experiment.storage.database_tables import (
    ACTIVE,
    ANSWERED,
    DROPPED,
    FAILED,
    FINISHED,
    LIVE,
    ExclusionRow,
    ResponseRow,
    SessionRow,
    TrialRow,
)
from eyechart.experiment.storage.stimulus_counts import drop_all, give_back
from eyechart.experiment.study_config import StudyConfig

PHASES = ("practice", "qualification", "main")
LOOKAHEAD = 3
"""How many trials may be out at once, so that pictures can be fetched ahead."""


# written down once: putting a statement together takes longer than what the database does with it
_RIGHT = select(ResponseRow.correct).where(ResponseRow.trial_id == TrialRow.id).scalar_subquery()
_COUNTS = (
    select(
        TrialRow.role,
        TrialRow.state,
        func.count().label("trials"),
        # looked up for each trial: a join would read the answers of all sessions
        func.sum(case((_RIGHT, 1), else_=0)).label("right"),
    )
    .where(TrialRow.session_id == bindparam("session_id"))
    .group_by(TrialRow.role, TrialRow.state)
)


@dataclass(frozen=True)
class SessionProgress:
    """Counts of a session's trials by role: answered, out, answered rightly, and given up."""

    answered: Mapping[str, int]
    live: Mapping[str, int]
    right: Mapping[str, int]
    dropped: Mapping[str, int]

    @property
    def handed(self) -> int:
        """How many trials were ever handed out."""
        return sum(sum(counts.values()) for counts in (self.answered, self.live, self.dropped))

    def done(self, phase: str) -> int:
        """Return how many trials of a phase were answered; catch trials are of the main part."""
        return sum(self.answered.get(role, 0) for role in roles_of(phase))

    def out(self, phase: str) -> int:
        """Return how many trials of a phase are out."""
        return sum(self.live.get(role, 0) for role in roles_of(phase))

    def right_share(self, phase: str) -> float:
        """Return the share of a phase's answers that are right, 1 if there are none."""
        right = sum(self.right.get(role, 0) for role in roles_of(phase))
        return right / self.done(phase) if self.done(phase) else 1.0


def roles_of(phase: str) -> tuple[str, ...]:
    """Return the roles of a phase's trials."""
    return ("main", "catch") if phase == "main" else (phase,)


def progress_of(db: Db, session: SessionRow) -> SessionProgress:
    """Return how far a session has come."""
    rows = db.connection().execute(_COUNTS, {"session_id": session.id}).all()
    return SessionProgress(
        {row.role: row.trials for row in rows if row.state == ANSWERED},
        {row.role: row.trials for row in rows if row.state == LIVE},
        {row.role: int(row.right or 0) for row in rows if row.state == ANSWERED},
        {row.role: row.trials for row in rows if row.state == DROPPED},
    )


def planned(config: StudyConfig) -> dict[str, int]:
    """Return how many trials each phase has."""
    main = config.trials + config.catch
    return {"practice": config.practice, "qualification": config.qualification, "main": main}


def phase_of(config: StudyConfig, session: SessionRow, progress: SessionProgress) -> str:
    """Return the phase that a session is in: one of PHASES, "finish", or "done"."""
    if session.state in (FAILED, FINISHED):
        return "done"
    wanted = planned(config)
    return next((phase for phase in PHASES if progress.done(phase) < wanted[phase]), "finish")


def has_failed(config: StudyConfig, progress: SessionProgress) -> bool:
    """Whether the qualification is over and too little of it was right."""
    if progress.done("qualification") < config.qualification or progress.out("qualification"):
        return False
    return progress.right_share("qualification") < config.pass_share


def has_evaded(config: StudyConfig, progress: SessionProgress) -> bool:
    """Whether a qualification of which nothing is left was dropped rather than passed.

    Who has seen its photographs in another study and so gets none of it is not to blame.
    """
    if not progress.dropped.get("qualification"):
        return False
    too_few = 2 * progress.done("qualification") < config.qualification
    return too_few or progress.right_share("qualification") < config.pass_share


def is_catch_due(config: StudyConfig, session: SessionRow, progress: SessionProgress) -> bool:
    """Whether the next trial of the main part is a catch trial; where they come is random."""
    handed = progress.done("main") + progress.out("main")
    total = planned(config)["main"]
    positions = Random(session.seed).sample(range(total), config.catch)
    so_far = progress.answered.get("catch", 0) + progress.live.get("catch", 0)
    return so_far < sum(position <= handed for position in positions)


def is_active(session: SessionRow) -> bool:
    """Whether a session can go on."""
    return session.state == ACTIVE


def end(db: Db, session: SessionRow, state: str, now: datetime) -> None:
    """End a session; if its answers do not count, others are asked for them."""
    session.state = state
    session.finished_at = now
    drop_all(db, session)
    db.flush()
    db.add_all(judge_session(db, session))
    db.flush()
    if db.scalar(select(exists().where(ExclusionRow.session_id == session.id))):
        give_back(db, session)
