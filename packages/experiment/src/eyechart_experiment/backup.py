"""Back up a study while it is in use, check the backup, and put one back.

A backup is a folder with all that another machine needs: the database, the study's files, and its
stimuli. Both databases give one consistent snapshot. Every table is read in the snapshot and again
in the restored copy; the digests must agree. `restore` puts a backup back: onto a new machine, or
in place of a database that was lost or damaged.
"""

import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import uuid4

from sqlalchemy import URL, Connection, create_engine, make_url, select, text
from sqlalchemy.exc import DBAPIError

from eyechart.core.errors import UsageError
from eyechart.core.records import Record
from eyechart.core.storage.files import atomic_file
from eyechart.core.storage.locks import lock_file, try_lock
from eyechart_experiment.design.study_build import RECORD, RENDERED
from eyechart_experiment.export.preregistration import FILE as PREREGISTRATION
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import Base
from eyechart_experiment.storage.experiment_folder import (
    CONFIG,
    DATABASE,
    PLAN,
    RESPONSES,
    ROBOTS,
    SECRET,
    STIMULI,
    StudyFolder,
    append_private,
    connect_study,
    image_path,
    open_study,
    read_pixels,
    write_private,
)
from eyechart_experiment.storage.withdrawal import LOG, apply_withdrawals, log_path
from eyechart_experiment.study_config import read_config

MOMENT = "????????T*Z"
"""Pattern of the time in the name of a backup.

Eight characters before the T: a study named "pilot" must not remove those of "pilot-2".
"""

PROGRAMS = ("pg_dump", "pg_restore")
TIMEOUT_S = 1800

Digests = Mapping[str, tuple[int, str]]
"""Number of rows and digest of their contents, by table."""


FILES = (
    CONFIG, SECRET, PLAN, ROBOTS, PREREGISTRATION, RECORD, RENDERED,
)  # fmt: skip
"""Files of a study's folder that a backup contains if they exist."""

CONTENTS = "backup.json"
DUMP = "responses.pgdump"


class BackupContents(Record):
    """What a backup contains; written last, so that a backup with this file is complete."""

    version: Literal[1]
    """Version of the format."""

    study: str
    """Folder of the study, where `experiment restore` puts it unless told otherwise."""

    database: str
    """File name of the database."""

    files: dict[str, str]
    """SHA-256 of each file, by name."""

    stimuli: tuple[str, ...]
    """SHA-256 of each stimulus's pixels, which is the name of its file."""

    created_at: datetime
    n_responses: int


@dataclass(frozen=True)
class StudyBackup:
    """A backup whose restored copy equals the snapshot: its folder, and its database."""

    folder: Path
    contents: BackupContents

    @property
    def file(self) -> Path:
        """The file of the database."""
        return self.folder / self.contents.database


