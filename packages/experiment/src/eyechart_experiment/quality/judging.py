"""Apply one version of the quality rules to a study's sessions.

Rules flag sessions and never delete anything. They are applied when a session ends, and again when
the study is exported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import and_, delete, exists, func, select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart_experiment.quality import rules_v1, rules_v2
from eyechart_experiment.quality.rules_v1 import QualityRule
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    RESPONDED,
    ExclusionRow,
    SessionRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.session_records import SessionRecord, read_sessions
from eyechart_experiment.storage.stimulus_counts import give_back
from eyechart_experiment.study_config import StudyConfig, config_from


@dataclass(frozen=True)
class RuleSet:
    """All rules of one version.

    `odd`: returns the reasons why single trials do not count, by the number of the trial.
    `provisional`: names of rules that a session can satisfy again if it is resumed.
    """

    version: int
    rules: tuple[QualityRule, ...]
    trials: str
    odd: Callable[[SessionRecord, StudyConfig], dict[int, tuple[str, ...]]]
    provisional: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rules in words."""
        lines = [f"{rule.name}: {rule.text}" for rule in self.rules]
        head = f"Quality rules, version {self.version}. A session does not count if:"
        return "\n".join([head, "", *lines, "", self.trials, ""])


@dataclass(frozen=True)
class SessionVerdict:
    """The result of applying a version's rules to one session.

    `broken` has (rule, detail) for each violation. `odd` maps the number of each trial that does
    not count to the reasons.
    """

    version: int
    broken: tuple[tuple[str, str], ...]
    odd: dict[int, tuple[str, ...]]

    @property
    def counts(self) -> bool:
        """Whether the session's responses count."""
        return not self.broken


@dataclass(frozen=True)
class JudgedSession:
    """A session and its verdict."""

    record: SessionRecord
    verdict: SessionVerdict

    @property
    def has_new_reasons(self) -> bool:
        """Whether the session violates rules that are not yet stored in the database."""
        known = dict(self.record.excluded.get(self.verdict.version, ()))
        return bool(dict(self.verdict.broken).keys() - known.keys())


def _odd_v1(record: SessionRecord, config: StudyConfig) -> dict[int, tuple[str, ...]]:
    return {
        response.number: reasons
        for response in record.responses
        if (reasons := rules_v1.odd(response, record.hz, config))
    }


BY_VERSION = {
    1: RuleSet(1, rules_v1.RULES, rules_v1.TRIALS, _odd_v1),
    2: RuleSet(2, rules_v2.RULES, rules_v2.TRIALS, rules_v2.invalid_reasons, rules_v2.PROVISIONAL),
}
"""The version of a study is in its configuration and never changes."""


def find_rules(version: int) -> RuleSet:
    """Return the rules of a version.

    Raises:
        UsageError: If the version is unknown.
    """
    if version not in BY_VERSION:
        known = ", ".join(map(str, BY_VERSION))
        raise UsageError(
            f"rules must be a known version of the quality rules ({known}), got {version}."
        )
    return BY_VERSION[version]


def judge(record: SessionRecord, config: StudyConfig, version: int | None = None) -> SessionVerdict:
    """Return the verdict on a session, by default under the study's own version of the rules.

    Exclusions stored in the database for that version, including manual ones, count as well.
    """
    rules = find_rules(config.rules if version is None else version)
    stored = record.excluded.get(rules.version, ())
    # Provisional rules are tested again below, since the session may have been resumed.
    broken = {rule: detail for rule, detail in stored if rule not in rules.provisional}
    for rule in rules.rules:
        detail = rule.test(record, config)
        if detail is not None:
            broken[rule.name] = detail
    return SessionVerdict(rules.version, tuple(broken.items()), rules.odd(record, config))


def judge_all(
    records: Sequence[SessionRecord], config: StudyConfig, version: int | None = None
) -> list[JudgedSession]:
    """Return the sessions with their verdicts."""
    return [JudgedSession(record, judge(record, config, version)) for record in records]


def judge_session(db: Db, session: SessionRow) -> list[ExclusionRow]:
    """Return the exclusions to store for a session that has just ended; none if it counts.

    Exclusions of an inactive session that no longer hold, because it was resumed, are deleted.
    """
    config = stored_config(db.get_one(StudyRow, session.study_id))
    provisional = find_rules(config.rules).provisional
    stored = and_(ExclusionRow.session_id == session.id, ExclusionRow.version == config.rules)
    if db.execute(delete(ExclusionRow).where(stored, ExclusionRow.rule.in_(provisional))).rowcount:  # type: ignore[attr-defined]
        # Its responses were given to others for a while; they count again.
        give_back(db, session)
    (record,) = read_sessions(db, session.study_id, session.id)
    verdict = judge(record, config)
    return _rows(record, verdict, {rule for rule, _ in record.excluded.get(verdict.version, ())})


def judge_abandoned(db: Db, study_id: int, now: datetime) -> bool:
    """Exclude sessions that were left too early to count; return whether there were any.

    Their stimuli go to others. A session is left if no trial was handed out for as long as a trial
    may take.
    """
    config = stored_config(db.get_one(StudyRow, study_id))
    if not config.is_protocol_2:
        return False
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
        ~exists().where(
            ExclusionRow.session_id == SessionRow.id, ExclusionRow.version == config.rules
        ),
        n_main > 0,
        n_main < rules_v2.MIN_MAIN_SHARE * config.trials,
    )
    sessions = db.scalars(left.with_for_update()).all()
    for session in sessions:
        db.add_all(judge_session(db, session))
        give_back(db, session)
    return bool(sessions)


def apply_rules(study: OpenStudy) -> int:
    """Store the exclusions of all sessions that have ended; return how many were not yet stored."""
    with study.database.reading() as db:
        records = read_sessions(db, study.id)
    return write_exclusions(study, judge_all(records, study.config))


def write_exclusions(study: OpenStudy, judged: Sequence[JudgedSession]) -> int:
    """Store the exclusions of sessions that have ended; return how many were not yet stored.

    An active session may still satisfy the rules, so nothing is stored until the participant has
    been inactive for as long as a trial may take. Under the study's own version of the rules, the
    responses of excluded sessions are requested again from other participants. The write lock
    is taken only if rows are missing, because participants wait for it.
    """
    now = datetime.now(UTC)
    new = [
        session
        for session in judged
        if has_ended(session.record, study.config, now) and session.has_new_reasons
    ]
    if not new:
        return 0
    added = 0
    with study.database.writing() as db:
        for record, verdict in ((session.record, session.verdict) for session in new):
            # Read again under the write lock: the server may have stored some of them meanwhile.
            known = set(
                db.scalars(
                    select(ExclusionRow.rule).where(
                        ExclusionRow.session_id == record.id,
                        ExclusionRow.version == verdict.version,
                    )
                )
            )
            rows = _rows(record, verdict, known)
            db.add_all(rows)
            added += len(rows)
            # Without new rows, the responses were given back when the known ones were stored.
            if rows and verdict.version == study.config.rules:
                give_back(db, db.get_one(SessionRow, record.id))
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


def _rows(record: SessionRecord, verdict: SessionVerdict, known: set[str]) -> list[ExclusionRow]:
    """Return rows for the rules that a session violates, except for rules in `known`."""
    return [
        ExclusionRow(
            session_id=record.id,
            rule=rule,
            version=verdict.version,
            detail=detail,
            decided_at=datetime.now(UTC),
        )
        for rule, detail in verdict.broken
        if rule not in known
    ]
