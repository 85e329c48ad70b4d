"""Count how often each stimulus is taken by live trials and by responses that were not excluded.

A trial may stay live until its lease expires, after `lease_minutes` (see `study_config`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, bindparam, case, exists, func, or_, select, update
from sqlalchemy.orm import Session as Db

from eyechart_experiment.storage.database_tables import (
    CLEAN,
    DROPPED,
    EXPIRED,
    LIVE,
    RESPONDED,
    ExclusionRow,
    SessionRow,
    StimulusImageRow,
    StimulusRow,
    TrialRow,
)

SWEEP = 50
"""Maximum number of expired leases released at once."""

_COUNT = (
    update(StimulusRow)
    # Stimuli without a capacity are not counted: updating them would only cause lock contention.
    .where(StimulusRow.id == bindparam("stimulus_id"), StimulusRow.capacity.is_not(None))
    .values(taken=StimulusRow.taken + bindparam("change"))
)
# Locked trials are skipped: another request is storing their response, or releasing them.
_OVER = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.state == LIVE, TrialRow.expires_at < bindparam("now"))
    .limit(SWEEP)
    .with_for_update(skip_locked=True, of=TrialRow)
)
# Locked, because a concurrent request may release the same trials.
_OUT = (
    select(TrialRow.id, TrialRow.stimulus_id)
    .where(TrialRow.session_id == bindparam("session_id"), TrialRow.state == LIVE)
    .with_for_update()
)


def count(db: Db, stimulus_id: int, change: int) -> None:
    """Add `change` to a stimulus's `taken` count, unless its capacity is unlimited."""
    db.connection().execute(_COUNT, {"stimulus_id": stimulus_id, "change": change})


def try_reserve(db: Db, stimulus_id: int) -> bool:
    """Reserve a stimulus again for a late response; return False if it has enough responses."""
    # In one statement: between a check and an update others could take the last place.
    result = db.execute(
        update(StimulusRow)
        .where(
            StimulusRow.id == stimulus_id,
            or_(StimulusRow.capacity.is_(None), StimulusRow.taken < StimulusRow.capacity),
        )
        .values(taken=StimulusRow.taken + case((StimulusRow.capacity.is_(None), 0), else_=1))
        .execution_options(synchronize_session=False)
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]


def release_expired(db: Db, now: datetime) -> None:
    """Release up to `SWEEP` trials whose lease has expired, in any study."""
    _drop(db, db.connection().execute(_OVER, {"now": now}).all(), EXPIRED, now)


def drop_all(db: Db, session: SessionRow, reason: str, now: datetime) -> None:
    """Drop all live trials of a session."""
    _drop(db, db.connection().execute(_OUT, {"session_id": session.id}).all(), reason, now)


def _drop(db: Db, trials: Sequence[Row[int, int]], reason: str, now: datetime) -> None:
    """Drop locked live trials; their stimuli become available to other participants."""
    if not trials:
        return
    db.connection().execute(
        update(TrialRow)
        .where(TrialRow.id.in_([trial.id for trial in trials]))
        .values(state=DROPPED, drop_reason=reason, dropped_at=now)
    )
    # Always in the same order: two concurrent calls could otherwise deadlock.
    for stimulus_id in sorted(trial.stimulus_id for trial in trials):
        count(db, stimulus_id, -1)


def recount_session(db: Db, session: SessionRow) -> None:
    """Count a session's stimuli again; those of an excluded session become available to others."""
    db.flush()
    responded = select(TrialRow.stimulus_id).where(
        TrialRow.session_id == session.id, TrialRow.state == RESPONDED
    )
    recount(db, StimulusRow.id.in_(responded))


def recount(db: Db, condition: ColumnElement[bool]) -> None:
    """Recompute the `taken` counts of the stimuli that satisfy a condition."""
    wanted = and_(condition, StimulusRow.capacity.is_not(None))
    # Lock first: otherwise trials that arrive in the meantime would be left out of the counts.
    db.execute(
        select(StimulusRow.id).where(wanted).order_by(StimulusRow.id).with_for_update()
    ).all()
    excluded = exists().where(ExclusionRow.session_id == TrialRow.session_id)
    counts = (
        select(func.count())
        .where(
            TrialRow.stimulus_id == StimulusRow.id,
            or_(TrialRow.state == LIVE, and_(TrialRow.state == RESPONDED, ~excluded)),
        )
        .correlate(StimulusRow)
        .scalar_subquery()
    )
    db.execute(
        update(StimulusRow)
        .where(wanted)
        .values(taken=counts)
        .execution_options(synchronize_session=False)
    )


@dataclass(frozen=True)
class StimulusGroup:
    """The main stimuli of one corruption or pair; `full` counts those with all wanted responses."""

    name: str
    stimuli: int
    full: int
    n_responses: int
    wanted: int


def main_stimuli(db: Db, study_id: int) -> Sequence[Row[int, str, int, int | None]]:
    """Return id, corruption or pair, `taken` and capacity of a study's main stimuli."""
    query = (
        select(
            StimulusRow.id,
            func.coalesce(StimulusRow.pair, StimulusImageRow.corruption).label("name"),
            StimulusRow.taken,
            StimulusRow.capacity,
        )
        .join(StimulusImageRow, StimulusImageRow.stimulus_id == StimulusRow.id)
        .where(
            StimulusRow.study_id == study_id,
            StimulusRow.role == "main",
            # The first image stands for a pair, which would otherwise count twice.
            StimulusImageRow.place == 0,
        )
    )
    return db.execute(query).all()


def group_stimuli(
    stimuli: Sequence[Row[int, str, int, int | None]], n_responses: Mapping[int, int]
) -> tuple[StimulusGroup, ...]:
    """Return how complete each corruption or pair is, the clean images first.

    Args:
        stimuli: The main stimuli.
        n_responses: Number of responses to each of them, by id.
    """
    rows: dict[str, list[tuple[int, int]]] = {}
    for stimulus in stimuli:
        counts = (n_responses.get(stimulus.id, 0), stimulus.capacity or 0)
        rows.setdefault(stimulus.name, []).append(counts)
    return tuple(
        StimulusGroup(
            name,
            stimuli=len(counts),
            full=sum(responses >= wanted for responses, wanted in counts),
            n_responses=sum(responses for responses, _ in counts),
            wanted=sum(wanted for _, wanted in counts),
        )
        for name, counts in sorted(rows.items(), key=lambda item: (item[0] != CLEAN, item[0]))
    )
