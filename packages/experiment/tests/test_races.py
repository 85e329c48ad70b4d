"""What can go wrong between two transactions on PostgreSQL; SQLite has one writer at a time."""

import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import select

from experiment_invariants import NEVER, address, rows
from experiment_postgres import postgresql
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart_experiment.server.trial_allocation import _allocate, admit_everybody
from eyechart_experiment.storage.database_tables import SessionRow, StimulusRow
from eyechart_experiment.storage.stimulus_counts import recount


@pytest.fixture(scope="module")
def cluster():
    with postgresql() as url:
        yield url


@pytest.fixture
def url(cluster):
    """Give the URL of a new database."""
    name = f"d{uuid4().hex}"
    with psycopg.connect(**address(cluster), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return cluster.replace("/postgres?", f"/{name}?")


def test_a_trial_that_is_handed_out_while_all_are_counted_anew_is_counted(tmp_path, url):
    with one_stimulus(tmp_path, url) as (folder, client, watcher):
        Visitor(client).begin()
        with client.database.writing() as db:
            (session,) = db.scalars(select(SessionRow.id)).all()
            now = datetime.now(UTC)
            _allocate(db, folder.config, session, str(uuid4()), now, admit=admit_everybody)

            def count_anew():
                with client.database.writing() as other:
                    recount(other, StimulusRow.study_id == client.study.id)

            counter = threading.Thread(target=count_anew)
            counter.start()
            wait_for_lock(watcher, 1)
        counter.join()
        assert rows(folder.database_url, NEVER["miscounted"]) == []
        assert rows(folder.database_url, "SELECT taken FROM stimulus") == [(1,)]


def test_a_response_at_the_moment_its_lease_is_taken_back_is_counted(tmp_path, url):
    now = [datetime.now(UTC)]
    with one_stimulus(tmp_path, url, clock=lambda: now[0]) as (
        folder,
        client,
        holder,
    ):
        slow, quick = Visitor(client).begin(), Visitor(client).begin()
        out = slow.next()["trial"]["id"]
        now[0] += timedelta(minutes=16)
        # somebody else holds the stimulus, so that taking the lease back takes its time
        holder.execute("SELECT 1 FROM stimulus FOR UPDATE")
        replies = {}
        sweep = threading.Thread(target=lambda: replies.update(sweep=quick.next()))
        sweep.start()
        wait_for_lock(holder, 1)
        late = threading.Thread(target=lambda: replies.update(late=slow.response(out)))
        late.start()
        wait_for_lock(holder, 2)
        holder.rollback()
        sweep.join()
        late.join()
        assert replies["late"].status_code == 200
        assert rows(folder.database_url, NEVER["miscounted"]) == []


def test_a_page_that_is_reloaded_while_its_lease_is_taken_back_drops_the_trial_once(tmp_path, url):
    now = [datetime.now(UTC)]
    with one_stimulus(tmp_path, url, clock=lambda: now[0]) as (
        folder,
        client,
        holder,
    ):
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
def one_stimulus(tmp_path, url, **options):
    """Give a study of one stimulus for two, a client, and a connection of one's own."""
    folder = make_study(tmp_path / "s", sizes=Sizes(1, 1, 0, 0, 0), url=url, practice=0,
                        qualification=0, catch=0, trials=1, k=2)  # fmt: skip
    with in_process(folder, **options) as client, psycopg.connect(**address(url)) as own:
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
