"""Back up a study's database while it is in use, and check that the backup can be restored.

Both databases give one consistent snapshot. Every table is read in the snapshot and again in the
restored copy; the digests must agree.
"""

import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from sqlalchemy import URL, Connection, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from eyechart.core.errors import UsageError
from eyechart.core.storage.files import atomic_file
from eyechart.experiment.storage.database_tables import Base
from eyechart.experiment.storage.experiment_folder import StudyFolder

PROGRAMS = ("pg_dump", "pg_restore")
TIMEOUT_S = 1800
TABLES = tuple(sorted(Base.metadata.tables))

Digests = Mapping[str, tuple[int, str]]
"""Number of rows and digest of their contents, by table."""


@dataclass(frozen=True)
class StudyBackup:
    """A backup whose restored copy equals the snapshot: its file, and its tables' contents."""

    file: Path
    digests: Digests

    @property
    def n_responses(self) -> int:
        """Number of responses in the backup."""
        return self.digests["response"][0]


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
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot write into {out}: {error.strerror}.") from None
    url = make_url(folder.database_url)
    is_sqlite = url.get_backend_name() == "sqlite"
    # UTC and fixed width: names sort by time, also when daylight saving time ends.
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    ending = "sqlite" if is_sqlite else "pgdump"
    target = out / f"{folder.config.name}-{moment}.{ending}"
    with atomic_file(target) as temporary:
        # Private before the first byte is written: a backup may hold platform ids.
        temporary.touch(mode=0o600)
        snapshot = _copy_sqlite(url, temporary) if is_sqlite else _dump(url, temporary)
        restored = _sqlite_digests(temporary) if is_sqlite else _restored(url, temporary)
        # Checked before the file gets its name, so that a bad backup never pushes out a good one.
        wrong = [name for name in TABLES if snapshot[name] != restored[name]]
        if wrong:
            raise UsageError(
                f"The backup differs from the database in the table {wrong[0]}: nothing was kept;"
                " check the disk and try again."
            )
    # Eight characters before the T: a study named "pilot" must not remove those of "pilot-2".
    for old in sorted(out.glob(f"{folder.config.name}-????????T*Z.{ending}"))[:-keep]:
        old.unlink()
    return StudyBackup(target, snapshot)


def _copy_sqlite(url: URL, target: Path) -> Digests:
    path = Path(str(url.database))
    if not path.is_file():
        raise UsageError(f"The database {path} does not exist.")
    # Without an isolation level, the module starts and ends no transactions by itself.
    with closing(sqlite3.connect(path, isolation_level=None)) as live:
        # One transaction: the digests and the copy are of the same moment.
        live.execute("BEGIN")
        digests = _read_sqlite(live)
        with closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
    return digests


def _sqlite_digests(file: Path) -> Digests:
    with closing(sqlite3.connect(file)) as copy:
        (state,) = copy.execute("PRAGMA integrity_check").fetchone()
        # SQLite's integrity check does not look at foreign keys.
        if state != "ok" or copy.execute("PRAGMA foreign_key_check").fetchone():
            raise UsageError(f"The backup is damaged ({state}): check the disk and try again.")
        return _read_sqlite(copy)


def _read_sqlite(connection: sqlite3.Connection) -> Digests:
    digests = {}
    for name in TABLES:
        digest, count = hashlib.sha256(), 0
        # SQLite's backup copies pages, so that the rows keep their ids.
        for row in connection.execute(f"SELECT * FROM {name} ORDER BY rowid"):
            # repr tells a number from its text, and None from an empty text.
            digest.update(repr(row).encode())
            count += 1
        digests[name] = (count, digest.hexdigest())
    return digests


def _dump(url: URL, target: Path) -> Digests:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UsageError(f"A backup needs {' and '.join(missing)}: apt install postgresql-client.")
    with _connected(url) as live:
        # At PostgreSQL's default level, each statement could see a newer state than the snapshot.
        # It can only be set before the first query.
        live.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        snapshot = live.scalar(text("SELECT pg_export_snapshot()"))
        digests = _read_postgresql(live)
        # Within the transaction: the snapshot ends with it.
        _call(url, "pg_dump", "--format=custom", f"--snapshot={snapshot}", f"--file={target}")
    return digests


def _restored(url: URL, file: Path) -> Digests:
    """Restore a backup into a new database, and return what it contains."""
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
            _call(scratch, "pg_restore", "--no-owner", f"--dbname={name}", str(file))
            with _connected(scratch) as copy:
                return _read_postgresql(copy)
        finally:
            server.execute(text(f"DROP DATABASE {name}"))


def _read_postgresql(connection: Connection) -> Digests:
    digests = {}
    for name in TABLES:
        # The digest does not depend on the order of the rows, which a restored table has anew.
        # string_agg gives NULL and not an empty text for a table without rows.
        query = (
            "SELECT count(*), coalesce(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '')"
            f" FROM {name} t"
        )
        count, digest = connection.execute(text(query)).one()
        digests[name] = (int(count), str(digest))
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
