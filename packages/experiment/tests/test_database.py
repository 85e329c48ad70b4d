"""Databases of other versions, of other programs, and none at all; what a server needs to begin."""

import builtins
import socket
import sqlite3
import stat
from uuid import uuid4

import pytest
from sqlalchemy import func, make_url, select, text

from experiment_postgres import postgresql
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.core.errors import UsageError
from eyechart_experiment.server.serve import listen
from eyechart_experiment.storage.database import open_database
from eyechart_experiment.storage.database_tables import ResponseRow, SessionRow, TrialRow
from eyechart_experiment.storage.experiment_folder import connect_study, open_study

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


def test_a_database_of_another_version_is_rejected_and_left_as_it_is(tmp_path, url):
    folder = make_study(tmp_path / "study", sizes=SMALL, url=url)
    with_responses(folder)
    database = open_database(url)
    with database.writing() as db:
        db.execute(text("UPDATE schema_version SET version = 2"))
    for create in (False, True):
        sentence = rejection(open_database, url, create)
        assert "has version 2, not 1: use the eyechart version that wrote it" in sentence
    assert "has version 2, not 1" in rejection(connect_study, folder)
    with database.reading() as db:
        assert db.scalar(select(func.count(ResponseRow.trial_id))) == 3
        assert db.scalar(select(func.count(SessionRow.id))) == 1
    database.close()


def test_rows_may_not_point_to_nothing(tmp_path, url):
    with_responses(make_study(tmp_path / "study", sizes=SMALL, url=url))
    database = open_database(url)
    with pytest.raises(Exception, match=r"(?i)foreign key"), database.writing() as db:
        db.execute(text("DELETE FROM session"))
    database.close()


def test_a_new_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "responses.sqlite"
    database = open_database(f"sqlite:///{path}", create=True)
    with database.writing() as db:
        db.execute(text("INSERT INTO installation (secret, simulated) VALUES ('x', false)"))
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
    for url in (foreign, alike):
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
