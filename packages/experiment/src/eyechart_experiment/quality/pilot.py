"""Mark sessions as a pilot: the lab's own visits and rehearsals, which are no data."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart_experiment.quality.judging import BY_VERSION
from eyechart_experiment.storage.database_tables import ExclusionRow, ParticipantRow, SessionRow
from eyechart_experiment.storage.experiment_folder import OpenStudy
from eyechart_experiment.storage.stimulus_counts import give_back

PILOT = "pilot"
"""Rule that excludes a pilot session, in `exclusions.csv` and in the flow of participants."""


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
            # Under every version of the rules, because an export may use another one.
            for version in BY_VERSION:
                row = ExclusionRow(
                    session_id=session.id,
                    rule=PILOT,
                    version=version,
                    detail="marked by experiment pilot",
                    decided_at=datetime.now(UTC),
                )
                db.add(row)
            give_back(db, session)
            n_new += 1
    return n_new
