"""Apply the quality rules to a study's sessions.

Rules flag sessions and never delete anything. They are applied when a session ends, and again when
the study is exported. Sessions of a pilot are excluded by hand.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart_experiment.quality.rules import MIN_MAIN_SHARE, PROVISIONAL, RULES
from eyechart_experiment.quality.trial_checks import invalid_reasons
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    RESPONDED,
    ExclusionRow,
    ParticipantRow,
    SessionRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.session_records import SessionRecord, read_sessions
from eyechart_experiment.storage.stimulus_counts import recount_session
from eyechart_experiment.study_config import StudyConfig, config_from

PILOT = "pilot"
"""Rule that excludes a pilot session, in `exclusions.csv` and in the flow of participants."""


@dataclass(frozen=True)
class JudgedSession:
    """A session and the result of applying the rules to it.

    `broken` has (rule, detail) for each violation. `invalid_reasons` maps the number of each trial
    that does not count to the reasons.
    """

    record: SessionRecord
    broken: tuple[tuple[str, str], ...]
    invalid_reasons: dict[int, tuple[str, ...]]

    @property
    def counts(self) -> bool:
        """Whether the session's responses count."""
        return not self.broken


def judge(record: SessionRecord, config: StudyConfig) -> JudgedSession:
    """Apply the rules to a session.

    Exclusions stored in the database, including manual ones, count as well.
    """
    # Provisional rules are tested again below, since the session may have been resumed.
    broken = {rule: detail for rule, detail in record.excluded if rule not in PROVISIONAL}
    for rule in RULES:
        detail = rule.test(record, config)
        if detail is not None:
            broken[rule.name] = detail
    return JudgedSession(record, tuple(broken.items()), invalid_reasons(record, config))


def judge_all(db: Db, study_id: int, config: StudyConfig) -> list[JudgedSession]:
    """Apply the rules to all sessions of a study."""
    return [judge(record, config) for record in read_sessions(db, study_id)]


def judge_session(db: Db, session: SessionRow) -> list[ExclusionRow]:
    """Store and return the exclusions of a session that has just ended; none if it counts.

    Exclusions of an inactive session that no longer hold, because it was resumed, are deleted.
    """
    config = stored_config(db.get_one(StudyRow, session.study_id))
    outdated = delete(ExclusionRow).where(
        ExclusionRow.session_id == session.id, ExclusionRow.rule.in_(PROVISIONAL)
    )
    n_outdated = db.execute(outdated).rowcount  # type: ignore[attr-defined]
    (record,) = read_sessions(db, session.study_id, session.id)
    rows = _rows(judge(record, config), {rule for rule, _ in record.excluded})
    db.add_all(rows)
    # Others get the stimuli of an excluded session; those that were given away for a while count
    # again.
    if n_outdated or rows or record.excluded:
        recount_session(db, session)
    return rows


def judge_abandoned(db: Db, study_id: int, now: datetime) -> bool:
    """Exclude sessions that were left too early to count; return whether there were any.

    Their stimuli go to others. A session is left if no trial was handed out for as long as a trial
    may take.
    """
    config = stored_config(db.get_one(StudyRow, study_id))
    own = TrialRow.session_id == SessionRow.id
    n_main = (
        select(func.count())
        .where(own, TrialRow.role == "main", TrialRow.state == RESPONDED)
        .scalar_subquery()
    )
    silent_since = now - timedelta(minutes=config.lease_minutes)
    left = select(SessionRow).where(
        SessionRow.study_id == study_id,
        SessionRow.state == ACTIVE,
        SessionRow.created_at < silent_since,
        ~exists().where(own, TrialRow.served_at > silent_since),
        ~exists().where(ExclusionRow.session_id == SessionRow.id),
        n_main > 0,
        n_main < MIN_MAIN_SHARE * config.trials,
    )
    sessions = db.scalars(left.with_for_update()).all()
    for session in sessions:
        judge_session(db, session)
    return bool(sessions)


