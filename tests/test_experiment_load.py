"""Many participants at once on SQLite and PostgreSQL, and a server that is killed meanwhile."""

import shutil
import sqlite3
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select

from experiment_invariants import FILLED, NEVER, rows, violations
from experiment_load import Load
from experiment_load_runs import Server, draw, make_load_study, run_load
from experiment_postgres import postgresql
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart.experiment.allocation import _allocate, locked
from eyechart.experiment.leases import recount
from eyechart.experiment.tables import Session

BOUND_MS = 250.0
MANY = Sizes(main=500, stimuli=4, practice=16, qualification=16, catch=16)
FEW = Sizes(main=100, stimuli=3, practice=8, qualification=8, catch=8)


@contextmanager
def database(kind):
    """Give the URL of a new database, None for the study's own file."""
    if kind == "sqlite":
        yield None
        return
    with postgresql() as url:
        yield url


@contextmanager
def serving(folder, pace=1.0, mode="usual"):
    server = Server(folder, pace, mode)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def ask(server, pictures, seconds, **more):
    return Load(f"http://127.0.0.1:{server.port}", "load", str(pictures.key), seconds, **more)


def check(folder, result):
    """All that must hold: in the database, and as the participants saw it."""
    assert violations(folder.database_url, result.sent, result.acknowledged) == {}
    assert [Counter(own).most_common(1) for own in result.seen if len(own) != len(set(own))] == []


def answer_every_two_seconds(tmp_path, kind, pictures, seconds, kills_at):
    """Run 64 participants on 2,000 stimuli, print the figures and check everything."""
    with database(kind) as url:
        path = tmp_path / kind
        folder = make_load_study(path, pictures, MANY, url=url, k=5, trials=100, catch=8)
        with serving(folder) as server:
            summary, result = run_load(server, ask(server, pictures, seconds), kills_at)
        print(f"\n{kind}: {summary}")
        check(folder, result)
        assert summary.kills == len(kills_at)
        # an answer every two seconds of each, less what a restart takes and the beginning
        away = 5 + 6 * len(kills_at)
        assert summary.acknowledged > 64 * (seconds - away) / 2 * 0.8
        assert not [status for status in result.statuses if status not in ("200", "201", "lost")]
        assert summary.p99 < BOUND_MS
        return summary, result


