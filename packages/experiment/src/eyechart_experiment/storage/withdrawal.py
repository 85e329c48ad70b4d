"""Delete all data of a participant who withdraws, from all studies of the database.

Keyed hashes of the codes stay in a log, so that no code is given to anybody else, and so that a
restored backup does not bring the data back.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart.core.phrases import count_of
from eyechart_experiment.recruiters import RECRUITERS, platform_title
from eyechart_experiment.storage.database import Database
from eyechart_experiment.storage.database_tables import (
    ACTIVE,
    ConsentRow,
    ExclusionRow,
    ExposureRow,
    IdentityRow,
    ParticipantRow,
    ResponseRow,
    SessionRow,
    StimulusRow,
    StudyRow,
    TrialRow,
)
from eyechart_experiment.storage.experiment_folder import OpenStudy, StudyFolder, append_private
from eyechart_experiment.storage.stimulus_counts import recount
from eyechart_experiment.storage.tokens import pseudonym_digest, withdrawn_digest

LOG = "withdrawals.jsonl"


@dataclass(frozen=True)
class ParticipantData:
    """What a withdrawal deletes. `code`: the participant code; `studies`: their names."""

    code: str
    platform: str
    studies: tuple[str, ...]
    n_responses: int
    began: datetime

    def __str__(self) -> str:
        where = " and ".join(self.studies) or "no study"
        return (
            f"participant {self.code} from {platform_title(self.platform)}, who began on"
            f" {self.began:%Y-%m-%d %H:%M} UTC: {count_of(self.n_responses, 'response')} in {where}"
        )


def find_participant(study: OpenStudy, name: str) -> ParticipantData:
    """Return what is stored about a participant, by a code or the platform's id.

    Raises:
        UsageError: If there is no such participant, or they have withdrawn.
    """
    with study.database.reading() as db:
        return _describe(db, _find(db, study, name))


def withdraw(study: OpenStudy, name: str) -> ParticipantData:
    """Delete a participant by a code or platform id; return what was deleted.

    Not even the list of images seen is kept. The participant's stimuli become available to other
    participants.
    """
    with study.database.writing() as db:
        participant = _find(db, study, name)
        data = _describe(db, participant)
        codes = select(SessionRow.code).where(SessionRow.participant_id == participant.id)
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "codes": [
                withdrawn_digest(study.secret, code)
                for code in (participant.code, *db.scalars(codes))
            ],
        }
        # Before the data are deleted: if that fails, `apply_withdrawals` repeats it.
        append_private(log_path(study.folder), json.dumps(entry))
        _delete(db, participant)
    _forget(study.database)
    return data


def apply_withdrawals(study: OpenStudy) -> int:
    """Delete the participants in the log, who are back if a backup was restored.

    Returns:
        The number of participants deleted.
    """
    withdrawn = read_withdrawals(study.folder)
    if not withdrawn:
        return 0
    with study.database.writing() as db:
        participants = db.scalars(select(ParticipantRow)).all()
        is_back = [
            row for row in participants if withdrawn_digest(study.secret, row.code) in withdrawn
        ]
        for participant in is_back:
            _delete(db, participant)
    if is_back:
        _forget(study.database)
    return len(is_back)


def log_path(folder: StudyFolder) -> Path:
    """Return the path of the log: beside an SQLite file, which studies may share."""
    file = folder.sqlite_file
    return (folder.path if file is None else file.parent) / LOG


def read_withdrawals(folder: StudyFolder) -> dict[str, datetime]:
    """Return the digests of all codes of withdrawn participants, and when they withdrew."""
    path = log_path(folder)
    try:
        entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            digest: datetime.fromisoformat(entry["at"])
            for entry in entries
            for digest in entry["codes"]
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path} cannot be read: restore it from a backup.") from None


def withdrawn_at(folder: StudyFolder, code: str) -> datetime | None:
    """Return when the participant with this code withdrew; None if nobody with it has."""
    return read_withdrawals(folder).get(withdrawn_digest(folder.secret, code))


def _delete(db: Db, participant: ParticipantRow) -> None:
    sessions = select(SessionRow.id).where(SessionRow.participant_id == participant.id)
    trials = select(TrialRow.id).where(TrialRow.session_id.in_(sessions))
    seen = db.scalars(select(TrialRow.stimulus_id).where(TrialRow.session_id.in_(sessions))).all()
    # In this order, because foreign keys do not allow a row without the one it refers to.
    db.execute(delete(ResponseRow).where(ResponseRow.trial_id.in_(trials)))
    db.execute(delete(TrialRow).where(TrialRow.session_id.in_(sessions)))
    db.execute(delete(ExclusionRow).where(ExclusionRow.session_id.in_(sessions)))
    for table in (IdentityRow, ConsentRow, ExposureRow, SessionRow):
        db.execute(delete(table).where(table.participant_id == participant.id))
    db.execute(delete(ParticipantRow).where(ParticipantRow.id == participant.id))
    # This participant's responses and live trials are requested from other participants.
    recount(db, StimulusRow.id.in_(set(seen)))


def active_identities(database: Database, study_id: int) -> int:
    """Return how many sessions of a study that have not ended have platform ids."""
    with database.reading() as db:
        rows = select(IdentityRow.ids).join(SessionRow, SessionRow.id == IdentityRow.session_id)
        rows = rows.where(SessionRow.study_id == study_id, SessionRow.state == ACTIVE)
        # Plain links have no ids, but a row.
        return sum(bool(ids) for ids in db.scalars(rows))


def forget_identities(database: Database, study_id: int) -> int:
    """Delete a study's platform ids, which are needed only for payment; return their number."""
    with database.writing() as db:
        sessions = select(SessionRow.id).where(SessionRow.study_id == study_id)
        rows = db.execute(
            delete(IdentityRow)
            .where(IdentityRow.session_id.in_(sessions))
            .returning(IdentityRow.session_id)
        ).all()
    _forget(database)
    return len(rows)