def apply_rules(study: OpenStudy) -> int:
    """Store the exclusions of all sessions that have ended; return how many were not yet stored."""
    with study.database.reading() as db:
        judged = judge_all(db, study.id, study.config)
    return write_exclusions(study, judged)


def write_exclusions(study: OpenStudy, judged: Sequence[JudgedSession]) -> int:
    """Store the exclusions of sessions that have ended; return how many were not yet stored.

    An active session may still satisfy the rules, so nothing is stored until the participant has
    been inactive for as long as a trial may take. The responses of excluded sessions are requested
    again from other participants. The write lock is taken only if rows are missing, because
    participants wait for it.
    """
    now = datetime.now(UTC)
    new = [
        session
        for session in judged
        if has_ended(session.record, study.config, now)
        and dict(session.broken).keys() - dict(session.record.excluded).keys()
    ]
    if not new:
        return 0
    added = 0
    with study.database.writing() as db:
        for session in new:
            # Read again under the write lock: the server may have stored some of them meanwhile.
            stored = select(ExclusionRow.rule).where(ExclusionRow.session_id == session.record.id)
            rows = _rows(session, set(db.scalars(stored)))
            db.add_all(rows)
            added += len(rows)
            # Without new rows, the responses were given back when the known ones were stored.
            if rows:
                recount_session(db, db.get_one(SessionRow, session.record.id))
    return added


def has_ended(record: SessionRecord, config: StudyConfig, now: datetime) -> bool:
    """Return whether a session has ended, or has been inactive too long to be resumed."""
    return record.state != ACTIVE or has_left(record, config, now)


def has_left(record: SessionRecord, config: StudyConfig, now: datetime) -> bool:
    """Return whether an open session has been inactive for as long as a trial may take."""
    silent = now - record.last_seen
    return record.state == ACTIVE and silent > timedelta(minutes=config.lease_minutes)


def stored_config(study: StudyRow) -> StudyConfig:
    """Return the configuration with which a study was created."""
    return config_from(study.config, f"the database's study {study.name}")


def _rows(session: JudgedSession, known: set[str]) -> list[ExclusionRow]:
    """Return rows for the rules that a session violates, except for rules in `known`."""
    return [
        _exclusion(session.record.id, rule, detail)
        for rule, detail in session.broken
        if rule not in known
    ]


def _exclusion(session_id: int, rule: str, detail: str) -> ExclusionRow:
    return ExclusionRow(
        session_id=session_id, rule=rule, detail=detail, decided_at=datetime.now(UTC)
    )


def mark_pilot(study: OpenStudy, codes: Collection[str] | None) -> int:
    """Exclude sessions from the data; their responses are requested from other participants.

    Args:
        study: The study.
        codes: Participant codes or completion codes; None for all sessions so far.

    Returns:
        The number of sessions that were not marked before.

    Raises:
        UsageError: If no session of the study has one of the codes; nothing is marked then.
    """
    n_new = 0
    with study.database.writing() as db:
        rows = db.execute(
            select(SessionRow, ParticipantRow.code)
            .join(ParticipantRow)
            .where(SessionRow.study_id == study.id)
            .order_by(SessionRow.id)
        ).all()
        wanted = {code.strip().upper() for code in codes or ()}
        by_code = {code: session for session, *known in rows for code in (session.code, *known)}
        for code in sorted(wanted - by_code.keys()):
            raise UsageError(f"No session has the code '{code}': nothing is marked.")
        marked = set(db.scalars(select(ExclusionRow.session_id).where(ExclusionRow.rule == PILOT)))
        for session, code in rows:
            is_meant = codes is None or bool(wanted & {session.code, code})
            if not is_meant or session.id in marked:
                continue
            db.add(_exclusion(session.id, PILOT, "marked by experiment pilot"))
            recount_session(db, session)
            n_new += 1
    return n_new
