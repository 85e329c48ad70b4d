"""Databases of other versions, of other programs, and none at all; what a server needs to begin."""

import builtins
import shutil
import socket
import sqlite3
import stat
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, inspect, make_url, select, text

from experiment_postgres import postgresql
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.server.serve import listen
from eyechart_experiment.storage.database import MIGRATIONS, open_database
from eyechart_experiment.storage.database_tables import Base, ResponseRow, SessionRow, TrialRow
from eyechart_experiment.storage.experiment_folder import connect_study, open_study

HEAD = max(path.name[:4] for path in (MIGRATIONS / "versions").glob("0*.py"))
NEXT, AFTER = (f"{int(HEAD) + step:04d}" for step in (1, 2))
MORE = f'''
"""A column more in a table that others point to, and one that is named anew."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"


def upgrade() -> None:
    with op.batch_alter_table("session") as batch:
        batch.add_column(sa.Column("note", sa.String(8), nullable=False, server_default="none"))
        batch.alter_column("tab", type_=sa.String(40), existing_type=sa.String(36))
    with op.batch_alter_table("response") as batch:
        batch.alter_column("choice", new_column_name="chosen", existing_type=sa.String(32))
'''
SMALL = Sizes(main=10, stimuli=1)


@pytest.fixture(scope="module")
def server():
    with postgresql() as url:
        yield url


