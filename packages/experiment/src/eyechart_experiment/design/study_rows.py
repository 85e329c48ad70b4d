"""Write a study into its database, which may contain other studies, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Db

from eyechart.core.errors import UsageError
from eyechart_experiment.design.stimulus_design import PlannedStimulus
from eyechart_experiment.design.study_samples import StudySample
from eyechart_experiment.storage.database import Database
from eyechart_experiment.storage.database_tables import (
    InstallationRow,
    SourceImageRow,
    StimulusImageRow,
    StimulusRow,
    StudyRow,
)
from eyechart_experiment.study_config import StudyConfig

AT_ONCE = 500
"""Number of source images looked up in one query."""


@dataclass(frozen=True)
class StudyEntry:
    """A study as it is stored in the database.

    `fingerprint` identifies the secret. `created_at` is when the folder was created. A resumed
    build uses this time to recognize a study that was stored before the interruption.
    """

    config: StudyConfig
    stimuli: Sequence[PlannedStimulus]
    fingerprint: str
    created_at: datetime
    seed: int


def is_stored(db: Db, config: StudyConfig, fingerprint: str, created_at: datetime) -> bool:
    """Return whether this study is already stored.

    Raises:
        UsageError: If another study has the same name, or the database has a different secret.
    """
    known = db.scalar(select(InstallationRow.secret))
    if known is not None and known != fingerprint:
        raise UsageError(
            "The studies in the database use a different secret, so their participants would not"
            " be recognized: pass --secret with the folder of the first study."
        )
    study = db.scalar(select(StudyRow).where(StudyRow.name == config.name))
    if study is None:
        return False
    if study.created_at != created_at:
        raise UsageError(
            f"The database already has a study named '{config.name}': choose another --name."
        )
    return True


def store(database: Database, entry: StudyEntry, digests: Mapping[int, str]) -> None:
    """Write a study in one transaction; `digests` maps test-set rows to pixel SHA-256 digests."""
    try:
        with database.writing() as db:
            if not is_stored(db, entry.config, entry.fingerprint, entry.created_at):
                _add(db, entry, digests)
    except IntegrityError:
        raise UsageError(
            "Another process wrote a study into the database at the same time: run the command"
            " again."
        ) from None


def _add(db: Db, entry: StudyEntry, digests: Mapping[int, str]) -> None:
    if db.scalar(select(InstallationRow.id)) is None:
        db.add(InstallationRow(id=1, secret=entry.fingerprint))
    config = entry.config
    study = StudyRow(
        name=config.name,
        config=config.plain(),
        config_hash=config.digest,
        status="open",
        created_at=entry.created_at,
    )
    db.add(study)
    db.flush()
    sources = _sources(db, entry.stimuli)
    orders = np.random.default_rng(entry.seed).random(len(entry.stimuli))
    db.add_all(
        StimulusRow(
            study_id=study.id,
            role=planned.role,
            truth=planned.truth,
            capacity=planned.capacity,
            taken=0,
            shuffle=float(order),
            pair=planned.pair,
            images=[
                _image(row, number, sources[row.digest], digests[row.row])
                for number, row in enumerate(planned.images)
            ],
        )
        for planned, order in zip(entry.stimuli, orders, strict=True)
    )


def _image(row: StudySample, index: int, source_id: int, sha256: str) -> StimulusImageRow:
    return StimulusImageRow(
        place=index,
        source_id=source_id,
        row=row.row,
        corruption=row.corruption,
        parameters=dict(row.parameters),
        delta_v=row.delta_v,
        sha256=sha256,
    )


def _sources(db: Db, stimuli: Sequence[PlannedStimulus]) -> dict[str, int]:
    """Return the ids of source images by digest; missing images are added to the database."""
    wanted = {row.digest: row for planned in stimuli for row in planned.images}
    digests = list(wanted)
    known: dict[str, SourceImageRow] = {}
    for start in range(0, len(digests), AT_ONCE):
        part = digests[start : start + AT_ONCE]
        rows = db.scalars(select(SourceImageRow).where(SourceImageRow.digest.in_(part)))
        known |= {source.digest: source for source in rows}
    for digest, row in wanted.items():
        source = known.get(digest)
        if source is None:
            source = SourceImageRow(digest=digest, name=row.name, category=row.category)
            known[digest] = source
            db.add(source)
        elif row.category and source.category and row.category != source.category:
            raise UsageError(
                f"{row.name} is labeled {row.category}, but it is labeled {source.category} in "
                "another study in the database: correct its label, or pass another --database."
            )
        elif row.category:
            # A same/different study may have stored the image without a category.
            source.category = row.category
    db.flush()
    return {digest: source.id for digest, source in known.items()}