def back_up(folder: StudyFolder, out: Path, keep: int = 14) -> StudyBackup:
    """Write a backup into a folder, check it, and remove older backups of the same study.

    Args:
        folder: The study.
        out: Folder for the backups; created if it is missing.
        keep: Number of backups to keep, at least 1.

    Raises:
        UsageError: If the backup cannot be written, or differs from the database.
    """
    if keep < 1:
        raise UsageError(f"keep must be at least 1, got {keep}.")
    name = folder.config.name
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_file(out / name):
            # Left by a backup that was killed.
            for leftover in out.glob(f".{name}-{MOMENT}"):
                shutil.rmtree(leftover)
            earlier = sorted(out.glob(f"{name}-{MOMENT}"))
            now = datetime.now(UTC)
            # UTC and fixed width: names sort by time, also when daylight saving time ends.
            target = out / f"{name}-{now:%Y%m%dT%H%M%S%fZ}"
            # Checked before the folder gets its name, so that a bad backup never pushes out a good
            # one.
            temporary = out / f".{target.name}"
            temporary.mkdir(mode=0o700)
            try:
                contents = _write(folder, temporary, earlier[-1] if earlier else None, now)
                temporary.rename(target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            for old in [*earlier, target][:-keep]:
                shutil.rmtree(old)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None
    return StudyBackup(target, contents)


def _write(folder: StudyFolder, out: Path, previous: Path | None, now: datetime) -> BackupContents:
    """Write a backup into an empty folder, checked; return its contents."""
    is_sqlite = folder.sqlite_file is not None
    file = out / (RESPONSES if is_sqlite else DUMP)
    # Private before the first byte is written: a backup may hold platform ids.
    file.touch(mode=0o600)
    back_up_database = _back_up_sqlite if is_sqlite else _back_up_postgresql
    snapshot, restored = back_up_database(folder.database_url, file)
    wrong = [name for name, digest in snapshot.items() if restored[name] != digest]
    if wrong:
        raise UsageError(
            f"The backup differs from the database in the table {wrong[0]}: nothing was kept;"
            " check the disk and try again."
        )
    # After the database: a withdrawal in between is recorded too often, not too rarely.
    sources = [folder.path / name for name in FILES]
    # An SQLite file belongs into the folder that is restored, wherever it was.
    sources += [log_path(folder)] if is_sqlite else [log_path(folder), folder.path / DATABASE]
    for source in sources:
        if source.exists():
            _copy_private(source, out / source.name)
    stimuli = tuple(sorted(path.stem for path in folder.stimuli.glob("*.png")))
    (out / STIMULI).mkdir(mode=0o700)
    for digest in stimuli:
        target = image_path(out, digest)
        # Stimuli never change, so that all backups can share one copy.
        with suppress(OSError):
            if previous is not None:
                os.link(image_path(previous, digest), target)
                continue
        _copy_private(image_path(folder.path, digest), target)
        read_pixels(out, digest, folder.config.side)
    contents = BackupContents(
        version=1,
        study=str(folder.path.resolve()),
        database=file.name,
        files={path.name: _file_digest(path) for path in sorted(out.iterdir()) if path.is_file()},
        stimuli=stimuli,
        created_at=now,
        n_responses=snapshot["response"][0],
    )
    write_private(out / CONTENTS, contents.model_dump_json(indent=1) + "\n")
    return contents


def _copy_private(source: Path, target: Path) -> None:
    """Copy a file; only its owner can read the copy, which is on disk before this returns."""
    with atomic_file(target) as temporary:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())


def _file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _back_up_sqlite(url: str, target: Path) -> tuple[Digests, Digests]:
    """Copy a database; return the digests of its tables and those of the copy."""
    live = open_database(url)
    # One transaction: the digests and the copy are of the same moment.
    with closing(live), live.reading() as db, closing(sqlite3.connect(target)) as copy:
        snapshot = _digests(db.connection())
        source = db.connection().connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.backup(copy)
        (state,) = copy.execute("PRAGMA integrity_check").fetchone()
        # SQLite's integrity check does not look at foreign keys.
        if state != "ok" or copy.execute("PRAGMA foreign_key_check").fetchone():
            raise UsageError(f"The backup is damaged ({state}): check the disk and try again.")
    with _connected(URL.create("sqlite", database=str(target))) as restored:
        return snapshot, _digests(restored)