@pytest.mark.timeout(280)
def test_no_answer_is_lost_and_no_stimulus_overfilled_when_64_answer_and_the_server_is_killed(
    tmp_path,
):
    # one after the other: together they would have half a core each
    pictures = draw(tmp_path / "pictures", MANY)
    for kind in ("sqlite", "postgresql"):
        answer_every_two_seconds(tmp_path, kind, pictures, 30, [12])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_same_holds_for_five_minutes_and_two_kills(tmp_path, kind):
    pictures = draw(tmp_path / "pictures", MANY)
    _, result = answer_every_two_seconds(tmp_path, kind, pictures, 300, [90, 200])
    # most have finished meanwhile, and others came after them
    assert result.ends["finished"] > 40


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_stimulus_is_filled_to_exactly_k_whoever_guesses_leaves_or_is_cut_off(tmp_path, kind):
    pictures = draw(tmp_path / "pictures", FEW)
    with database(kind) as url:
        folder = make_load_study(tmp_path / "study", pictures, FEW, url=url, k=5, trials=18,
                                 catch=4, lease_minutes=0.1)  # fmt: skip
        with serving(folder, pace=1000) as server:
            load = ask(server, pictures, 400, think_s=0, guessers=8, leavers=7, patience_s=10)
            summary, result = run_load(server, load, [6, 15])
        print(f"\n{kind}, filled: {summary}; {dict(result.ends)}")
        check(folder, result)
        filled = rows(folder.database_url, FILLED)
        assert len(filled) == 300
        assert Counter(count for _, _, count in filled) == {5: 300}
        assert rows(folder.database_url, "SELECT count(*) FROM exclusion")[0][0] > 0
        assert result.ends["left"] > 0 and result.ends["finished"] > 60
        assert not [status for status in result.statuses if status.startswith("5")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_allocation_that_counts_first_and_chooses_later_is_found_out(tmp_path, kind):
    pictures = draw(tmp_path / "pictures", FEW)
    with database(kind) as url:
        folder = make_load_study(tmp_path / "study", pictures, FEW, url=url, k=5, trials=18,
                                 catch=4)  # fmt: skip
        with serving(folder, pace=1000, mode="careless") as server:
            load = ask(server, pictures, 60, think_s=0)
            _, result = run_load(server, load)
        found = violations(folder.database_url, result.sent, result.acknowledged)
        assert len(found["above capacity"]) > 10


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Give a small study on SQLite with answers, and what its participants remember."""
    folder = make_study(tmp_path_factory.mktemp("answered") / "study", practice=0, qualification=0)
    sent = {}
    with in_process(folder) as client:
        for _ in range(3):
            visitor = Visitor(client).begin()
            for _ in range(6):
                trial = visitor.next()["trial"]["id"]
                uuid = str(uuid4())
                assert visitor.answer(trial, "cat", uuid=uuid).status_code == 200
                sent[trial] = [uuid, "cat"]
            visitor.next()
    return folder, sent


HARM = {
    "above capacity": "UPDATE trial SET stimulus_id = (SELECT min(id) FROM stimulus)",
    "photograph twice": """UPDATE trial SET stimulus_id = (SELECT t.stimulus_id FROM trial t
        WHERE t.session_id = trial.session_id ORDER BY t.id LIMIT 1) WHERE number = 3""",
    "miscounted": "UPDATE stimulus SET taken = taken + 1 WHERE id = 7",
    "answered without an answer": "DELETE FROM response WHERE trial_id = 2",
    "an answer to a trial that is not answered": "UPDATE trial SET state = 'dropped' WHERE id = 2",
    "shown and not noted": "DELETE FROM exposure WHERE rowid = 1",
    "more than three out": "UPDATE trial SET state = 'live' WHERE session_id = 1",
    "acknowledged and lost": "UPDATE response SET choice = 'dog' WHERE trial_id = 2",
    "never sent": "UPDATE response SET client_uuid = 'x' WHERE trial_id = 2",
}


def test_a_study_that_went_well_violates_nothing(answered):
    folder, sent = answered
    assert violations(folder.database_url, sent, sent) == {}
    assert set(HARM) >= set(NEVER)


@pytest.mark.parametrize("what", HARM)
def test_each_kind_of_harm_to_a_database_is_found(answered, tmp_path, what):
    folder, sent = answered
    copy = tmp_path / "copy.sqlite"
    shutil.copy(folder.path / "answers.sqlite", copy)
    one = sqlite3.connect(copy)
    assert one.execute(HARM[what]).rowcount > 0
    one.commit()
    one.close()
    assert what in violations(f"sqlite:///{copy}", sent, sent)


def test_a_trial_that_is_handed_out_while_all_are_counted_anew_is_counted(tmp_path):
    """On PostgreSQL only: SQLite has one writer at a time."""
    with one_stimulus_on_postgresql(tmp_path) as (folder, client, watcher):
        Visitor(client).begin()
        with client.database.writing() as db:
            (session,) = db.scalars(select(Session.id)).all()
            _allocate(db, folder.config, locked(db, session), str(uuid4()), datetime.now(UTC))

            def count_anew():
                with client.database.writing() as other:
                    recount(other, client.row.id)

            counter = threading.Thread(target=count_anew)
            counter.start()
            wait_for_lock(watcher, 1)
        counter.join()
        assert rows(folder.database_url, NEVER["miscounted"]) == []
        assert rows(folder.database_url, "SELECT taken FROM stimulus") == [(1,)]


def test_an_answer_at_the_moment_its_lease_is_taken_back_is_counted(tmp_path):
    """On PostgreSQL only: SQLite has one writer at a time."""
    now = [datetime.now(UTC)]
    with one_stimulus_on_postgresql(tmp_path, clock=lambda: now[0]) as (folder, client, holder):
        slow, quick = Visitor(client).begin(), Visitor(client).begin()
        out = slow.next()["trial"]["id"]
        now[0] += timedelta(minutes=16)
        # somebody else holds the stimulus, so that taking the lease back takes its time
        holder.execute("SELECT 1 FROM stimulus FOR UPDATE")
        replies = {}
        sweep = threading.Thread(target=lambda: replies.update(sweep=quick.next()))
        sweep.start()
        wait_for_lock(holder, 1)
        late = threading.Thread(target=lambda: replies.update(late=slow.answer(out)))
        late.start()
        wait_for_lock(holder, 2)
        holder.rollback()
        sweep.join()
        late.join()
        assert replies["late"].status_code == 200
        assert rows(folder.database_url, NEVER["miscounted"]) == []


def test_a_page_that_is_reloaded_while_its_lease_is_taken_back_drops_the_trial_once(tmp_path):
    """On PostgreSQL only: SQLite has one writer at a time."""
    now = [datetime.now(UTC)]
    with one_stimulus_on_postgresql(tmp_path, clock=lambda: now[0]) as (folder, client, holder):
        slow, quick = Visitor(client).begin(), Visitor(client).begin()
        slow.next()
        now[0] += timedelta(minutes=16)
        holder.execute("SELECT 1 FROM stimulus FOR UPDATE")
        sweep = threading.Thread(target=quick.next)
        sweep.start()
        wait_for_lock(holder, 1)
        reload = threading.Thread(target=slow.claim)
        reload.start()
        wait_for_lock(holder, 2)
        holder.rollback()
        sweep.join()
        reload.join()
        assert rows(folder.database_url, NEVER["miscounted"]) == []


@contextmanager
def one_stimulus_on_postgresql(tmp_path, **options):
    """Give a study of one stimulus for two, a client, and a connection of one's own."""
    import psycopg
    from sqlalchemy import make_url

    with postgresql() as url:
        folder = make_study(tmp_path / "s", sizes=Sizes(1, 1, 0, 0, 0), url=url, practice=0,
                            qualification=0, catch=0, trials=1, k=2)  # fmt: skip
        where = {"host": make_url(url).query["host"], "user": "eyechart", "dbname": "postgres"}
        with in_process(folder, **options) as client, psycopg.connect(**where) as own:
            yield folder, client, own


def wait_for_lock(connection, count):
    """Wait until so many others wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    for _ in range(500):
        # the view is a snapshot of the transaction
        connection.execute("SELECT pg_stat_clear_snapshot()")
        if connection.execute(query).fetchone()[0] >= count:
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"no {count} wait for a lock")
