"""A study's database, in SQLite or PostgreSQL: its version, and one writer at a time."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session as Db
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import QueuePool

from eyechart.core.errors import UsageError
from eyechart_experiment.storage.database_tables import Base, SchemaRow

SCHEMA_VERSION = 1
"""Version of the tables; a database of another version is rejected."""

DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg")
WAIT_MS = 10_000
"""How long a writer waits for another process writing to the same SQLite file, in ms."""

THREADS = 4
"""Number of server threads, each with a persistent connection. Further requests wait in a queue;
with more threads, they would wait longer for Python's GIL after each statement.
"""

MORE = 60
"""Additional connections, for work outside the server's threads."""


@dataclass(frozen=True, eq=False)
class Database:
    """A database with this version's tables; writers in this process queue instead of polling."""

    engine: Engine
    _make: sessionmaker[Db]
    _writer: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Db]:
        """Yield a session for reading; its changes are discarded."""
        with self._make() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Db]:
        """Yield a session whose changes are committed atomically at the end of the `with` block."""
        # SQLite allows one writer; PostgreSQL locks rows.
        with self._writer if self.is_sqlite else nullcontext(), self._make() as session:
            session.connection(execution_options={"writes": True})
            yield session
            session.commit()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(url: str, create: bool = False) -> Database:
    """Return the database; `create` makes the tables, and a missing SQLite file.

    Raises:
        UsageError: If there is no database, or it belongs to another version or another program.
    """
    engine = _engine(url)
    try:
        _prepare(engine, create)
    except DBAPIError as error:
        engine.dispose()
        reason = " ".join(str(error.orig).split()).rstrip(".")
        raise UsageError(f"Cannot open the database {_shown(engine)}: {reason}.") from None
    except BaseException:
        engine.dispose()
        raise
    # Rows are read after their session has ended, when expired attributes cannot be loaded.
    return Database(engine, sessionmaker(engine, expire_on_commit=False))


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if parsed.drivername not in DRIVERS:
            raise UsageError(
                f"A database must be sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME, got"
                f" {parsed.drivername}."
            )
        if backend == "sqlite":
            name = parsed.database
            if not name or name == ":memory:" or name.startswith("file:") or "\0" in name:
                raise UsageError("An SQLite database must be a file: sqlite:///responses.sqlite.")
        engine = create_engine(
            parsed,
            poolclass=QueuePool,
            pool_size=THREADS,
            max_overflow=MORE,
            pool_use_lifo=True,
            # Parameters include ids of participants, which must not appear in errors and logs.
            hide_parameters=True,
        )
        if backend == "sqlite":
            _tune_sqlite(engine)
        return engine
    except UsageError:
        raise
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise UsageError(
            f"'{url}' is not a database URL: use sqlite:///FILE or"
            " postgresql+psycopg://USER@HOST/NAME."
        ) from None
    except ModuleNotFoundError as error:
        raise UsageError(
            f"This database requires {error.name}: run  pip install"
            " 'eyechart-experiment[postgresql]'  first."
        ) from None


def _tune_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, record: object) -> None:
        # Transactions are begun explicitly below: the driver would begin them only at the first
        # write, which is too late.
        connection.isolation_level = None
        cursor = connection.cursor()
        # Readers do not block the writer.
        cursor.execute("PRAGMA journal_mode=WAL")
        # A response is acknowledged only once it is on disk.
        cursor.execute("PRAGMA synchronous=FULL")
        # Off by default in SQLite, for every new connection.
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute(f"PRAGMA busy_timeout={WAIT_MS}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # Take the write lock at once: two readers that both upgrade to writing would deadlock.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare(engine: Engine, create: bool) -> None:
    """Check the version of the database, or make its tables."""
    is_sqlite = engine.dialect.name == "sqlite"
    path = Path(str(engine.url.database))
    if is_sqlite and not path.exists():
        if not create:
            raise UsageError(
                f"The database {path} does not exist: create a study with eyechart experiment new."
            )
        if not path.parent.is_dir():
            raise UsageError(f"No such folder: {path.parent}.")
        try:
            # Created here, because SQLite would leave the permissions to the umask.
            path.touch(mode=0o600)
        except OSError as error:
            raise UsageError(f"Cannot write {path}: {error.strerror}.") from None
    with engine.connect() as connection:
        # With the write lock from the start, so that two commands do not both make the tables.
        connection = connection.execution_options(writes=create)
        with connection.begin():
            tables = set(inspect(connection).get_table_names())
            if SchemaRow.__tablename__ in tables:
                version = connection.scalar(select(SchemaRow.version))
                if version != SCHEMA_VERSION:
                    raise UsageError(
                        f"The database {_shown(engine)} has version {version}, not"
                        f" {SCHEMA_VERSION}: use the eyechart version that wrote it."
                    )
                return
            # A database of PostgreSQL may be shared with tables that have other names.
            if tables if is_sqlite else tables & set(Base.metadata.tables):
                raise UsageError(
                    f"The database {_shown(engine)} contains tables of another program or version"
                    f" ({min(tables)}): use another database."
                )
            if not create:
                raise UsageError(
                    "The database has no study: create one with eyechart experiment new."
                )
            Base.metadata.create_all(connection)
            connection.execute(insert(SchemaRow).values(version=SCHEMA_VERSION))


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)