def connected(server):
    """Return a connection of whoever runs the server, to none of the databases of the tests."""
    import psycopg

    host = make_url(server).query["host"]
    return psycopg.connect(host=host, user="eyechart", dbname="postgres", autocommit=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Give the URL of a database that is empty."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'responses.sqlite'}"
    own = request.getfixturevalue("server")
    name = f"d{uuid4().hex}"
    with connected(own) as one:
        one.execute(f"CREATE DATABASE {name}")
    return own.replace("/postgres?", f"/{name}?")


@pytest.fixture
def newer(tmp_path):
    """Give a folder of migrations with one more than there is."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_more.py").write_text(MORE)
    return folder


def with_responses(folder):
    """Let somebody give three responses; return their token and what they said."""
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        for choice in ("cat", "dog", ""):
            assert visitor.response(visitor.next()["trial"]["id"], choice).status_code == 200
    return visitor


def found(url, query):
    """Return the rows of a query."""
    database = open_database(url)
    with database.reading() as db:
        rows = db.execute(text(query)).all()
    database.close()
    return rows


def rejection(do, *given, **named):
    """Return the sentence with which something is rejected."""
    with pytest.raises(UsageError) as error:
        do(*given, **named)
    sentence = str(error.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_migrations_make_the_tables_that_the_code_means(url):
    database = open_database(url, create=True)
    with database.engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
    database.close()


def test_an_older_database_is_migrated_and_keeps_what_it_holds(tmp_path, url, newer):
    folder = make_study(tmp_path / "study", sizes=SMALL, url=url)
    with_responses(folder)
    sessions = "SELECT id, participant_id, seed FROM session"
    before = found(url, sessions)
    database = open_database(url, migrations=newer)
    with database.reading() as db:
        assert db.execute(text("SELECT version_num FROM alembic_version")).all() == [(NEXT,)]
        assert db.execute(text(sessions)).all() == before
        assert db.execute(text("SELECT note FROM session")).all() == [("none",)]
        chosen = db.execute(text("SELECT chosen FROM response ORDER BY trial_id")).all()
        assert chosen == [("cat",), ("dog",), ("",)]
    # and rows still may not point to nothing
    with pytest.raises(Exception, match=r"(?i)foreign key"), database.writing() as db:
        db.execute(text("DELETE FROM session"))
    database.close()
    # once it is migrated it is what it is: again nothing happens, and what is older rejects it
    open_database(url, migrations=newer).close()
    sentence = rejection(open_database, url)
    assert NEXT in sentence and "newer" in sentence


def test_before_a_file_is_migrated_a_copy_is_kept(tmp_path, newer):
    folder = make_study(tmp_path / "study", sizes=SMALL)
    with_responses(folder)
    open_database(folder.database_url, migrations=newer).close()
    copy = tmp_path / "study" / f"responses.sqlite.{HEAD}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    database = open_database(f"sqlite:///{copy}")
    with database.reading() as db:
        assert db.scalars(select(ResponseRow.choice).order_by(ResponseRow.trial_id)).all() == [
            "cat", "dog", "",
        ]  # fmt: skip
        assert db.scalar(select(func.count(SessionRow.id))) == 1
    database.close()
    assert not list(copy.parent.glob(".*tmp"))


def test_a_migration_that_fails_changes_nothing(tmp_path, url, newer):
    folder = make_study(tmp_path / "study", sizes=SMALL, url=url)
    visitor = with_responses(folder)
    broken = newer / "versions" / f"{AFTER}_broken.py"
    broken.write_text(
        f'from alembic import op\nrevision = "{AFTER}"\ndown_revision = "{NEXT}"\n\n'
        'def upgrade():\n    op.drop_table("response")\n    raise OSError("the disk is full")\n'
    )
    with pytest.raises(OSError, match="full"):
        open_database(url, migrations=newer)
    with in_process(folder) as client:
        visitor.client = client
        assert sum(visitor.state()["responded"].values()) == 3
        with client.database.reading() as db:
            assert db.scalar(select(func.count(ResponseRow.trial_id))) == 3


def test_a_migration_that_loses_what_others_point_to_is_undone(tmp_path, newer):
    folder = make_study(tmp_path / "study", sizes=SMALL)
    with_responses(folder)
    (newer / "versions" / f"{NEXT}_more.py").write_text(
        f'from alembic import op\nrevision = "{NEXT}"\ndown_revision = "{HEAD}"\n\n'
        'def upgrade():\n    op.execute("DELETE FROM session")\n'
    )
    with pytest.raises(RuntimeError, match="dangling foreign key"):
        open_database(folder.database_url, migrations=newer)
    assert found(folder.database_url, "SELECT count(*) FROM session") == [(1,)]


def test_a_new_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "responses.sqlite"
    database = open_database(f"sqlite:///{path}", create=True)
    with database.writing() as db:
        db.execute(text("INSERT INTO installation (secret) VALUES ('x')"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    database.close()
    assert path.name in modes and set(modes.values()) == {0o600}


@pytest.mark.parametrize("create", [False, True])
def test_files_of_others_are_rejected_and_left_as_they_are(tmp_path, create):
    def made(name, *statements):
        with sqlite3.connect(tmp_path / name) as one:
            for each in statements:
                one.execute(each)
        one.close()
        return f"sqlite:///{tmp_path / name}"

    foreign = made("foreign", "CREATE TABLE birds (name)", "INSERT INTO birds VALUES ('wren')")
    alike = made("alike", "CREATE TABLE study (id)", "CREATE TABLE birds (name)")
    version = "CREATE TABLE alembic_version (version_num)"
    other = made("other", version, "INSERT INTO alembic_version VALUES ('ab12')")
    two = made("two", version, "INSERT INTO alembic_version VALUES ('a'), ('b')")
    odd = made("odd", "CREATE TABLE alembic_version (something)")
    for url in (foreign, alike, other, two, odd):
        assert "another program" in rejection(open_database, url, create)
    with sqlite3.connect(tmp_path / "foreign") as one:
        assert one.execute("SELECT name FROM sqlite_master").fetchall() == [("birds",)]
    one.close()
    (tmp_path / "text").write_text("hello " * 1000)
    assert "not a database" in rejection(open_database, f"sqlite:///{tmp_path / 'text'}", create)
    assert (tmp_path / "text").read_text() == "hello " * 1000
    (tmp_path / "folder").mkdir()
    assert "unable to open" in rejection(open_database, f"sqlite:///{tmp_path / 'folder'}", create)


def test_what_is_not_there_is_said_so(tmp_path):
    assert "does not exist" in rejection(open_database, f"sqlite:///{tmp_path}/none")
    assert not (tmp_path / "none").exists()
    assert "No such folder" in rejection(open_database, f"sqlite:///{tmp_path}/a/b", create=True)
    (tmp_path / "empty").touch()
    assert "no study" in rejection(open_database, f"sqlite:///{tmp_path}/empty")


@pytest.mark.parametrize(
    "url",
    ["", "responses.sqlite", "http://example.org", "mysql://u@h/d", "postgresql+asyncpg://u@h/d",
     "sqlite+aiosqlite:///x", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true",
     "postgresql+psycopg://u@h:port/d", "sqlite:///a\0b"],
)  # fmt: skip
def test_what_is_no_address_of_a_database_is_rejected(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    sentence = rejection(open_database, url, create=True)
    assert "sqlite:///" in sentence
    assert not list(tmp_path.iterdir())


def test_a_postgresql_that_is_not_there_is_said_so_without_the_password(tmp_path):
    for address in ("u:hush@127.0.0.1:1/d", f"u:hush@/d?host={tmp_path}", "u:hush@h.invalid/d"):
        sentence = rejection(open_database, f"postgresql+psycopg://{address}")
        assert "Cannot open the database" in sentence and "hush" not in sentence


def test_a_missing_driver_is_said_with_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.split(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    sentence = rejection(open_database, "postgresql+psycopg://u@h/d")
    assert "pip install 'eyechart-experiment[postgresql]'" in sentence


def test_a_database_without_the_study_is_rejected_and_so_is_another_secret(tmp_path, url):
    folder = make_study(tmp_path / "one", "one", SMALL, url=url)
    other = make_study(tmp_path / "two", "two", SMALL, secret=folder.secret.hex())
    (tmp_path / "two" / "database.txt").write_text(url)
    assert "no study 'two'" in rejection(connect_study, open_study(tmp_path / "two"))
    (tmp_path / "one" / "secret").write_text("ab" * 32)
    assert "secret" in rejection(connect_study, open_study(tmp_path / "one"))
    assert other.config.name == "two"


def test_a_study_that_was_changed_afterwards_is_rejected(tmp_path):
    make_study(tmp_path / "study", sizes=SMALL)
    file = tmp_path / "study" / "study.yaml"
    before = file.read_text()
    file.write_text(before.replace("trials: 8", "trials: 7"))
    assert "changed after" in rejection(connect_study, open_study(tmp_path / "study"))
    file.write_text(before)
    connect_study(open_study(tmp_path / "study")).database.close()


def test_a_port_in_use_and_a_host_of_others_are_rejected():
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        assert f"port {port}" in rejection(listen, "127.0.0.1", port)
    for host in (
        "192.0.2.1",
        "no.such.host.invalid",
        "a" * 80,
        "a..b",
        "2001:db8::1",
        ""[:0] + "%",
    ):
        assert f"--host {host} is not an address" in rejection(listen, host, 0)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_while_a_database_is_away_responses_are_neither_taken_nor_lost(tmp_path, url, server):
    folder = make_study(tmp_path / "study", sizes=SMALL, url=url)
    name = make_url(url).database
    out = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    with in_process(folder) as client, connected(server) as operator:
        visitor = Visitor(client).begin()
        trial = visitor.next()["trial"]["id"]
        body = {"uuid": str(uuid4()), "choice": "cat", "rt_ms": 1, "stamps": {}, "flags": []}
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        operator.execute(out)
        for reply in (visitor.put(trial, body), visitor.ask(), client.get("/healthz")):
            assert (reply.status_code, reply.json()["code"]) == (503, "trouble")
            assert int(reply.headers["retry-after"]) > 0
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert visitor.put(trial, body).status_code == 200
        assert client.get("/healthz").status_code == 200
        # lines that were cut are noticed by the first who uses one, and by nobody after that
        operator.execute(out)
        assert [client.get("/healthz").status_code for _ in range(6)] == [503] + 5 * [200]


def test_text_that_postgresql_cannot_store_never_gets_there(tmp_path, url):
    folder = make_study(tmp_path / "study", sizes=SMALL, url=url)
    with in_process(folder) as client:
        visitor = Visitor(client).begin()
        trial = visitor.next()["trial"]["id"]
        headers = visitor.headers | {"content-type": "application/json"}
        join, own = "/api/studies/small/sessions", '{"client": "c"}'
        response = '{"uuid": "ID", "choice": "", "rt_ms": 1, "stamps": {}, "flags": []}'
        response = response.replace("ID", str(uuid4()))
        for odd in (r"\u0000", r"\ud800", r"a\u0000b", r"\udfff\ud800"):
            ids = f'{{"PROLIFIC_PID": "p{odd}", "STUDY_ID": "s", "SESSION_ID": "x"}}'
            screen = f'{{"width": "{odd}"}}'
            for path, content in (
                (f"/api/trials/{trial}/response", response.replace('""', f'"{odd}"')),
                (f"/api/trials/{trial}/response", response.replace("[]", f'["{odd}"]')),
                (f"/api/trials/{trial}/response", response.replace("{}", f'{{"{odd}": 1}}')),
                ("/api/session/tab", f'{{"tab": "{odd}"}}'),
                ("/api/trials", f'{{"key": "{odd}"}}'),
                (join, f'{{"platform": "prolific", "consent": true, "ids": {ids}}}'),
                (
                    join,
                    f'{{"platform": "link", "consent": true, "ids": {own}, "screen": {screen}}}',
                ),
            ):
                method = "PUT" if path.endswith("response") else "POST"
                reply = client.request(method, path, content=content, headers=headers)
                assert (reply.status_code, reply.json()["code"]) == (422, "bad_request")
        # and numbers at the edges of what there is
        stamps = {"fixation": 5e-324, "end": 3_600_000.0, "hz": 0.1 + 0.2, "mask": -0.0}
        assert (
            visitor.response(trial, rt_ms=2.2250738585072014e-308, stamps=stamps).status_code == 200
        )
        with client.database.reading() as db:
            stored = db.execute(select(ResponseRow.stamps, ResponseRow.rt_ms).join(TrialRow)).one()
        assert stored.stamps == stamps and stored.rt_ms == 2.2250738585072014e-308


def test_the_tables_of_a_migrated_and_a_new_database_are_the_same(tmp_path, newer):
    old = make_study(tmp_path / "study", sizes=SMALL).database_url
    new = f"sqlite:///{tmp_path / 'new.sqlite'}"
    found = []
    for url in (old, new):
        database = open_database(url, create=True, migrations=newer)
        with database.engine.connect() as connection:
            found.append(
                {
                    name: [str(column) for column in inspect(connection).get_columns(name)]
                    for name in inspect(connection).get_table_names()
                }
            )
        database.close()
    assert found[0] == found[1]
