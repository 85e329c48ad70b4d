"""A study's folder and its rows in the database, opened together."""

from sqlalchemy import select

from eyechart.core.errors import UsageError
from eyechart.experiment.database import Database, open_database
from eyechart.experiment.folder import StudyFolder
from eyechart.experiment.tables import Installation, Study


def open_answers(folder: StudyFolder) -> tuple[Database, Study]:
    """Return the database of a study, brought to this version, and the study's row in it."""
    database = open_database(folder.database_url)
    with database.reading() as db:
        study = db.scalar(select(Study).where(Study.name == folder.config.name))
        secret = db.scalar(select(Installation.secret))
    if secret is not None and secret != folder.fingerprint:
        database.close()
        raise UsageError(
            f"{folder.path / 'secret'} is not the one that the participants of this database are"
            " known by: put that one back."
        )
    if study is None:
        database.close()
        raise UsageError(
            f"The database has no study '{folder.config.name}': make it with experiment new."
        )
    if study.config_hash != folder.config.digest:
        database.close()
        raise UsageError(
            f"{folder.path / 'study.yaml'} was changed after the study was made: put it back, or"
            " make another study."
        )
    return database, study