def _find(db: Db, study: OpenStudy, name: str) -> ParticipantRow:
    digests = [pseudonym_digest(study.secret, platform, name) for platform in RECRUITERS]
    # Codes are typed or pasted by hand, maybe in lower case and with stray spaces.
    code = name.strip().upper()
    participants = db.scalars(
        select(ParticipantRow).where(
            or_(ParticipantRow.code.in_((name, code)), ParticipantRow.digest.in_(digests))
        )
    ).all()
    # The last page shows one code only, which may be the completion code.
    participants = (
        participants
        or db.scalars(select(ParticipantRow).join(SessionRow).where(SessionRow.code == code)).all()
    )
    if len(participants) == 1:
        return participants[0]
    moment = withdrawn_at(study.folder, code)
    if moment is not None:
        raise UsageError(
            f"'{name}' is a code of a participant who withdrew on {moment:%Y-%m-%d}: their data"
            " have been deleted, and nothing is deleted now."
        )
    raise UsageError(
        f"There is no participant '{name}': pass the code that the experiment showed, or the"
        " platform's id."
    )


def _describe(db: Db, participant: ParticipantRow) -> ParticipantData:
    sessions = select(SessionRow.id).where(SessionRow.participant_id == participant.id)
    studies = (
        select(StudyRow.name)
        .join(SessionRow, SessionRow.study_id == StudyRow.id)
        .where(SessionRow.participant_id == participant.id)
        .order_by(StudyRow.name)
    )
    responses = (
        select(func.count())
        .select_from(ResponseRow)
        .join(TrialRow, TrialRow.id == ResponseRow.trial_id)
        .where(TrialRow.session_id.in_(sessions))
    )
    return ParticipantData(
        code=participant.code,
        platform=participant.platform,
        studies=tuple(db.scalars(studies)),
        n_responses=db.scalar(responses) or 0,
        began=participant.created_at,
    )


def _forget(database: Database) -> None:
    """Remove deleted data from the SQLite file and its write-ahead log."""
    if database.is_sqlite:
        # The raw connection: neither statement is allowed in a transaction.
        one = database.engine.raw_connection()
        try:
            one.cursor().execute("VACUUM")
            one.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            one.close()
