"""Put a backup back: onto a new machine, or in place of a database that was lost or damaged."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, make_url

from eyechart.core.errors import UsageError
from eyechart.core.storage.locks import try_lock
from eyechart_experiment.backup.study_backup import (
    CONTENTS,
    DUMP,
    MOMENT,
    BackupContents,
    StudyBackup,
    copy_private,
    file_digest,
)
from eyechart_experiment.storage.experiment_folder import (
    CONFIG,
    STIMULI,
    StudyFolder,
    append_private,
    connect_study,
    image_path,
    open_study,
    read_pixels,
)
from eyechart_experiment.storage.withdrawal import LOG, apply_withdrawals, log_path
from eyechart_experiment.study_config import read_config

SIDECARS = ("", "-wal", "-shm", "-journal")
"""Endings of the files of an SQLite database. A write-ahead log of another database would damage a
restored one.
"""


@dataclass(frozen=True)
class RestoredStudy:
    """A restored study.

    Attributes:
        folder: The study.
        backup: What was restored.
        aside: Folder with the files of the former database; None if there were none.
        n_withdrawn: Number of participants in the backup who have withdrawn, now deleted.
        command: Command that restores the database with PostgreSQL's own tools; "" for SQLite.
    """

    folder: StudyFolder
    backup: StudyBackup
    aside: Path | None = None
    n_withdrawn: int = 0
    command: str = ""


def restore(backup: Path, study: Path | None = None) -> RestoredStudy:
    """Restore a backup into the folder of its study, or into another folder.

    The backup is checked before anything changes. The files of the current database are moved
    aside. Other files of the study are kept if they exist: a list of withdrawals may be newer than
    the backup. Participants who have withdrawn since the backup are deleted again.

    Raises:
        UsageError: If the backup is damaged, the folder has another study, or a server is running.
    """
    source = read_backup(backup)
    target = Path(source.contents.study) if study is None else study
    if (target / CONFIG).exists():
        current, backed_up = open_study(target), open_study(source.folder)
        known = (current.config.digest, current.secret)
        if known != (backed_up.config.digest, backed_up.secret):
            raise UsageError(
                f"{target} contains another study than the backup: pass another folder."
            )
    _add_missing(source, target)
    folder = open_study(target)
    _add_withdrawals(source, folder)
    url = make_url(folder.database_url)
    if source.contents.database == DUMP:
        command = f"createdb {url.database} && pg_restore --no-owner --dbname={url.database}"
        return RestoredStudy(folder, source, command=f"{command} {source.file}")
    database = Path(str(url.database))
    with try_lock(database) as is_free:
        if not is_free:
            raise UsageError(f"A server uses {database}: stop it before you restore a backup.")
        return _replace_database(source, folder, database)


def read_backup(path: Path) -> StudyBackup:
    """Return a backup; raise `UsageError` if it is incomplete or damaged."""
    try:
        text = (path / CONTENTS).read_text(encoding="utf-8")
        contents = BackupContents.model_validate_json(text)
    except (OSError, ValueError):
        raise UsageError(
            f"{path} is not a backup of this version: pass a folder that eyechart experiment backup"
            " has written."
        ) from None
    for name, digest in contents.files.items():
        file = path / name
        if not file.is_file() or file_digest(file) != digest:
            raise UsageError(f"The backup's file {file} is missing or damaged: use another backup.")
    side = read_config(path / CONFIG).side
    for digest in contents.stimuli:
        try:
            read_pixels(path, digest, side)
        except UsageError:
            raise UsageError(
                f"The backup's file {image_path(path, digest)} is missing or damaged: use another"
                " backup."
            ) from None
    return StudyBackup(path, contents)


def _add_missing(source: StudyBackup, target: Path) -> None:
    """Copy the files that the study's folder lacks, except the database."""
    contents = source.contents
    try:
        for folder in (target, target / STIMULI):
            folder.mkdir(mode=0o700, exist_ok=True)
        for name in contents.files:
            # The log of withdrawals is merged instead, see `_add_withdrawals`.
            if name not in (contents.database, LOG) and not (target / name).exists():
                copy_private(source.folder / name, target / name)
        for digest in contents.stimuli:
            if not image_path(target, digest).exists():
                copy_private(image_path(source.folder, digest), image_path(target, digest))
    except OSError as error:
        raise UsageError(f"Cannot write into {target}: {error.strerror}.") from None


def _add_withdrawals(source: StudyBackup, folder: StudyFolder) -> None:
    """Add the withdrawals that this backup and the newer ones beside it know to the log."""
    log = log_path(folder)
    known = set(log.read_text(encoding="utf-8").splitlines()) if log.exists() else set()
    for backup in sorted(source.folder.resolve().parent.glob(f"{folder.config.name}-{MOMENT}")):
        if not (backup / LOG).exists():
            continue
        for line in (backup / LOG).read_text(encoding="utf-8").splitlines():
            if line not in known:
                append_private(log, line)
                known.add(line)


def _replace_database(source: StudyBackup, folder: StudyFolder, database: Path) -> RestoredStudy:
    temporary = database.with_name(f".{database.name}.restored")
    for ending in SIDECARS:
        # Left by an attempt that was interrupted.
        Path(f"{temporary}{ending}").unlink(missing_ok=True)
    copy_private(source.file, temporary)
    # Checked, and withdrawals applied, before it takes the place of the current database.
    url = URL.create("sqlite", database=str(temporary)).render_as_string(hide_password=False)
    with connect_study(replace(folder, database_url=url)) as study:
        n_withdrawn = apply_withdrawals(study)
    current = [Path(f"{database}{ending}") for ending in SIDECARS]
    current = [path for path in current if path.exists()]
    aside = None
    if current:
        aside = database.parent / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        aside.mkdir(mode=0o700)
        for path in current:
            path.rename(aside / path.name)
    os.replace(temporary, database)
    return RestoredStudy(folder, source, aside, n_withdrawn)
