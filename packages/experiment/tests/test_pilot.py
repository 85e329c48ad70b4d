"""What counts as data and what does not; and what a monitor is told about a full disk."""

import csv
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from commands import assert_rejected
from experiment_studies import Sizes, Visitor, in_process, make_study
from eyechart_experiment.export.study_export import export
from eyechart_experiment.server import routes

NO_TESTS = {"practice": 0, "qualification": 0, "catch": 0, "trials": 4}


@pytest.fixture
def folder(tmp_path):
    return make_study(tmp_path / "study", sizes=Sizes(main=12, stimuli=1), **NO_TESTS)


@contextmanager
def served(folder):
    """Give a client of a server whose clock advances by 5 s at each request."""
    start, seconds = datetime.now(UTC), count(0, 5)
    with in_process(folder, clock=lambda: start + timedelta(seconds=next(seconds))) as client:
        yield client


def take_part(client):
    """Take part to the end; return the participant code."""
    visitor = Visitor(client).begin()
    while (step := visitor.next())["next"] == "trial":
        assert visitor.response(step["trial"]["id"]).status_code == 200
    return visitor.finish().json()["participant"]


def taken(client):
    from sqlalchemy import func, select

    from eyechart_experiment.storage.database_tables import StimulusRow

    with client.database.reading() as db:
        return db.scalar(select(func.sum(StimulusRow.taken)).where(StimulusRow.role == "main"))


def excluded(folder):
    with (folder.path / "export" / "exclusions.csv").open(encoding="utf-8", newline="") as file:
        return {(row["participant"], row["rule"]) for row in csv.DictReader(file)}


def test_sessions_of_the_lab_do_not_count_as_data(folder, run):
    with served(folder) as client:
        own, first = take_part(client), take_part(client)
        assert taken(client) == 8
        done = run("experiment", "pilot", folder.path, own.lower())
        assert done.status == 0 and "as a pilot: 1." in done.out
        # Others get the trials of the pilot.
        assert taken(client) == 4
        assert "as a pilot: 1." in run("experiment", "pilot", folder.path, "--all").out
        assert taken(client) == 0
        participant = take_part(client)
    done = export(folder)
    assert (len(done.kept), done.n_participants, done.n_excluded) == (4, 1, 2)
    assert {(own, "pilot"), (first, "pilot")} == excluded(folder)
    assert (participant, "pilot") not in excluded(folder)
    assert {step.rule: step.count for step in done.flow}["pilot"] == 2


def test_a_code_that_no_session_has_is_rejected_and_nothing_is_marked(folder, run):
    with in_process(folder) as client:
        own = take_part(client)
        rejected = run("experiment", "pilot", folder.path, own, "PXXXXXXXXXX")
        assert_rejected(rejected, "No session has the code 'PXXXXXXXXXX': nothing is marked.")
        assert_rejected(run("experiment", "pilot", folder.path), "or --all")
        assert_rejected(run("experiment", "pilot", folder.path, own, "--all"), "or --all")
        assert taken(client) == 4


def test_the_number_of_excluded_sessions_is_that_of_the_flow(tmp_path, run):
    # The rules exclude sessions without catch trials, which those in progress still lack.
    folder = make_study(tmp_path / "study", sizes=Sizes(main=30, stimuli=1), practice=0,
                        qualification=0, trials=8, catch=4, k=9)  # fmt: skip
    with in_process(folder) as client:
        for _ in range(3):
            visitor = Visitor(client).begin()
            visitor.response(visitor.next()["trial"]["id"])
        take_part(client)
    done = export(folder)
    steps = {}
    for step in done.flow:
        steps[step.step] = steps.get(step.step, 0) + (step.count or 0)
    assert steps["still taking part"] == 3
    assert done.n_excluded == steps["excluded"]
    result = run("experiment", "export", folder.path)
    assert steps["excluded"] == 1 and "1 session violates a rule and is excluded" in result.out


def test_a_full_disk_is_not_healthy(folder, monkeypatch):
    with in_process(folder) as client:
        assert client.get("/healthz").status_code == 200
        # More than any disk has.
        monkeypatch.setattr(routes, "MIN_FREE", 2**80)
        reply = client.get("/healthz")
        assert (reply.status_code, reply.json()["code"]) == (503, "disk_full")
        assert client.head("/healthz").status_code == 503