def _back_up_postgresql(address: str, target: Path) -> tuple[Digests, Digests]:
    """Dump a database and restore it into a new one; return the digests of both."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UsageError(f"A backup needs {' and '.join(missing)}: apt install postgresql-client.")
    url = make_url(address)
    with _connected(url) as live:
        # At PostgreSQL's default level, each statement could see a newer state than the snapshot.
        # It can only be set before the first query.
        live.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        exported = live.scalar(text("SELECT pg_export_snapshot()"))
        snapshot = _digests(live)
        # Within the transaction: the snapshot ends with it.
        _call(url, "pg_dump", "--format=custom", f"--snapshot={exported}", f"--file={target}")
    name = f"check_{uuid4().hex}"
    # PostgreSQL creates and drops databases only outside a transaction.
    with _connected(url, is_autocommit=True) as server:
        try:
            server.execute(text(f"CREATE DATABASE {name}"))
        except DBAPIError:
            raise UsageError(
                f"The role {url.username} must be allowed to create databases, in which backups"
                f" are checked: ALTER ROLE {url.username} CREATEDB."
            ) from None
        try:
            scratch = url.set(database=name)
            # The owner in the backup may be a role that this one must not act for.
            _call(scratch, "pg_restore", "--no-owner", f"--dbname={name}", str(target))
            with _connected(scratch) as copy:
                return snapshot, _digests(copy)
        finally:
            server.execute(text(f"DROP DATABASE {name}"))


def _digests(connection: Connection) -> Digests:
    digests = {}
    for table in Base.metadata.sorted_tables:
        digest, n_rows = hashlib.sha256(), 0
        rows = connection.execute(select(table).order_by(*table.primary_key))
        for row in rows:
            # repr tells a number from its text, and None from an empty text.
            digest.update(repr(tuple(row)).encode())
            n_rows += 1
        digests[table.name] = (n_rows, digest.hexdigest())
    return digests


@contextmanager
def _connected(url: URL, is_autocommit: bool = False) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            if is_autocommit:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split()).rstrip(".")
        raise UsageError(f"The database does not respond: {reason}.") from None
    finally:
        # A pooled connection would keep its database from being dropped.
        engine.dispose()


def _call(url: URL, *words: str) -> None:
    """Run a program of PostgreSQL; a password is passed in the environment, not as an argument."""
    # SQLAlchemy takes the folder of a Unix socket from the query of the address.
    host = url.query.get("host", url.host)
    chosen = {
        "PGHOST": host if isinstance(host, str) else None,
        "PGPORT": None if url.port is None else str(url.port),
        "PGUSER": url.username,
        "PGPASSWORD": None if url.password is None else str(url.password),
        "PGDATABASE": url.database,
    }
    environment = os.environ | {name: value for name, value in chosen.items() if value}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode:
        reason = " ".join(done.stderr.split())[:300].rstrip(".")
        raise UsageError(f"{words[0]} failed: {reason}.")


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
    source = _read_backup(backup)
    target = Path(source.contents.study) if study is None else study
    if (target / CONFIG).exists():
        current, backed_up = open_study(target), open_study(source.folder)
        if (current.config.digest, current.secret) != (backed_up.config.digest, backed_up.secret):
            raise UsageError(
                f"{target} contains another study than the backup: pass another folder."
            )
    _add_missing(source, target)
    folder = open_study(target)
    log = log_path(folder)
    known = set(log.read_text(encoding="utf-8").splitlines()) if log.exists() else set()
    # Withdrawals that this backup and the newer ones beside it know.
    for beside in sorted(
        source.folder.resolve().parent.glob(f"{folder.config.name}-{MOMENT}/{LOG}")
    ):
        for line in beside.read_text(encoding="utf-8").splitlines():
            if line not in known:
                append_private(log, line)
                known.add(line)
    database = folder.sqlite_file
    if database is None and source.contents.database != DUMP:
        raise UsageError(
            f"{target} has its responses in PostgreSQL, but the backup is an SQLite database: pass"
            " another folder."
        )
    if database is None or source.contents.database == DUMP:
        name = make_url(folder.database_url).database
        command = f"createdb {name} && pg_restore --no-owner --dbname={name} {source.file}"
        return RestoredStudy(folder, source, command=command)
    with try_lock(database) as is_free:
        if not is_free:
            raise UsageError(f"A server uses {database}: stop it before you restore a backup.")
        return _replace_database(source, folder, database)


def _read_backup(path: Path) -> StudyBackup:
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
        if not file.is_file() or _file_digest(file) != digest:
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
            # The log of withdrawals is merged instead, see `restore`.
            if name not in (contents.database, LOG) and not (target / name).exists():
                _copy_private(source.folder / name, target / name)
        for digest in contents.stimuli:
            if not image_path(target, digest).exists():
                _copy_private(image_path(source.folder, digest), image_path(target, digest))
    except OSError as error:
        raise UsageError(f"Cannot write into {target}: {error.strerror}.") from None


def _replace_database(source: StudyBackup, folder: StudyFolder, database: Path) -> RestoredStudy:
    temporary = database.with_name(f".{database.name}.restored")
    for ending in SIDECARS:
        # Left by an attempt that was interrupted.
        Path(f"{temporary}{ending}").unlink(missing_ok=True)
    _copy_private(source.file, temporary)
    # Checked, and withdrawals applied, before it takes the place of the current database.
    url = URL.create("sqlite", database=str(temporary)).render_as_string(hide_password=False)
    with connect_study(replace(folder, database_url=url)) as study:
        n_withdrawn = apply_withdrawals(study)
    sidecars = (Path(f"{database}{ending}") for ending in SIDECARS)
    current = [path for path in sidecars if path.exists()]
    aside = None
    if current:
        aside = database.parent / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        aside.mkdir(mode=0o700)
        for path in current:
            path.rename(aside / path.name)
    os.replace(temporary, database)
    return RestoredStudy(folder, source, aside, n_withdrawn)
