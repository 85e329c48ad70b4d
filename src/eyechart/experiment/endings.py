"""The end of a session: what was out goes back, and the quality rules say whether it counts."""

from datetime import datetime

from sqlalchemy import exists, select
from sqlalchemy.orm import Session as Db

from eyechart.experiment.leases import drop_all, give_back
from eyechart.experiment.rules import judge_session
from eyechart.experiment.tables import Exclusion, Session


def end(db: Db, session: Session, state: str, now: datetime) -> None:
    """End a session; if its answers do not count, others are asked for them."""
    session.state = state
    session.finished_at = now
    drop_all(db, session)
    db.flush()
    db.add_all(judge_session(db, session))
    db.flush()
    if db.scalar(select(exists().where(Exclusion.session_id == session.id))):
        give_back(db, session)
